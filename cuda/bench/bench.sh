#!/usr/bin/env bash
# Checks and times surepipe on a machine with a card but without Go or a CUDA toolkit.
#
#   cuda/bench/bench.sh OUT [CUBLAS...]   here: builds OUT
#   OUT/run.sh [REPORT]                   there: checks against the host, then times
#
# CUBLAS are versions of cuBLAS that the machine may have, by default 11, 12 and 13: what
# OUT holds is linked against stubs with the names of its libraries, once a version, and
# run.sh takes the one it finds. That machine's libc must be as new as the one here.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- 11 12 13
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${SUREPIPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/surepipe}
"$root/cuda/emulator/headers.sh" "$cache/cuda-headers"
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
cd "$root"
for cublas in "$@"; do
  "$root/cuda/emulator/build.sh" "$cache/cuda-headers" "$stubs/$cublas" "$cublas"
  export C_INCLUDE_PATH="$cache/cuda-headers" LIBRARY_PATH="$stubs/$cublas"
  go test -c -tags cuda -o "$out/cublas-$cublas/cuda.test" ./cuda
  go build -tags cuda -o "$out/cublas-$cublas/surepipe" ./cmd/surepipe
done
mkdir -p "$out/testdata"
cp testdata/*.npz "$out/testdata"
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# Checks the card against the host device, then times every room and the paper's tables:
#   run.sh [REPORT]
# BENCHTIME (default 50x) is Go's -benchtime for the rooms, ROWS (default all) a pattern of
# the tables' rows. A check that fails does not keep the times from being taken.
set -euo pipefail
cd "$(dirname "$0")"
exec > >(tee "${1:-report.txt}") 2>&1
# Where cuBLAS may be: a toolkit, conda, pip.
places() {
  local site
  tr : '\n' <<<"${LD_LIBRARY_PATH:-}"
  printf '%s\n' /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib "${CONDA_PREFIX:-/none}/lib"
  for site in $(python3 -c 'import site; print(*site.getsitepackages(), site.getusersitepackages())' 2>/dev/null); do
    printf '%s\n' "$site"/nvidia/{cublas,cu13}/lib
  done
}
at=
for folder in $(ls -d cublas-* | sort -r -t- -k2n); do
  name=libcublas.so.${folder#cublas-}
  if /sbin/ldconfig -p 2>/dev/null | grep -q "$name "; then at=$folder; fi
  while [ -z "$at" ] && read -r place; do
    if [ -e "$place/$name" ]; then
      at=$folder
      export LD_LIBRARY_PATH="$place${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    fi
  done < <(places)
  [ -z "$at" ] || break
done
[ -n "$at" ] || { echo "no cuBLAS of a version that this was built for: $(echo cublas-*). Set LD_LIBRARY_PATH to where libcublas.so.N is."; exit 1; }
failed=
check() { "$@" || { failed=yes; echo "FAILED: $*"; }; }
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,clocks.max.mem --format=csv || true
fi
echo "$at"
"$at/surepipe" info
"$at/surepipe" info | grep -q 'cuda:0' || { echo "no card was found"; exit 1; }
echo "== the card conforms, and every problem gives the host's risk"
check "$at/cuda.test" -test.v -test.run 'Conform|Problems|ImagesGive'
echo "== the README's jobs"
for device in cuda cpu; do
  check "$at/surepipe" run --problem lasso --data testdata/diabetes.npz --device "$device"
  check "$at/surepipe" run --problem matrix-completion --data testdata/completion.npz --device "$device"
done
echo "== bytes, operations and shares of the card's measured ceilings"
check "$at/cuda.test" -test.run '^$' -test.bench 'Ceilings|Array|Products|Scanners|Fourier|Differences|Prox|Hutch' -test.benchtime "${BENCHTIME:-50x}"
echo "== the paper's tables, solve and divergence apart, on the card and on the processor"
SUREPIPE_BENCH_HOST=1 check "$at/cuda.test" -test.run '^$' -test.bench "Paper/${ROWS:-.}" -test.benchtime 1x -test.timeout 2h
[ -z "$failed" ] || { echo "a check has failed, see above"; exit 1; }
RUN
chmod +x "$out/run.sh"
echo "built $out for cuBLAS $*; copy it there and run run.sh"
