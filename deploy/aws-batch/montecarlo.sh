#!/bin/bash
# An array job of shards, and the merge that follows it:
#
#   aws batch register-job-definition --cli-input-json file://job-definition.json
#   deploy/aws-batch/montecarlo.sh QUEUE /data/OUT.jsonl SHARDS surepipe montecarlo --problem ... --data /data/...
#
# In the job definition, image is where you have put the image of deploy/Containerfile, and the volume
# is a folder that all instances share, such as one of EFS. Status 2, bad input, is not tried again; a
# shard whose instance is lost goes on from its file. An array has 2 to 10000 shards.
set -euo pipefail
if [ $# -lt 5 ]; then
  sed -n '2,10p' "$0" >&2
  exit 2
fi
queue=$1 out=$2 shards=$3
shift 3
# words prints its arguments as a list of JSON.
words() {
  local w list=
  for w in "$@"; do
    w=${w//\\/\\\\}
    list+=", \"${w//\"/\\\"}\""
  done
  printf '[%s]' "${list:2}"
}
submit() { aws batch submit-job --job-queue "$queue" --job-definition surepipe --query jobId --output text "$@"; }
array=$(submit --job-name surepipe --array-properties "size=$shards" \
  --container-overrides "{\"command\": $(words "$@" --jsonl "$out" --shard auto)}")
merge="exec $1 merge ${out%.jsonl}.shard-*-of-$(printf '%04d' "$shards").jsonl --jsonl $out"
# An array counts as done when all of its shards are.
submit --job-name surepipe-merge --depends-on "jobId=$array" \
  --container-overrides "{\"command\": $(words sh -c "$merge")}"
