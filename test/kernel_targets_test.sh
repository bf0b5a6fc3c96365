#!/bin/sh
# kernel_targets_test.sh TARGET PROGRAM NVRTC VALID NPM [long]: the target's compilers take the kernels
# that PROGRAM, test_kernel_targets, writes for it. Each line that begins with the target's name says
# how many went through what. A compiler that is not here is a line with "skipped" and the reason;
# when none is, the test is skipped. NVRTC and VALID are the programs of nvrtc.c and spirv_valid.c, NPM
# a folder where npm has put webgpu and bun-webgpu-linux-x64; paths are absolute.
#
# All kernels go through what is fast, and each N-th one through what is slow. long: every sample's
# kernels through what is fast, and of each dtype's first sample all through what is slow.
set -eu
target=$1 program=$2 nvrtc=$3 valid=$4 npm=$5 part=${6:-quick}
umbel=$(dirname "$program")/../umbel
here=$(cd "$(dirname "$0")" && pwd)
. "$here/kernel_compilers.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cores=$(nproc 2>/dev/null || echo 1)
ran=0 least=20 turn=0

skip() { echo "$target: skipped: $*"; }
fail() {
    echo "FAIL: $target: $*"
    exit 1
}

# write FOLDER [all]: the kernels' files, `head` and `list`, whose lines are a file and what it is.
write() {
    mkdir "$work/$1"
    cd "$work/$1"
    shift
    "$program" "$target" . "$@" >log || {
        cat log
        fail "$program"
    }
    written=$(wc -l <list)
    [ "$written" -ge 800 ] || fail "only $written kernels were written"
}

# choose N [FIRST]: `names` are each N-th kernel of those written, from another first one.
choose() {
    if [ "$part" = long ]; then set -- 1; fi
    awk -v n="$1" -v first="${2:-0}" 'NR % n == first % n { print $1 }' list >names
    chosen=$(wc -l <names)
}

# by_files COUNT COMMAND...: so many of `names` a time, on all cores; what the command prints is in
# out.*. Its failure ends the test.
by_files() {
    at_a_time=$1
    shift
    # shellcheck disable=SC2016 # the inner shell's dollars
    COMMAND=$* run_batches "$at_a_time" '$COMMAND "$@"'
}
# by_text COUNT COMMAND...: as one text, with its head, on the command's standard input.
by_text() {
    at_a_time=$1
    shift
    # shellcheck disable=SC2016 # the inner shell's dollars
    COMMAND=$* run_batches "$at_a_time" 'cat head "$@" | $COMMAND'
}
run_batches() {
    rm -f out.*
    export COMMAND PROCESSOR
    xargs -n "$1" -P "$cores" sh -c "{ $2; } >out.\$\$ 2>&1" sh <names || {
        cat out.*
        fail "${COMMAND:-$2}"
    }
}

# passed COUNT WHAT...: for the tally; all that were chosen must be among them.
passed() {
    count=$1
    shift
    if [ "$count" -ne "$chosen" ] || [ "$count" -lt "$least" ]; then
        fail "$*: $count kernels of $chosen"
    fi
    echo "$target: $*: $count kernels of $written"
    ran=1
}

# units WORD PROCESSOR DTYPE...: `names` are products by that processor's matrix unit, each a text of its
# own with such a word in it.
units() {
    word=$1 processor=$2
    shift 2
    mkdir "$work/$processor"
    cd "$work/$processor"
    : >head
    for dtype; do
        "$umbel" dump matmul --dtype "$dtype" --shape 1024x1024 --target "$target" --arch "$processor" \
            --output "$dtype" >log
        grep -q -a "$word" "$dtype" || fail "matmul of $dtype does not use $processor's matrix unit"
        echo "$dtype"
    done >names
    chosen=$# written=$# least=$#
}

# sum WORD: of the numbers behind the word in out.*; count WORD: how often it is there.
sum() { cat out.* | awk -v word="$1" '$1 == word { n += $2 } END { print n + 0 }'; }
count() { cat out.* | grep -c "$1" || true; }

version() { "$1" --version | sed -n 's/.*\(clang\) version \([0-9.]*\).*/\1 \2/p;s/^ocloc.*/&/p'; }

# front_end WHAT COMMAND...: clang reads all kernels as one text.
front_end() {
    what=$1
    shift
    choose 1
    if have "$1"; then
        xargs cat head <names | sed "${edit:-}" |
            "$@" -fsyntax-only -Werror -Wall -Wextra -Wno-unused -Wno-unused-parameter \
                -Wno-unused-but-set-parameter - || fail "$what"
        passed "$(xargs cat <names | grep -c '^#line 1 ')" "$(version "$1") $what"
    else
        skip "no $1 here"
    fi
}

# ---- fast: every kernel --------------------------------------------------------------------------

fast_opencl() {
    front_end 'reads OpenCL C 1.2' clang -x cl -cl-std=CL1.2 -target spir64 \
        -Xclang -finclude-default-header
}

fast_metal() {
    # To clang an array in threadgroup memory is a static variable.
    edit='s/^\( *alignas([0-9]*)\) threadgroup /\1 static threadgroup /'
    front_end "reads it over test/metal" clang -x c++ -std=c++17 -nostdinc -fsigned-char \
        -target aarch64-none-elf -I"$here/metal" -Wno-unknown-attributes
}

fast_wgsl() {
    choose 1
    webgpu=$npm/node_modules/webgpu
    if ! have node || [ ! -f "$webgpu/index.js" ]; then
        skip "no node, or no $webgpu (npm install webgpu)"
        return 0
    fi
    by_files 200 timeout 60 node "$here/wgsl_check.mjs" "$webgpu"
    passed "$(sum good)" "Tint, with WebGPU's limits"
    many=$(sum many)
    [ "$many" = 0 ] || echo "$target: $many of them have more storage buffers than the limit, 8"
}

fast_cuda() {
    choose 1
    if ! echo | "$nvrtc" >log; then
        skip "$(cat log)"
        return 0
    fi
    fast=--Ofast-compile=max
    if ! echo | "$nvrtc" $fast >log; then fast=; fi
    nvrtc_for sm_90 $fast
}

nvrtc_for() {
    arch=$1
    shift
    by_text "${at_once:-200}" "$nvrtc" "--gpu-architecture=$arch" $nvrtc_options "$@"
    ! cat out.* | grep -i -A 3 'warning' || fail "NVRTC warns"
    passed "$(count 'Compiling entry function')" "NVRTC $arch${*:+ $*}${at_once:+, products by its matrix unit}"
}

fast_hip() {
    want_hip || return 0
    # shellcheck disable=SC2086 # words on purpose
    front_end 'reads it' $hip --offload-arch=gfx942
}

fast_spirv() { spirv_val; }
fast_spirv_address() { spirv_val; }
fast_spirv_kernel() { spirv_val; }

# Names end in the environment to validate for.
spirv_val() {
    choose 1
    if ! have spirv-val; then
        skip 'no spirv-val here (Debian: spirv-tools)'
        return 0
    fi
    # shellcheck disable=SC2016 # the inner shell's dollars
    run_batches 40 'for f; do spirv-val --target-env "${f#*.}" "$f" && echo good 1 || exit 1; done'
    passed "$(sum good)" spirv-val
}

# ---- slow: each N-th kernel, for every processor ---------------------------------------------------

slow_opencl() { :; }
slow_metal() { :; }
slow_wgsl() { :; }
slow_spirv_address() { :; }

# Cooperative matrices are newer than Debian's spirv-val.
slow_spirv() {
    library=$npm/node_modules/bun-webgpu-linux-x64/libwebgpu_wrapper.so
    if ! "$valid" "$library" vulkan1.1 >log 2>&1; then
        skip "$(cat log)"
        return 0
    fi
    units SPV_KHR_cooperative_matrix khr f16 i8
    by_files 1 "$valid" "$library" vulkan1.1
    passed "$(sum good)" 'SPIRV-Tools, products by cooperative matrices'
}


slow_cuda() {
    echo | "$nvrtc" >log || return 0
    for processor in sm_75 sm_80 sm_90 sm_90a sm_100 sm_120; do
        choose 40 $((turn += 7))
        nvrtc_for $processor
    done
    for processor in sm_80 sm_90; do
        (
            units mma.sync $processor f16 bf16 i8 f64
            at_once=1 nvrtc_for $processor
        )
    done
}

slow_hip() {
    want_hip || return 0
    for processor in gfx90a gfx942 gfx1100 gfx1201; do
        choose 24 $((turn += 7))
        hip_for $processor
        word=mfma dtypes='f16 bf16 i8 f64'
        case $processor in
        gfx1*) word=wmma dtypes='f16 bf16 i8' ;;
        gfx90a) dtypes='i8 f64' ;; # its other tiles flush subnormals
        esac
        # shellcheck disable=SC2086 # words on purpose
        by_text 400 $hip --offload-arch=$processor $libraries -S -o - -
        passed "$(count '\.amdhsa_kernel ')" "$(version clang-19) $processor"
        # shellcheck disable=SC2086 # words on purpose
        (
            units $word $processor $dtypes
            by_text 1 $hip --offload-arch=$processor $libraries -S -o - -
            passed "$(count '\.amdhsa_kernel ')" "$(version clang-19) $processor, products by its matrix unit"
        )
    done
}

slow_spirv_kernel() {
    if have llvm-spirv-14; then
        choose 16
        # shellcheck disable=SC2016 # the inner shell's dollars
        run_batches 40 'for f; do
            llvm-spirv-14 -r "$f" -o "$f.bc" && [ -s "$f.bc" ] && echo good 1 || exit 1; done'
        passed "$(sum good)" llvm-spirv-14
    else
        skip 'no llvm-spirv-14 here'
    fi
    if ! have ocloc; then
        skip 'no ocloc here (Debian: intel-opencl-icd)'
        return 0
    fi
    for processor in dg2 pvc tgllp; do
        choose 50
        # shellcheck disable=SC2016 # the inner shell's dollars
        PROCESSOR=$processor run_batches 8 'for f; do
            if ocloc compile -spirv_input -file "$f" -device $PROCESSOR -output_no_suffix \
                -output "$f.bin" >log.$$ 2>&1 && [ -s "$f.bin" ]; then echo good 1
            elif grep -q "Double type is not supported" log.$$; then echo without_f64 1
            else cat log.$$; exit 1; fi; done'
        without=$(sum without_f64)
        chosen=$((chosen - without))
        passed "$(sum good)" "ocloc $processor"
        [ "$without" = 0 ] || echo "$target: $processor has no f64: $without kernels refused"
    done
}

verb=$(echo "$target" | tr - _)
if [ "$part" = long ]; then write fast all; else write fast; fi
"fast_$verb"
if [ "$part" = long ]; then write slow; fi
"slow_$verb"
[ $ran = 1 ] || exit 77
