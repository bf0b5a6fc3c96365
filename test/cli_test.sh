#!/bin/sh
# cli_test.sh UMBEL: the command's frame: help, versions, JSON, and what wrong usage and unwritable
# output get: one line on stderr and exit code 2 or 1.
set -u
umbel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
[ -x "$umbel" ] || { echo "no program at $umbel"; exit 1; }
unset UMBEL_DEVICE UMBEL_THREADS UMBEL_FAIL_ALLOC

report() {
    failures=$((failures + 1))
    echo "FAIL $1"
}

# fails CODE TEXT ARGS...: that exit code and one line on stderr that holds TEXT.
fails() {
    code=$1
    text=$2
    shift 2
    "$umbel" "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ $got = "$code" ] || report "umbel $*: exit code $got, wanted $code"
    [ "$(wc -l <"$work/err")" = 1 ] || report "umbel $*: wanted one line, got $(cat "$work/err")"
    grep -qF -- "$text" "$work/err" || report "umbel $*: no '$text' in: $(cat "$work/err")"
}

# shows TEXT ARGS...: exit code 0, TEXT on stdout, nothing on stderr.
shows() {
    text=$1
    shift
    "$umbel" "$@" >"$work/out" 2>"$work/err" </dev/null || report "umbel $*: exit code $?"
    [ -s "$work/err" ] && report "umbel $*: wrote to stderr: $(cat "$work/err")"
    grep -qF -- "$text" "$work/out" || report "umbel $*: no '$text' on stdout"
}

# full ARGS...: exit code 1 and one line on stderr when standard output takes nothing.
full() {
    "$umbel" "$@" >/dev/full 2>"$work/err" </dev/null
    got=$?
    [ $got = 1 ] || report "umbel $* >/dev/full: exit code $got, wanted 1"
    [ "$(wc -l <"$work/err")" = 1 ] || report "umbel $* >/dev/full: wanted one line: $(cat "$work/err")"
    grep -q 'standard output' "$work/err" || report "umbel $* >/dev/full: $(cat "$work/err")"
}

# ---- help and versions
shows 'usage: umbel' --help
shows 'usage: umbel' help
shows 'umbel 0.' --version
for verb in generate check bench dump info; do
    shows "usage: umbel $verb" "$verb" --help
    shows "usage: umbel $verb" help "$verb"
done
shows '--json' help check
"$umbel" >"$work/out" 2>"$work/err"
[ $? = 2 ] || report 'umbel alone: exit code is not 2'

# ---- wrong usage
fails 2 "no verb 'frobnicate'" frobnicate
fails 2 "no verb 'frobnicate'" help frobnicate
fails 2 "no option '--frob'" check --frob
fails 2 "no option '-x'" info -x
fails 2 '--device needs a value' check --device
fails 2 '--seed: got' check --seed abc
fails 2 '--seed: got' check --seed -1
fails 2 '--threads: got' bench --threads 0
fails 2 '--threads: got' bench --threads=1000000
fails 2 'takes no value' info --json=yes
fails 2 'one argument too many' info extra
fails 2 'one argument too many' check add mul
fails 2 'MODEL is missing' generate
fails 2 'OP is missing' dump
fails 2 "no dtype 'f99'" dump add --dtype f99
fails 2 "--target: got 'c'" dump add --target c
fails 2 '--output FILE' dump add --target spirv
fails 2 "--shape: got '4x'" dump add --shape 4x
fails 2 '--shape: got 3 shapes' dump add --shape 4,4,4
fails 2 '--sample: got' dump add --sample -1

# ---- what is not there
fails 1 'no such op' check 'no such op'
fails 1 'no such case' bench 'no such case'
fails 1 'nosuch' check add --device nosuch
fails 1 'cpu:99' bench add --device cpu:99
fails 1 'computes nothing' check add --device null
fails 1 "no op 'nosuch'" dump nosuch
fails 1 'not for bool' dump sqrt --dtype bool
fails 1 'no sample' dump add --sample 9999
fails 1 'nothing to write' dump add --shape 0
fails 1 'matmul: ' dump matmul --shape 4x5,6x7
fails 1 'f64' dump exp --dtype f64 --target wgsl
fails 1 "has no type 'f64'" dump sin --dtype f64 --target metal
fails 1 'nosuch/x: ' dump add --output "$work/nosuch/x"

# ---- results
shows 'cpu:0' info
shows '0 failed' check 'add/f32/3:*' --device cpu --seed 5
shows 'passed ' check 'add/f32/3:*' -v
"$umbel" check 'relu/f32/*' --device cpu | tail -n 1 |
    grep -Eqx '[0-9]+ passed, 0 failed, 0 skipped' || report 'check: another last line'
shows 'kernel add group' dump add
shows 'scalar count u32' dump add --dtype f16
shows ' count = 12 ' dump add --shape 3x4
shows 'rows = 32 columns = 8 depth = 16' dump matmul --shape 32x16,16x8 --target ir
for target in opencl cuda hip metal wgsl; do
    shows um_softmax dump softmax --target $target --least
done
for target in spirv spirv-address spirv-kernel; do
    shows "$work/spv: " dump matmul --target $target --output "$work/spv"
    [ -s "$work/spv" ] || report "dump --target $target: nothing in the file"
done
{ "$umbel" dump add --target opencl --output "$work/text" && grep -q '__kernel' "$work/text"; } ||
    report 'dump --output: no kernel in the file'
if command -v python3 >/dev/null 2>&1; then
    for line in 'info --json' 'check --json -v exp/f32/0:* --device cpu' 'bench --json --quick matmul/f32/64'; do
        # shellcheck disable=SC2086
        (set -f && "$umbel" $line | python3 -c 'import json, sys; json.load(sys.stdin)') ||
            report "umbel $line: no JSON"
    done
fi

# ---- unwritable output
if [ -w /dev/full ]; then
    full info
    full info --json
    full --help
    full --version
    full help check
    full dump add
    full check 'add/f32/3:*' -v
    full check 'add/f32/3:*' --json
    full bench --quick matmul/f32/64
fi

[ $failures = 0 ] && echo 'the command answers as it should'
exit $((failures != 0))
