#!/usr/bin/env bash
# Checks and times surepipe on a machine with a card but without Go or a CUDA toolkit.
#
#   cuda/bench/bench.sh OUT [CUBLAS]      here: builds OUT
#   OUT/run.sh [REPORT]                   there: checks against the host, then times
#
# CUBLAS is the version of cuBLAS on that machine, 11, 12 or 13 (ldconfig -p | grep
# libcublas there). What OUT holds is linked against stubs with the names of that
# machine's libraries. Its libc must be as new as the one here.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cublas=${2:-12}
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${SUREPIPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/surepipe}
"$root/cuda/emulator/headers.sh" "$cache/cuda-headers"
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
"$root/cuda/emulator/build.sh" "$cache/cuda-headers" "$stubs" "$cublas"
cd "$root"
export C_INCLUDE_PATH="$cache/cuda-headers" LIBRARY_PATH="$stubs"
go test -c -tags cuda -o "$out/cuda.test" ./cuda
go build -tags cuda -o "$out/surepipe" ./cmd/surepipe
mkdir -p "$out/testdata"
cp testdata/*.npz "$out/testdata"
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# Checks the card against the host device, then times every room and the paper's tables.
set -euo pipefail
cd "$(dirname "$0")"
exec > >(tee "${1:-report.txt}") 2>&1
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,clocks.max.mem --format=csv
./surepipe info
echo "== the card conforms, and every problem gives the host's risk"
./cuda.test -test.v -test.run 'Conform|Problems|Open'
echo "== the README's jobs"
for device in cuda cpu; do
  ./surepipe run --problem lasso --data testdata/diabetes.npz --device "$device"
  ./surepipe run --problem matrix-completion --data testdata/completion.npz --device "$device"
done
echo "== bytes, operations and shares of the card's measured ceilings"
./cuda.test -test.run '^$' -test.bench 'Ceilings|Array|Products|Prox|Hutch' -test.benchtime "${BENCHTIME:-50x}"
echo "== the paper's tables"
SUREPIPE_BENCH_HOST=1 ./cuda.test -test.run '^$' -test.bench Paper -test.benchtime 1x -test.timeout 2h
RUN
chmod +x "$out/run.sh"
echo "built $out for cuBLAS $cublas; copy it there and run run.sh"
