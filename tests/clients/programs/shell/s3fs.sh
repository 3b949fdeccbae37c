#!/usr/bin/env bash
# s3fs-fuse: mounts the bucket, does one operation (the first argument), unmounts.
set -euo pipefail

mountpoint=$SCRATCH/mount cache=$SCRATCH/cache
mkdir -p "$mountpoint" "$cache"
options=(-o "url=$S3_ENDPOINT,use_path_request_style,endpoint=$S3_REGION,tmpdir=$cache,multipart_size=8")
if [[ -n ${S3_CA_FILE:-} ]]; then
  export CURL_CA_BUNDLE=$S3_CA_FILE
fi

# docs:begin
export AWSACCESSKEYID=$S3_ACCESS_KEY AWSSECRETACCESSKEY=$S3_SECRET_KEY
if [[ -n ${FENCE_TOKEN:-} ]]; then
  export AWSSESSIONTOKEN=fence:$FENCE_TOKEN
  options+=(-o use_session_token)
fi
# docs:end
# Not as a daemon: it is to end with whatever ends this script.
s3fs -f "$S3_BUCKET" "$mountpoint" "${options[@]}" >"$SCRATCH/s3fs.log" 2>&1 &
trap 'fusermount -u "$mountpoint"; wait' EXIT
until mountpoint --quiet "$mountpoint"; do
  kill -0 $! # Fails, and with it the script, if s3fs has given up.
  sleep 0.05
done

root=$mountpoint/$S3_PREFIX
case $1 in
  put) cp "$SMALL_FILE" "$root/put" ;;
  get) cat "$root/source" ;;
  list) ls -1 "$root/listed" ;;
  multipart) cp "$LARGE_FILE" "$root/multipart" ;;
esac
