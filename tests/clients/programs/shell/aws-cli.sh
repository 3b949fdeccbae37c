#!/usr/bin/env bash
# aws-cli. Does one operation, the first argument.
set -euo pipefail

# docs:begin
export AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_DEFAULT_REGION=$S3_REGION
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY
if [[ -n ${FENCE_TOKEN:-} ]]; then
  export AWS_SESSION_TOKEN=fence:$FENCE_TOKEN
fi
# docs:end
if [[ -n ${S3_CA_FILE:-} ]]; then
  export AWS_CA_BUNDLE=$S3_CA_FILE
fi

root=s3://$S3_BUCKET/$S3_PREFIX
case $1 in
  put) aws s3api put-object --bucket "$S3_BUCKET" --key "$S3_PREFIX/put" --body "$SMALL_FILE" ;;
  get) aws s3 cp "$root/source" - ;;
  list) aws s3 ls "$root/listed/" ;;
  copy) aws s3 cp --only-show-errors "$root/source" "$root/copy" ;;
  multipart) aws s3 cp --only-show-errors "$LARGE_FILE" "$root/multipart" ;;
  delete-batch)
    objects=$(printf '{"Key": "%s"}, ' "$S3_PREFIX"/batch/{a,b,c})
    answer=$(aws s3api delete-objects --bucket "$S3_BUCKET" --delete "{\"Objects\": [${objects%, }]}" --output json)
    # It is content with refused keys.
    if [[ $answer == *'"Errors"'* ]]; then
      printf '%s\n' "$answer" >&2
      exit 1
    fi
    ;;
  presign)
    # Its own choice is an older signature, which holds no token.
    export AWS_CONFIG_FILE=$SCRATCH/aws-config
    aws configure set default.s3.signature_version s3v4
    printf 'GET %s\n' "$(aws s3 presign "$root/source" --expires-in 60)"
    ;;
esac
