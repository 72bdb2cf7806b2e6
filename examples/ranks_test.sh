#!/bin/bash
# Four ranks train, three go on, then one: every element had every update. Usage: ranks_test.sh PROGRAM
set -euo pipefail
run=$(mktemp -d "$PWD/tmp.XXXXXX")
trap 'rm -rf "$run"' EXIT
"$1" "$run/run" 4 | grep -q '4 ranks saved step 4'
"$1" "$run/run" 3 | tee "$run/output"
grep -q 'resumed from step 4' "$run/output"
grep -q '3 ranks saved step 8' "$run/output"
"$1" "$run/run" 1 | grep -q '1 ranks saved step 12'
[ "$(cat "$run/run/latest")" = step-0000000012 ]
[ -e "$run/run/step-0000000011" ]
[ ! -e "$run/run/step-0000000010" ]
