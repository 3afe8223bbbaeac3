#!/bin/bash
# A Slurm cluster of several nodes on this machine, for tests:
#
#   deploy/slurm/cluster.sh NODES COMMAND...
#
# starts munged, slurmctld and one slurmd a node in a temporary folder, $CLUSTER, runs the command
# beside them, and ends them. It needs the Debian packages slurmctld, slurmd, slurm-client and munge,
# and neither systemd nor cgroups. $CLUSTER/node-K.pid is the process of node K's slurmd.
set -euo pipefail
nodes=$1
shift
CLUSTER=$(mktemp -d "${TMPDIR:-/tmp}/slurm-XXXXXX")
chmod 755 "$CLUSTER"
mkdir -m 755 "$CLUSTER"/{state,spool,logs,munge}
host=$(hostname -s)
address=$(getent ahostsv4 "$host" | awk 'NR == 1 { print $1 }')
port=$((20000 + $$ % 20000))
export CLUSTER SLURM_CONF=$CLUSTER/slurm.conf
cat > "$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(${address:-127.0.0.1})
SlurmctldPort=$port
${address:+CommunicationParameters=NoInAddrAny,NoCtldInAddrAny}
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=5
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool/%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1,sched_interval=1,bf_interval=1
ReturnToService=2
JobRequeue=1
SlurmdTimeout=5
KillWait=2
NodeName=node-[0-$((nodes - 1))] NodeHostname=$host NodeAddr=${address:-127.0.0.1} Port=[$((port + 1))-$((port + nodes))] CPUs=1 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF

pids=()
start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >> "$CLUSTER/logs/$name.log" 2>&1 &
  pids+=($!)
  echo $! > "$CLUSTER/$name.pid"
}
finish() {
  # A job's processes outlive their slurmd, so jobs end first.
  timeout 5 scancel --full --signal=KILL --user="$(id -un)" 2>> "$CLUSTER/logs/finish.log" || true
  timeout 5 scancel --user="$(id -un)" 2>> "$CLUSTER/logs/finish.log" || true
  kill "${pids[@]}" 2>/dev/null || true
  for ((i = 0; i < 50; i++)); do
    kill -0 "${pids[@]}" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$CLUSTER"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

(umask 077 && head -c 1024 /dev/urandom > "$CLUSTER/munge/key")
start munged munged --force --foreground --key-file="$CLUSTER/munge/key" --socket="$CLUSTER/munge/socket" \
  --pid-file="$CLUSTER/munge/pid" --log-file="$CLUSTER/logs/munge.log" --seed-file="$CLUSTER/munge/seed"
for ((i = 0; i < 200; i++)); do
  [ ! -S "$CLUSTER/munge/socket" ] || break
  sleep 0.05
done
start slurmctld slurmctld -D -f "$SLURM_CONF"
for ((k = 0; k < nodes; k++)); do
  start "node-$k" slurmd -D -N "node-$k" -f "$SLURM_CONF"
done
for ((i = 0; ; i++)); do
  [ "$(timeout 2 sinfo -h -t idle -o %D 2>/dev/null || true)" != "$nodes" ] || break
  if [ $i -ge 300 ]; then
    echo "cluster.sh: the nodes are not up after a minute" >&2
    tail -n 5 "$CLUSTER"/logs/*.log >&2
    exit 1
  fi
  sleep 0.2
done
"$@"
