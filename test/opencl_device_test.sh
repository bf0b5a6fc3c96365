#!/bin/sh
# opencl_device_test.sh UMBEL MODELS CASES: device opencl:0, where a driver has one; 77: none does.
set -eu
umbel=$1 models=$2 cases=$3
export UMBEL_BACKENDS=opencl,cpu UMBEL_STRICT=1

if ! "$umbel" info | grep -q '^opencl:0'; then
    echo "skipped: no OpenCL device here (Debian's pocl-opencl-icd has one)"
    exit 77
fi
"$umbel" check 'device/*' --device opencl:0
"$umbel" check "$cases" --device opencl:0
unset UMBEL_STRICT # what falls back is counted
for device in cpu opencl:0; do
    "$umbel" generate "$models/stories260K.bin" --tokenizer "$models/tok512.bin" --steps 200 \
        --temperature 0 --device "$device" >"story.$device" 2>"speed.$device"
done
cmp story.cpu story.opencl:0
grep ', 0 ops fell back' speed.opencl:0
echo "the story is the CPU's, byte for byte"
