#!/bin/sh
# oclgrind_test.sh UMBEL CASES: the kernels of those cases (*/...) on oclgrind, which simulates an OpenCL device
# and looks for data races, for values that nobody wrote and for wrong calls; 77: it is not installed.
# Its compiler is told not to optimise: of what that makes, oclgrind does not know every instruction.
set -eu
umbel=$1 cases=$2

library=$(find /usr/lib /usr/local/lib -name liboclgrind-rt-icd.so 2>/dev/null | head -n 1)
if [ -z "$library" ]; then
    echo "skipped: no oclgrind here (Debian's package has that name)"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "$library" >"$folder/oclgrind.icd"
export OCL_ICD_VENDORS="$folder/oclgrind.icd" OCLGRIND_BUILD_OPTIONS=-O0 OCLGRIND_NUM_THREADS=1
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1
export UMBEL_BACKENDS=opencl,cpu UMBEL_STRICT=1 UMBEL_TUNE=off UMBEL_CACHE_DIR="$folder"
if ! "$umbel" info | grep -q '^opencl:0.*Oclgrind'; then
    echo "skipped: the OpenCL loader does not take oclgrind"
    exit 77
fi
# One thread: oclgrind has room for one kernel at a time. One op a process, and no look for unwritten
# values in ops that may find an index out of range: it does not see clEnqueueFillBuffer, and after it takes
# what kernels write to that buffer (a stream's scratch memory) for unwritten.
reports=0 failed=0 ops=0
for op in $("$umbel" check "$cases" --device cpu -v | sed -n 's|^passed *\([a-z0-9_]*\)/.*|\1|p' | sort -u); do
    case $op in
    embedding* | gather* | scatter* | index_* | one_hot | max_pool* | max_unpool* | attention*) uninitialized=0 ;;
    *) uninitialized=1 ;;
    esac
    OCLGRIND_UNINITIALIZED=$uninitialized taskset -c 0 "$umbel" check "$op/${cases#*/}" --device opencl:0 >"$folder/log" 2>&1 || failed=$((failed + 1))
    here=$(grep -c 'Kernel: ' "$folder/log") || true
    ops=$((ops + 1)) reports=$((reports + here))
    if [ "$here" != 0 ] || ! tail -n 1 "$folder/log" | grep -q ' 0 failed'; then
        echo "$op: $here reports"
        head -n 40 "$folder/log"
    fi
done
echo "oclgrind (a software device): $ops ops, $reports reports, $failed failed"
[ "$ops" != 0 ] && [ "$reports" = 0 ] && [ "$failed" = 0 ]
