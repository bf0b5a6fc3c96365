#!/bin/sh
# plugin_test.sh UMBEL VARIANTS: the example plugin, built outside the tree as its head says, with
# `umbel check --plugin` and `umbel info`; and that both live through a library that crashes, hangs or
# is none. VARIANTS is test/abi/variants.c as a library. CC names the compiler.
set -u
source=$(cd "$(dirname "$0")/.." && pwd)
umbel=$1
variants=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
unset UMBEL_DEVICE UMBEL_PLUGIN_PATH UMBEL_DEBUG

report() {
    failures=$((failures + 1))
    echo "FAIL $1"
}

# says TEXT: the last output holds it.
says() { grep -qF -- "$1" "$work/out" || report "no '$1' in: $(tail -n 12 "$work/out")"; }

mkdir "$work/src" "$work/good" "$work/bad"
cp "$source"/examples/plugin/* "$work/src"
# shellcheck disable=SC2086 # CC may be words
${CC:-cc} -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -fPIC -shared -I"$source/include" \
    "$work/src/toy.c" -o "$work/good/libtoy.so" || report 'the example does not build'
cp "$source/examples/plugin/toy.umbel" "$work/good"

# ---- the conformance kit
for op in add mul relu copy fill matmul; do
    "$umbel" check "$op/f32/*" --plugin "$work/good/libtoy.so" >"$work/out" 2>&1 || report "check $op fails"
    grep -Eq '^[1-9][0-9]* passed, 0 failed' "$work/out" || report "check $op: $(tail -n 1 "$work/out")"
done
"$umbel" check 'exp/f32/0:*' --plugin "$work/good/libtoy.so" >"$work/out" 2>&1 || report 'check exp fails'
says 'it runs add, mul, relu, copy, fill and matmul only'
"$umbel" check 'add/f32/0:*' -v --plugin "$work/good/libtoy.so" --device toy:0+trace >"$work/out" 2>&1 ||
    report 'check with --plugin and --device fails'
says 'enqueue'
"$umbel" check 'add/f32/0:*' --device "$work/good/libtoy.so:0" >"$work/out" 2>&1 || report 'a path as device fails'
says '0 failed'

# ---- what is wrong with a device beside its ops is found
"$umbel" check 'device/*' --plugin "$work/good/libtoy.so" >"$work/out" 2>&1 || report 'check device fails'
says '13 passed, 0 failed, 2 skipped'
for fault in short-write:device/write short-read:device/read short-fill:device/fill short-copy:device/copy \
    lazy:device/order bytes:device/memory racy:device/threads; do
    name=${fault%%:*}
    cp "$variants" "$work/bad/v-$name.so"
    "$umbel" check 'device/*' --device "$work/bad/v-$name.so" >"$work/out" 2>&1 && report "check passes $name"
    says "failed  ${fault#*:}"
done

# ---- found by its manifest
UMBEL_PLUGIN_PATH="$work/good" "$umbel" info >"$work/out" 2>&1 || report 'info fails'
says 'toy:0  six ops on the host'
says "plugin toy 1.0, loaded: "
UMBEL_PLUGIN_PATH="$work/good" UMBEL_DEVICE=toy "$umbel" check 'add/f32/0:*' >"$work/out" 2>&1 ||
    report 'UMBEL_DEVICE=toy fails'

# ---- what is wrong with others is said, and not suffered
for name in crash hang missing; do
    cp "$variants" "$work/bad/v-$name.so"
    printf 'name = %s\nfile = v-%s.so\nkind = cpu\nabi = 1\n' $name $name >"$work/bad/$name.umbel"
    "$umbel" check --plugin "$work/bad/v-$name.so" >"$work/out" 2>&1
    got=$?
    [ $got = 1 ] || report "check --plugin v-$name.so: exit code $got, wanted 1"
    [ "$(wc -l <"$work/out")" = 1 ] || report "check --plugin v-$name.so: $(cat "$work/out")"
done
echo 'junk' >"$work/bad/junk.umbel"
UMBEL_PLUGIN_PATH="$work/bad:$work/good:" "$umbel" info >"$work/out" 2>&1 || report 'info does not live'
says 'crash: no device: a child process that loads it '
says 'hang: no device: a child process that loads it does not end'
says 'missing: no device: plugin '
says 'the required entry read is NULL'
says 'toy:0  six ops'
says "junk.umbel"
says "wanted KEY = VALUE"
if command -v python3 >/dev/null 2>&1; then
    UMBEL_PLUGIN_PATH="$work/bad:$work/good" "$umbel" info --json 2>"$work/out" |
        python3 -c 'import json, sys; assert len(json.load(sys.stdin)["plugins"]) == 5' ||
        report 'info --json with plugins'
fi

[ $failures = 0 ] && echo 'plugins: the example passes, the others are refused'
exit $((failures != 0))
