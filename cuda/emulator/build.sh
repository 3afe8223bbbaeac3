#!/usr/bin/env bash
# Builds the emulated driver: build.sh HEADERS OUT [CUBLAS]
#
# HEADERS is the folder with cuda.h and cublas_v2.h, OUT where libcuda.so and
# libcublas.so go, CUBLAS the version in cuBLAS's soname, 11, 12 or 13 (default: that
# of the headers). A binary linked against OUT runs on a machine whose cuBLAS has that
# version, or here with LD_LIBRARY_PATH=OUT.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 HEADERS OUT [CUBLAS]" >&2; exit 2; }
src=$(cd "$(dirname "$0")/driver" && pwd)
headers=$1 out=$2
[ -f "$headers/cublas_v2.h" ] || { echo "$0: no cublas_v2.h in $headers" >&2; exit 1; }
major=${3:-$(sed -n 's/^#define CUBLAS_VER_MAJOR \([0-9]*\).*/\1/p' "$headers/cublas_api.h")}
mkdir -p "$out"
cxx=$(command -v clang++-14 || command -v clang++)
cc=$(command -v clang-14 || command -v clang)
flags=(-std=c++17 -O2 -fPIC -fvisibility=hidden -ftls-model=initial-exec -Wall -I"$src" -I"$src/../../kernels" -isystem "$headers")
"$cxx" "${flags[@]}" -O3 -DSUREPIPE_EMULATED -c "$src/grid.cc" -o "$out/grid.o"
"$cxx" "${flags[@]}" -c "$src/cuda.cc" -o "$out/cuda.o"
"$cxx" "${flags[@]}" -c "$src/cublas.cc" -O3 -o "$out/cublas.o"
"$cc" -fPIC -fvisibility=hidden -O2 -c "$src/refused.c" -o "$out/refused.o"
"$cxx" -shared -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -o "$out/libcuda.so.1" "$out"/{grid,cuda,refused}.o
ln -sf libcuda.so.1 "$out/libcuda.so"
"$cxx" -shared -Wl,-soname,"libcublas.so.$major" -Wl,-z,nodelete -o "$out/libcublas.so.$major" "$out/cublas.o" -L"$out" -lcuda
ln -sf "libcublas.so.$major" "$out/libcublas.so"
rm "$out"/*.o
