#!/bin/sh
# vulkan_device_test.sh UMBEL MODELS CASES STEPS: device vulkan:0 on the drivers that compute on the CPU,
# where they are: lavapipe, at each width of its vectors, and SwiftShader, which has next to nothing.
# Every way that memory takes is taken; where the validation layer is, a word from it is a failure; a
# story of so many steps must be the CPU's. 77: neither driver is here.
set -eu
umbel=$1 models=$2 cases=$3 steps=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UMBEL_BACKENDS=vulkan,cpu UMBEL_STRICT=1 UMBEL_CACHE_DIR="$work/cache" XDG_RUNTIME_DIR="$work"
ran=0

if ls /usr/share/vulkan/explicit_layer.d/*khronos_validation.json >/dev/null 2>&1; then
    VK_LAYER_SETTINGS_PATH=$(cd "$(dirname "$0")" && pwd)
    export VK_LAYER_SETTINGS_PATH VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
else
    echo "without the validation layer (Debian's vulkan-validationlayers has it)"
fi

# check NAME CASE...
check() {
    name=$1
    shift
    "$umbel" check "$@" --device vulkan:0 >"$work/out" || {
        grep -v '^skipped' "$work/out"
        echo "FAIL: $name: $*"
        exit 1
    }
    if grep -q 'msgNum: ' "$work/out"; then
        head -c 3000 "$work/out"
        echo "FAIL: $name: $*: the validation layer has something to say"
        exit 1
    fi
    echo "$name: $*: $(tail -1 "$work/out")"
}

story() { # what falls back is counted
    env -u UMBEL_STRICT "$umbel" generate "$models/stories260K.bin" --steps "$2" \
        --tokenizer "$models/tok512.bin" --temperature 0 --device "$1" 2>"$work/speed"
}

# drive NAME STEPS
drive() {
    "$umbel" info | grep '^vulkan:0' || {
        echo "FAIL: $VK_ICD_FILENAMES is here, and no device"
        exit 1
    }
    for UMBEL_VULKAN in '' descriptors staging gpu; do
        export UMBEL_VULKAN
        check "$1${UMBEL_VULKAN:+ by $UMBEL_VULKAN}" 'device/*'
        check "$1${UMBEL_VULKAN:+ by $UMBEL_VULKAN}" "$cases"
    done
    unset UMBEL_VULKAN
    story cpu "$2" >"$work/cpu"
    story vulkan:0 "$2" >"$work/vulkan"
    cmp "$work/cpu" "$work/vulkan"
    grep ', 0 ops fell back' "$work/speed"
    echo "$1: the story is the CPU's, byte for byte"
    ran=1
}

for VK_ICD_FILENAMES in /usr/share/vulkan/icd.d/lvp_icd.*json; do
    [ -f "$VK_ICD_FILENAMES" ] || continue
    export VK_ICD_FILENAMES
    drive lavapipe "$steps"
    check lavapipe 'attention/f32/1:*/bad_index' # see um_klacks' widening, and zeros
    check lavapipe 'map/f16/43:*'
    for UMBEL_VULKAN in '' gpu; do # a tile an invocation, and one a work-group
        export UMBEL_VULKAN
        check "lavapipe${UMBEL_VULKAN:+ as a $UMBEL_VULKAN}" 'matmul/f32/25:*/packed/random'
    done
    unset UMBEL_VULKAN
    for LP_NATIVE_VECTOR_WIDTH in 128 256 512; do
        export LP_NATIVE_VECTOR_WIDTH
        check "lavapipe, $LP_NATIVE_VECTOR_WIDTH bits" "$cases"
        for op in trunc round; do # whose f64 depends on the width
            check "lavapipe, $LP_NATIVE_VECTOR_WIDTH bits" "$op/f64*/packed/*"
        done
    done
    unset LP_NATIVE_VECTOR_WIDTH
done
VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json
if [ -f $VK_ICD_FILENAMES ]; then
    export VK_ICD_FILENAMES
    drive SwiftShader $((steps / 10))
    for some in 'reduce_max/i32/*' 'copy/u32/*'; do check SwiftShader "$some"; done # see um_klacks
fi
if [ $ran = 0 ]; then
    echo "skipped: no lavapipe and no SwiftShader here (Debian's mesa-vulkan-drivers, chromium)"
    exit 77
fi
