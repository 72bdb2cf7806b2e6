#!/bin/sh
# resume_test.sh TRAIN TRAIN_C TEXT: both examples, stopped half way and resumed, end as if never
# stopped.
set -eu
work=$(mktemp -d ./resume.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/whole" "$work/halves"

"$1" --text "$3" --dir "$work/whole" --steps 30 --every 10 --log "$work/whole.log"
"$1" --text "$3" --dir "$work/halves" --steps 25 --every 10
"$1" --text "$3" --dir "$work/halves" --steps 30 --every 10 --log "$work/halves.log" |
  tee "$work/out"
grep -q '^resumed at step 20$' "$work/out"
tail -n 10 "$work/whole.log" | cmp - "$work/halves.log"
cmp "$work/whole/model.dsckpt" "$work/halves/model.dsckpt"

"$2" "$work/c-whole" 1000 | tail -n 1 >"$work/c-whole.out"
"$2" "$work/c-halves" 450
"$2" "$work/c-halves" 1000 >"$work/c-halves.out"
head -n 1 "$work/c-halves.out" | grep -q '^from step 400$'
tail -n 1 "$work/c-halves.out" | cmp - "$work/c-whole.out"
