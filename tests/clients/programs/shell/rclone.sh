#!/usr/bin/env bash
# rclone. Does one operation, the first argument.
set -euo pipefail

# docs:begin
export RCLONE_CONFIG_PROXY_TYPE=s3 RCLONE_CONFIG_PROXY_PROVIDER=Other
export RCLONE_CONFIG_PROXY_ENDPOINT=$S3_ENDPOINT RCLONE_CONFIG_PROXY_REGION=$S3_REGION
export RCLONE_CONFIG_PROXY_ACCESS_KEY_ID=$S3_ACCESS_KEY RCLONE_CONFIG_PROXY_SECRET_ACCESS_KEY=$S3_SECRET_KEY
if [[ -n ${FENCE_TOKEN:-} ]]; then
  export RCLONE_CONFIG_PROXY_SESSION_TOKEN=fence:$FENCE_TOKEN
fi
# docs:end
export RCLONE_CONFIG=/dev/null RCLONE_S3_NO_CHECK_BUCKET=true
if [[ -n ${S3_CA_FILE:-} ]]; then
  export RCLONE_CA_CERT=$S3_CA_FILE
fi

root=proxy:$S3_BUCKET/$S3_PREFIX
case $1 in
  put) rclone copyto --ignore-times "$SMALL_FILE" "$root/put" ;;
  get) rclone cat "$root/source" ;;
  list) rclone lsf "$root/listed/" ;;
  copy) rclone copyto --ignore-times "$root/source" "$root/copy" ;;
  multipart) rclone copyto --ignore-times --s3-upload-cutoff 8M --s3-chunk-size 8M "$LARGE_FILE" "$root/multipart" ;;
  presign) printf 'GET %s\n' "$(rclone link --expire 60s "$root/source")" ;;
esac
