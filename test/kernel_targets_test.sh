#!/bin/sh
# kernel_targets_test.sh TEST_KERNEL_TARGETS: spirv-val takes every SPIR-V module of the kernel library.
set -eu
command -v spirv-val >/dev/null 2>&1 || {
    echo 'skipped: no spirv-val here (Debian: spirv-tools)'
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$work"
cd "$work"
jobs=$(nproc 2>/dev/null || echo 1)
# Names end in the environment to validate for.
# shellcheck disable=SC2016,SC2038 # the inner shell's dollars; the names are plain
find . -name '*.*' -type f | xargs -n 40 -P "$jobs" sh -c 'for module; do
    spirv-val --target-env "${module#./*.}" "$module" || echo "$module"
done' sh >refused 2>&1
count=$(find . -name '*.*' -type f | wc -l)
cat refused
if [ "$count" -lt 1000 ] || [ -s refused ]; then
    echo "FAIL: $count modules, wanted 1000 or more, all of them valid"
    exit 1
fi
echo "spirv-val takes all $count modules"
