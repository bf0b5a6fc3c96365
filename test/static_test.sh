#!/bin/sh
# static_test.sh CHOSEN NAMED UNCHECKED: test/static/program.c built without UMBEL_STATIC_BACKEND, with
# it, and with UMBEL_STATIC_UNCHECKED as well. They print the same; and the machine code shows that
# from the program's `step` to the backend's enqueue there is no indirect call where the backend is
# named, nor a registry in the program, and that there are both where it is chosen.
set -u
chosen=$1
named=$2
unchecked=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
unset UMBEL_DEVICE UMBEL_PLUGIN_PATH UMBEL_DEBUG

report() {
    failures=$((failures + 1))
    echo "FAIL $1"
}

"$chosen" >"$work/chosen" || report 'chosen at run time: fails'
"$named" >"$work/named" || report 'named: fails'
"$unchecked" >"$work/unchecked" || report 'unchecked: fails'
[ "$(wc -l <"$work/chosen")" = 8 ] || report "wanted 8 lines: $(cat "$work/chosen")"
diff "$work/chosen" "$work/named" || report 'the two ways print different things'
head -n 3 "$work/chosen" | diff - "$work/unchecked" || report 'unchecked prints different things'

case $(uname -m) in
x86_64 | i?86) indirect='(call|jmp) +\*' ;;
aarch64) indirect='[[:space:]](blr|br)[[:space:]]' ;;
*) indirect='' ;;
esac
if [ -z "$indirect" ] || ! command -v objdump >/dev/null 2>&1; then
    echo 'static: machine code not looked at: no objdump, or a processor that this script does not know'
    exit $((failures != 0))
fi

# code PROGRAM FUNCTION: its instructions.
code() { objdump -d --no-show-raw-insn "$1" | awk -v head="<$2>:" '/^[0-9a-f]+ </ { on = $2 == head } on'; }
# has PROGRAM FUNCTION: whether the program holds it.
has() { nm "$1" | grep -q " $2\$"; }

# calls PROGRAM FUNCTION WANTED
calls() { code "$1" "$2" | grep -q "<$3>" || report "$(basename "$1"): $2 does not call $3"; }
direct() {
    [ -n "$(code "$1" "$2")" ] || report "$(basename "$1"): no $2"
    code "$1" "$2" | grep -Eq "$indirect" && report "$(basename "$1"): $2 calls through a pointer"
}

for program in "$named" "$unchecked"; do
    calls "$program" step um_cpu_entry_enqueue
    direct "$program" step
    direct "$program" um_cpu_entry_enqueue
    for function in um_enqueue um_open um_backend_at um_plugin_load um_memmap_find um_dispatch_check; do
        has "$program" $function && report "$(basename "$program"): it holds $function"
    done
done
calls "$named" step um_op_check
code "$unchecked" step | grep -q um_op_check && report 'unchecked: step calls um_op_check'

# The same looks find what they look for where it is.
calls "$chosen" step um_enqueue
code "$chosen" um_enqueue | grep -Eq "$indirect" || report 'chosen at run time: um_enqueue has no indirect call'
for function in um_enqueue um_open um_backend_at um_plugin_load um_memmap_find um_dispatch_check; do
    has "$chosen" $function || report "chosen at run time: it does not hold $function"
done

[ $failures = 0 ] && echo 'static: the same results, direct calls'
exit $((failures != 0))
