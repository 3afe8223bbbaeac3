#!/bin/bash
# Checks array.sh on a real Slurm, against the bytes of one machine's run, times aside: a Monte Carlo
# array of 8 shards on two nodes, one of which fails in the middle; and an array of a sweep, of which a task
# is killed and computed again because the merge asks for it.
#
#   deploy/slurm/cluster.sh 2 deploy/slurm/check.sh SUREPIPE
set -euo pipefail
program=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$program" generate --problem matrix-completion --rows 100 --cols 50 --seed 3 --out mc.npz
run=("$program" montecarlo --problem matrix-completion --data mc.npz --samples "${SAMPLES:-96}" --seeds 5 --parallel 1)
"${run[@]}" --jsonl whole.jsonl > whole.out 2> whole.err

read -r _ array _ merge < <("$here/array.sh" "$work/out.jsonl" 8 "${run[@]}")
echo "array $array, merge $merge"

# state JOB: how many of its tasks are in each state.
state() { squeue -h -r -j "$1" -o %T 2>/dev/null | sort | uniq -c | tr '\n' ' '; }

# Processes of tasks on a node.
of() { # NODE
  { grep -lszx "SLURMD_NODENAME=$1" /proc/[0-9]*/environ || true; } | cut -d / -f 3
}

# As soon as a task computes on node 1 the node loses power: its slurmd and all processes of its tasks
# are gone at once.
for ((i = 0; ; i++)); do
  tasks=$(of node-1)
  [ -z "$tasks" ] || break
  [ $i -lt 300 ] || { echo "no task has begun on node 1: $(state "$array")" >&2; exit 1; }
  sleep 0.1
done
sleep 0.3
kill -9 "$(cat "$CLUSTER/node-1.pid")"
for task in $(of node-1); do
  step=$(awk '{ print $4 }' "/proc/$task/stat" 2>/dev/null || true)
  case $(cat "/proc/$step/comm" 2>/dev/null || true) in slurmstepd*) kill -9 "$step" ;; esac
  kill -9 "$task" 2>/dev/null || true
done
echo "node 1 has failed: $(state "$array")"
# The controller notices after SlurmdTimeout, and requeues the task.
restarted() { scontrol show jobs "$array" | grep -c 'Restarts=[1-9]' || true; }
for ((i = 0; i < 300; i++)); do
  [ "$(restarted)" = 0 ] || break
  sleep 0.2
done
echo "requeued: $(restarted), $(state "$array")"
slurmd -D -N node-1 -f "$SLURM_CONF" >> "$CLUSTER/logs/node-1.log" 2>&1 &
back=$!
trap 'kill $back 2>/dev/null || true; rm -rf "$work"' EXIT

for ((i = 0; i < 1200; i++)); do
  [ -n "$(squeue -h -j "$merge" 2>/dev/null)" ] || break
  sleep 0.2
done
if [ ! -f out.jsonl ]; then
  echo "nothing was merged: $(state "$array")" >&2
  tail -n 5 surepipe-*.log >&2
  scontrol show jobs >&2
  exit 1
fi
requeued=$(restarted)
[ "$requeued" -ge 1 ] || { echo "no task was requeued: the test has shown nothing" >&2; exit 1; }
without_times() { sed -E 's/"seconds":(\{[^}]*\}|[0-9.e+-]+)/"seconds":0/g' "$1"; }
cmp <(without_times whole.jsonl) <(without_times out.jsonl)
echo "$(wc -l < out.jsonl) lines merged from 8 shards, $requeued requeued: equal to one machine's"

# The first task that computes is killed, and counts as failed.
sweep=("$program" sweep --problem matrix-completion --data mc.npz --lambda 0.05max:max:16 --chain 2 --refine 2 --queries 60)
"${sweep[@]}" --jsonl sweep.whole > sweep.out 2>&1 || [ $? = 3 ]
submit() { "$here/array.sh" "$work/sweep.jsonl" 4 "${sweep[@]}"; }
kill_task() { # ARRAY
  local dir
  for ((i = 0; i < 300; i++)); do
    for task in $(grep -lszx "SLURM_ARRAY_JOB_ID=$1" /proc/[0-9]*/environ | cut -d / -f 3); do
      if [ "$(cat "/proc/$task/comm" 2>/dev/null)" = "$(basename "$program")" ]; then
        kill -9 "$task" 2>/dev/null && return
      fi
    done
    sleep 0.02
  done
  echo "no task of array $1 has begun: $(state "$1")" >&2
  exit 1
}
await() { # JOB
  for ((i = 0; i < 600; i++)); do
    [ -n "$(squeue -h -j "$1" 2>/dev/null)" ] || return 0
    sleep 0.1
  done
}
read -r _ array _ merge < <(submit)
kill_task "$array"
await "$merge"
again=$(sed -n 's/.*"array":"\([0-9,-]*\)".*/\1/p' "surepipe-merge-$merge.log")
if [ -z "$again" ]; then
  echo "the merge asks for nothing, though a task was killed" >&2
  cat "surepipe-merge-$merge.log" >&2
  exit 1
fi
read -r _ array _ merge < <(ARRAY=$again submit)
await "$merge"
if [ ! -f sweep.jsonl ]; then
  echo "nothing was merged" >&2
  tail -n 5 surepipe-*.log >&2
  exit 1
fi
cmp <(without_times sweep.whole) <(without_times sweep.jsonl)
echo "sweep merged from 4 shards, of which $again were computed again: equal to one machine's"
