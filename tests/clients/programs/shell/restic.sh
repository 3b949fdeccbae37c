#!/usr/bin/env bash
# restic. Does one of its commands, the first argument, on a repository below the prefix.
set -euo pipefail

# docs:begin
export RESTIC_REPOSITORY=s3:$S3_ENDPOINT/$S3_BUCKET/$S3_PREFIX AWS_DEFAULT_REGION=$S3_REGION
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY
if [[ -n ${FENCE_TOKEN:-} ]]; then
  export AWS_SESSION_TOKEN=fence:$FENCE_TOKEN
fi
# docs:end
export RESTIC_PASSWORD=password
if [[ -n ${S3_CA_FILE:-} ]]; then
  export RESTIC_CACERT=$S3_CA_FILE
fi

options=(--no-cache --quiet -o s3.bucket-lookup=path)
case $1 in
  init) restic "${options[@]}" init ;;
  backup) restic "${options[@]}" backup "$SMALL_FILE" "$LARGE_FILE" ;;
  snapshots) restic "${options[@]}" snapshots --compact ;;
  restore) restic "${options[@]}" restore latest --target "$SCRATCH/restored" ;;
  # It would repeat for minutes what is refused, so its time is bounded.
  forget) timeout --signal=INT 4 restic "${options[@]}" forget --group-by host --keep-last 1 --prune ;;
esac
