#!/usr/bin/env bash
# Puts the headers of a CUDA toolkit into a folder: headers.sh OUT
#
# A toolkit on this machine is used if there is one; else they come from Debian's nvidia-cuda-dev
# (section non-free, 774 MB, of which the first 16 MB are the headers). Nothing is installed, and a
# folder that is complete is not changed.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 OUT" >&2; exit 2; }
out=$1
[ -f "$out/.complete" ] && exit 0
for toolkit in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
  if [ -f "$toolkit/cuda.h" ] && [ -f "$toolkit/cublas_v2.h" ]; then
    mkdir -p "$(dirname "$out")"
    rm -rf "$out"
    ln -s "$toolkit" "$out"
    exit 0
  fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial cache/archives/partial
keys=/usr/share/keyrings/debian-archive-keyring.gpg
signed=
if [ -f "$keys" ]; then signed="[signed-by=$keys]"; fi
# This machine's source of Debian's main section, with non-free instead.
apt-get indextargets --format '$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(CODENAME)|$(REPO_URI)' 'Created-By: Packages' |
  awk -F'|' -v signed="$signed" '$1 == "Debian" && $2 == "main" && $3 == $4 { print "deb", signed, $5, $3, "non-free"; exit }' >sources.list
[ -s sources.list ] || { echo "$0: no CUDA toolkit here, and no Debian release among apt's sources" >&2; exit 1; }
apt=(-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root -o Acquire::Retries=3)
apt-get "${apt[@]}" update -qq
apt-get "${apt[@]}" download -qq nvidia-cuda-dev
# The headers come first in the archive: the rest is not unpacked, and closing the pipe on it is not
# an error.
mkdir tree
(dpkg-deb --fsys-tarfile nvidia-cuda-dev_*.deb 2>/dev/null || true) | head -c 64M | (tar -x -C tree ./usr/include 2>/dev/null || true)
# From CUDA 12 on they include one of libcu++.
if grep -q '<nv/target>' tree/usr/include/cuda_fp16.h; then
  sed -i 's/non-free$/main non-free/' sources.list
  apt-get "${apt[@]}" update -qq
  apt-get "${apt[@]}" download -qq libcu++-dev
  dpkg-deb -x libcu++-dev_*.deb tree
fi
for header in cuda.h cublas_v2.h cublas_api.h crt/host_defines.h vector_types.h driver_types.h; do
  [ -s "tree/usr/include/$header" ] || { echo "$0: nvidia-cuda-dev has no $header where it was expected" >&2; exit 1; }
done
mkdir -p "$(dirname "$out")"
rm -rf "$out"
mv tree/usr/include "$out"
touch "$out/.complete"
