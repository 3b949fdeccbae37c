#!/usr/bin/env bash
# s3cmd. Does one operation, the first argument.
set -euo pipefail

address=${S3_ENDPOINT#*://}
options=(
  --config=/dev/null --no-progress --no-guess-mime-type
  "--access_key=$S3_ACCESS_KEY" "--secret_key=$S3_SECRET_KEY" "--region=$S3_REGION"
  # Without %(bucket)s in it: path style.
  "--host=$address" "--host-bucket=$address"
)
if [[ -n ${S3_CA_FILE:-} ]]; then
  options+=(--ssl "--ca-certs=$S3_CA_FILE")
else
  options+=(--no-ssl)
fi

# docs:begin
if [[ -n ${FENCE_TOKEN:-} ]]; then
  options+=("--access_token=fence:$FENCE_TOKEN")
fi
# docs:end

root=s3://$S3_BUCKET/$S3_PREFIX
case $1 in
  put) s3cmd "${options[@]}" put "$SMALL_FILE" "$root/put" ;;
  get) s3cmd "${options[@]}" get "$root/source" - ;;
  list) s3cmd "${options[@]}" ls "$root/listed/" ;;
  copy) s3cmd "${options[@]}" cp "$root/source" "$root/copy" ;;
  multipart) s3cmd "${options[@]}" --multipart-chunk-size-mb=8 put "$LARGE_FILE" "$root/multipart" ;;
  delete-batch) s3cmd "${options[@]}" del --recursive "$root/batch/" ;;
esac
