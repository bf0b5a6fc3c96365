#!/bin/sh
# kernels.sh BUILD [PROCESSOR...]: what compilers make of kernels, without a GPU: registers, spills,
# shared bytes, work-group and the occupancy that follows, of products by matrix units and without,
# attention and its gradients, and one each of what else there is, for NVIDIA's processors (NVRTC
# and ptxas) and AMD's (clang 19); then the ten largest kernels of each target, with the time that
# rendering and verifying takes. A compiler that is not here is a line. Exit status 1: a kernel
# spills, or takes longer than 5 ms.
set -eu
build=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/kernel_compilers.sh
. "$here/../test/kernel_compilers.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umbel=$build/umbel nvrtc=$build/test/um_nvrtc
cuda=${*:-'sm_75 sm_80 sm_90 sm_100 sm_120'}
all_hip=${*:-'gfx90a gfx942 gfx1100 gfx1201'}
failed=0

skip() { echo "skipped: $*"; }
progress() { if [ -t 2 ]; then printf '\r\033[K%s' "$*" >&2; fi; }

# An op, its dtypes and shapes; `unit`: also as the processor's matrix unit does it.
q=2x8x1024x64
cases() {
    cat <<END
matmul f32,f16,f64,i8 1024x1024 plain
matmul f16,f64,i8 1024x1024 unit
attention f32,f16,f64 $q plain
attention_backward f32,f64 $q,$q,$q,$q,$q,2x8x1024 plain
conv f32 8x64x56x56,64x64x3x3,64 plain
softmax f32,f16 4096x1024 plain
layer_norm f32 4096x1024 plain
sum f32,f64 4096x1024 plain
gelu f32,f64 4096x1024 plain
add f32,f16 4096x1024 plain
sort f32 4096x1024 plain
END
}

# dump TARGET PROCESSOR: files NUMBER.text, a kernel each, and what they are in `what`.
dump() {
    rm -f "$work"/*.text
    cases | while read -r op dtypes shape kind; do
        for dtype in $(echo "$dtypes" | tr , ' '); do
            set -- "$1" "$2" "$op" --dtype "$dtype" --shape "$shape" --target "$1"
            if [ "$kind" = unit ]; then set -- "$@" --arch "$2"; fi
            target=$1 processor=$2
            shift 2
            "$umbel" dump "$@" >"$work/all" 2>"$work/why" || {
                # A processor without such a unit has no line; all else is a mistake.
                grep -q 'no matrix tiles\|no kernel' "$work/why" || cat "$work/why" >&2
                set -- "$target" "$processor"
                continue
            }
            awk -v out="$work/$op.$dtype.$kind." '
                /^\/\/ launch / { file = sprintf("%s%02d.text", out, ++n) }
                file { print >file }' "$work/all"
            set -- "$target" "$processor"
        done
    done
}

# table PROCESSOR: lines KERNEL REGISTERS SPILLED SHARED GROUP OCCUPANCY OP of standard input; marks
# those that spill.
table() {
    awk -v processor="$1" '
        {
            printf "%-8s %-26s %-17s %7s %7s %7s %6s %8s%%%s\n", processor, $7, $1, $2, $3, $4, $5,
                $6, ($3 > 0 ? "  SPILLS" : "")
        }
        $3 > 0 { bad = 1 }
        END { exit bad }' || failed=1
}

# What ptxas says of one kernel. Limits of an SM: CUDA C++ Programming Guide, Compute Capabilities.
read_ptxas() {
    awk -v processor="$1" -v what="$2" -v group="$3" '
        BEGIN {
            threads = 2048; groups = 32; room = 228
            if (processor == "sm_75") { threads = 1024; groups = 16; room = 64 }
            if (processor == "sm_80") room = 164
            if (processor == "sm_120") { threads = 1536; groups = 24; room = 100 }
            room *= 1024
        }
        /Compiling entry function/ { split($0, part, "\047"); name = substr(part[2], 4) }
        /spill stores/ {
            spills = 0
            for (i = 1; i < NF; i++)
                if ($(i + 1) == "bytes" && $(i + 2) == "spill") spills += $i
        }
        / Used [0-9]+ registers/ {
            shared = 0
            for (i = 1; i <= NF; i++) {
                if ($i == "Used") registers = $(i + 1)
                if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
            }
            each = int((registers + 7) / 8) * 8 * group
            n = int(65536 / each)
            if (n > int(threads / group)) n = int(threads / group)
            if (n > groups) n = groups
            if (shared && n > int(room / (shared + 1024))) n = int(room / (shared + 1024))
            print name, registers, spills, shared, group, int(100 * n * group / threads), what
        }'
}

# What clang notes behind each kernel. Occupancy is in waves of a SIMD, of which there are at most 8
# on CDNA, 16 on RDNA.
read_amd() {
    awk -v processor="$1" -v what="$2" -v group="$3" '
        /^[ \t]*\.amdhsa_kernel / { name = substr($2, 4) }
        /^; NumVgprs: / { registers = $3 }
        /^; NumAgprs: / { if ($3 > 0) registers = registers "+" $3 }
        /^; LDSByteSize: / { shared = $3 }
        /^; Occupancy: / { waves = $3 }
        /^ *\.vgpr_spill_count: / { spills = $2 }
        END {
            most = processor ~ /^gfx9/ ? 8 : 16
            print name, registers, spills, shared, group, int(100 * waves / most), what
        }'
}

# compile TARGET PROCESSOR COMMAND...: every kernel of `dump`.
compile() {
    reader=read_amd processor=$2
    if [ "$1" = cuda ]; then reader=read_ptxas; fi
    dump "$1" "$2"
    shift 2
    : >"$work/lines"
    for text in $(grep -l __global__ "$work"/*.text); do
        what=$(basename "$text" .text)
        what=${what%.*}
        progress "$processor: $what"
        group=$(sed -n 's/.*__launch_bounds__(\([0-9]*\)).*/\1/p' "$text" | head -n 1)
        if ! "$@" <"$text" >"$work/log" 2>&1; then
            progress ''
            cat "$work/log"
            echo "FAIL: $processor: $what"
            exit 1
        fi
        "$reader" "$processor" "$what" "$group" <"$work/log" >>"$work/lines"
    done
    progress ''
    table "$processor" <"$work/lines"
}

printf '%-8s %-26s %-17s %7s %7s %7s %6s %9s\n' for op kernel regs spilled shared group occupancy
if echo | "$nvrtc" >"$work/log"; then
    for processor in $cuda; do
        case $processor in sm_*) ;; *) continue ;; esac
        # shellcheck disable=SC2086 # words on purpose
        compile cuda "$processor" "$nvrtc" "--gpu-architecture=$processor" $nvrtc_options
    done
else
    skip "$(cat "$work/log")"
fi
if want_hip; then
    for processor in $all_hip; do
        case $processor in gfx*) ;; *) continue ;; esac
        hip_for "$processor"
        # shellcheck disable=SC2086 # words on purpose
        compile hip "$processor" $hip "--offload-arch=$processor" $libraries -S -o - -
    done
fi
[ $# -gt 0 ] || "$build/test/test_kernel_targets" largest || failed=1
exit $failed
