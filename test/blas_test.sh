#!/bin/sh
# blas_test.sh LIBRARY: Debian's BLAS level-3 testers (package libblas-test) with libumbel_blas.so
# preloaded: results and error exits of sgemm, dgemm and their C forms. What else they call stays
# with the system's BLAS; that the products are ours is shown by counting them. 77: no testers here.
set -eu
library=$1
testers=$(find /usr/lib -maxdepth 3 -path '*/blas/xblat3s' 2>/dev/null | head -n 1)
if [ -z "$testers" ]; then
    echo "skipped: no /usr/lib/*/blas/xblat3s here (Debian and Ubuntu: package libblas-test)"
    exit 77
fi
testers=$(dirname "$testers")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    printf '%s\n' "$1"
    cat said
    exit 1
}

# tester PROGRAM INPUT ROUTINE PASSED-LINE...: it passes what the lines say, and as many products as it
# speaks of were computed by the library.
tester() {
    program=$1 input=$2 routine=$3
    shift 3
    rm -f ./*.out
    UMBEL_DEBUG=blas LD_PRELOAD=$library "$testers/$program" <"$testers/$input" >said 2>ours || fail "$program: failed"
    if ls ./*.out >/dev/null 2>&1; then cat ./*.out >>said; fi
    if grep -E 'FAIL|\*\*\*\*' said; then fail "$program: not everything passed"; fi
    for line in "$@"; do
        grep -q "^ *$routine *$line" said || fail "$program: does not say '$routine $line'"
    done
    told=$(awk -v routine="$routine" '$1 == routine && /COMPUTATIONAL/ { sub(/.*\(/, ""); sum += $1 } END { print sum + 0 }' said)
    computed=$(grep -c '^umbel: blas: ' ours || true)
    if [ "$told" -lt 10000 ] || [ "$told" != "$computed" ]; then
        fail "$program: made $told products, the library computed $computed"
    fi
    echo "$program: $routine: $computed products"
}

for type in s d; do
    upper=$(echo "$type" | tr sd SD)
    tester "xblat3$type" "${type}blat3.in" "${upper}GEMM" 'PASSED THE TESTS OF ERROR-EXITS' \
        'PASSED THE COMPUTATIONAL TESTS'
    tester "x${type}cblat3" "${type}in3" "cblas_${type}gemm" 'PASSED THE TESTS OF ERROR-EXITS' \
        'PASSED THE COLUMN-MAJOR COMPUTATIONAL TESTS' 'PASSED THE ROW-MAJOR *COMPUTATIONAL TESTS'
done
