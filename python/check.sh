#!/usr/bin/env bash
# Checks the Python package with the program of this checkout: check.sh [PROGRAM]. Short: under a minute.
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-/usr/bin/python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# = 1 ]; then
  cp "$1" "$folder/surepipe"
else
  (cd .. && CGO_ENABLED=0 go build -o "$folder/surepipe" ./cmd/surepipe)
fi
export SUREPIPE_BINARY=$folder/surepipe PYTHONDONTWRITEBYTECODE=1
# The wheel of this machine, installed as a user would.
"$python" -m venv --system-site-packages "$folder/venv"
cp -r . "$folder/python"
(cd "$folder/python" && "$python" setup.py --quiet bdist_wheel --dist-dir "$folder/dist" 2>/dev/null)
"$folder/venv/bin/pip" install --quiet --no-index --no-deps "$folder"/dist/*.whl
unset SUREPIPE_BINARY
tests=$PWD/tests
cd "$folder" # not where the sources of the package are
timeout 600 "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider "$tests"
