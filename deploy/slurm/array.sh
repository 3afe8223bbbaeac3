#!/bin/bash
# An array of shards and the merge that follows it:
#
#   deploy/slurm/array.sh OUT.jsonl SHARDS surepipe montecarlo --problem ... --data ...
#
# and the same for surepipe sweep. It submits SHARDS tasks with --shard auto/SHARDS,
# and a job that merges their files to OUT.jsonl when all have ended, prints both jobs' numbers, and
# returns. Options for sbatch (partition, memory, time, account) come from SBATCH_ variables or from
# $SBATCH_FLAGS; options for surepipe merge from $MERGE_FLAGS. The folder of OUT.jsonl must be one that
# all nodes share; so must the program and the data.
#
# A task whose node fails is requeued and goes on from its file. If the merge finds that shards are
# missing it fails with status 4 and writes the array to run again to its log; the same command with
#
#   ARRAY=2,5-6 deploy/slurm/array.sh ...
#
# computes those and merges again.
set -euo pipefail
if [ $# -lt 4 ]; then
  sed -n '2,18p' "$0" >&2
  exit 2
fi
out=$1 shards=$2
shift 2
logs=$(dirname "$out")
# Words are quoted once for the shell that runs the job.
command=$(printf ' %q' "$@" --jsonl "$out" --shard "auto/$shards")
array=$(sbatch --parsable --requeue ${SBATCH_FLAGS:-} --job-name=surepipe --array="${ARRAY:-0-$((shards - 1))}" \
  --output="$logs/surepipe-%A-%a.log" --open-mode=append --wrap="exec$command")
# afterany, not afterok: a task that was killed and requeued counts as failed.
merge=$(sbatch --parsable --requeue ${SBATCH_FLAGS:-} --job-name=surepipe-merge --dependency="afterany:${array%%;*}" \
  --output="$logs/surepipe-merge-%j.log" \
  --wrap="$(printf '%q merge' "$1") $(printf '%q' "${out%.jsonl}").shard-*-of-$(printf '%04d' "$shards").jsonl --jsonl $(printf '%q' "$out") ${MERGE_FLAGS:-}")
echo "array ${array%%;*} merge ${merge%%;*}"
