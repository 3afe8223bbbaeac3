#!/bin/sh
# Builds the package and checks it as CRAN does, with the program named by SUREPIPE_BINARY or built here.
set -eu
cd "$(dirname "$0")"
here=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${SUREPIPE_BINARY:-}" ]; then
  (cd .. && go build -o "$work/surepipe" ./cmd/surepipe)
  export SUREPIPE_BINARY="$work/surepipe"
fi
export SUREPIPE_TESTDATA="$here/../testdata"
cd "$work"
R CMD build "$here" >/dev/null
_R_CHECK_FORCE_SUGGESTS_=false R CMD check --no-manual surepipe_*.tar.gz >check.log 2>&1 || { cat check.log; cat surepipe.Rcheck/tests/*.fail; exit 1; }
grep '^Status' check.log
if grep -q '^Status.*WARNING' check.log; then cat check.log; exit 1; fi
