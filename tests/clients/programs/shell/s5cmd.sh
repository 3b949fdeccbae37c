#!/usr/bin/env bash
# s5cmd. Does one operation, the first argument.
set -euo pipefail

# docs:begin
export S3_ENDPOINT_URL=$S3_ENDPOINT AWS_REGION=$S3_REGION
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY
if [[ -n ${FENCE_TOKEN:-} ]]; then
  export AWS_SESSION_TOKEN=fence:$FENCE_TOKEN
fi
# docs:end
if [[ -n ${S3_CA_FILE:-} ]]; then
  export SSL_CERT_FILE=$S3_CA_FILE
fi

root=s3://$S3_BUCKET/$S3_PREFIX
case $1 in
  put) s5cmd cp "$SMALL_FILE" "$root/put" ;;
  get) s5cmd cat "$root/source" ;;
  list) s5cmd ls "$root/listed/" ;;
  copy) s5cmd cp "$root/source" "$root/copy" ;;
  multipart) s5cmd cp --part-size 8 "$LARGE_FILE" "$root/multipart" ;;
  delete-batch) s5cmd rm "$root/batch/*" ;;
  presign) printf 'GET %s\n' "$(s5cmd presign --expire 60s "$root/source")" ;;
esac
