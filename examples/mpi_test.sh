#!/bin/bash
# Runs train_mpi with three ranks in a fresh directory. Usage: mpi_test.sh MPIEXEC PROGRAM
set -euo pipefail
run=$(mktemp -d "$PWD/tmp.XXXXXX")
trap 'rm -rf "$run"' EXIT
"$1" -n 3 "$2" "$run" | tee "$run/output"
grep -q '3 ranks saved 3 shards' "$run/output"
[ "$(cat "$run/latest")" = step-0000000003 ]
[ ! -e "$run/step-0000000001" ]
