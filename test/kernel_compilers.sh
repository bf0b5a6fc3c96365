#!/bin/sh
# kernel_compilers.sh: how the compilers of kernels are called, for kernel_targets_test.sh and
# bench/kernels.sh, which read it. Who reads it has `skip`, which says why a compiler is not used.

have() { command -v "$1" >/dev/null 2>&1; }

nvrtc_options='--fmad=false --ptxas-options=-v --diag-suppress=177,186,550'

# As hipRTC does it: with AMD's header and its own libraries of device code, which don't know our
# processors' numbers and needn't: they ask for it where older ones differ.
want_hip() {
    header=/usr/include/hip/hip_runtime.h
    bitcode=$(ls -d /usr/lib/*/amdgcn/bitcode 2>/dev/null || echo none)
    if ! have clang-19 || [ ! -f $header ] || [ ! -f "$bitcode/ocml.bc" ]; then
        skip "no clang-19, $header or ocml.bc here" \
            "(Debian: clang-19 libamdhip64-dev rocm-device-libs)"
        return 1
    fi
    hip="clang-19 -x hip -D__HIPCC_RTC__ -include hip/hip_runtime.h"
    hip="$hip -include hip/amd_detail/amd_warp_functions.h --rocm-path=/usr -nogpulib"
    hip="$hip --offload-device-only -O3 -ffp-contract=off"
}

# hip_for PROCESSOR: `libraries` of device code for it.
hip_for() {
    libraries='' wide=on
    case $1 in gfx1*) wide=off ;; esac
    for name in ocml ockl oclc_finite_only_off oclc_unsafe_math_off oclc_daz_opt_off \
        oclc_correctly_rounded_sqrt_on oclc_abi_version_500 oclc_isa_version_90a \
        oclc_wavefrontsize64_$wide; do
        libraries="$libraries -Xclang -mlink-builtin-bitcode -Xclang $bitcode/$name.bc"
    done
}
