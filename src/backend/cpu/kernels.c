/* backend/cpu/kernels.c: which kernel set this processor runs, and who runs an op in it. The
 * kernels are in kernel/; called by driver.c (supports, enqueue, caps) and by tests. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernel/table.h"

#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#ifdef UM_HAVE_AVX2
#include <cpuid.h>
#endif

typedef struct kernel_set {
    const char *option; /* as UMBEL_CPU_ISA names it */
    const char *name;
    const um_cpu_kernel *table;
    int32_t f32_lanes;
    bool (*runs_here)(void);
} kernel_set;

static bool base_runs_here(void) { return true; }

#ifdef UM_HAVE_AVX2
/* __builtin_cpu_supports also asks whether the system saves the wide registers; clang 14 does not
 * know its "f16c", hence the bit itself. */
static bool avx2_runs_here(void)
{
    unsigned eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}
#endif

/* Best first. */
static const kernel_set kernel_sets[] = {
#ifdef UM_HAVE_AVX2
    {"avx2", "avx2+fma+f16c", um_cpu_table_avx2, 8, avx2_runs_here},
#endif
    {"base", "base", um_cpu_table_base, 4, base_runs_here},
};

static const kernel_set *choose_set(void)
{
    const char *wanted = um_env_get(UM_ENV_CPU_ISA);
    const kernel_set *best = NULL;
    for (size_t i = 0; i < UM_COUNT_OF(kernel_sets); i++) {
        const kernel_set *set = &kernel_sets[i];
        if (!set->runs_here()) continue;
        if (!best) best = set;
        if (wanted && strcasecmp(wanted, set->option) == 0) return set;
    }
    if (wanted && strcasecmp(wanted, "auto") != 0)
        um_log_write(UM_LOG_WARNING, "%s: this build has no kernel set %s that runs here; using %s",
                     um_env_name(UM_ENV_CPU_ISA), wanted, best->option);
    return best;
}

/* Chosen on first use. Two threads that race choose the same, so a plain store is enough. */
static const kernel_set *active_set(void)
{
    static _Atomic(const kernel_set *) chosen;
    const kernel_set *set = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!set) {
        set = choose_set();
        atomic_store_explicit(&chosen, set, memory_order_relaxed);
    }
    return set;
}

const um_cpu_kernel *um_cpu_kernel_find(um_op_id op)
{
    if (op <= UM_OP_NONE || op >= UM_CPU_OP_SLOTS) return NULL;
    const um_cpu_kernel *row = &active_set()->table[op];
    return row->run ? row : NULL;
}

static bool refuse(char *why, size_t why_size, const um_op *op, um_dtype dtype)
{
    if (why && why_size && dtype == UM_DTYPE_NONE)
        snprintf(why, why_size, "%s: no CPU kernel", um_op_name(op->id));
    else if (why && why_size)
        snprintf(why, why_size, "%s: no CPU kernel for %s", um_op_name(op->id),
                 um_dtype_name(dtype));
    return false;
}

bool um_cpu_kernel_supports(const um_op *op, char *why, size_t why_size)
{
    if (why && why_size) why[0] = '\0';
    const um_cpu_kernel *row = um_cpu_kernel_find(op->id);
    if (!row) return refuse(why, why_size, op, UM_DTYPE_NONE);
    int32_t main_input = um_op_main_input(op->id);
    /* A fused program of constants only. */
    if (op->in_count == 0 && um_op_get_row(op->id)->in_min == 0) main_input = -1;
    if (main_input >= op->in_count) return refuse(why, why_size, op, UM_DTYPE_NONE);
    const um_map_program *prologue = um_op_program(op, UM_PROLOGUE);
    um_dtype dtype = prologue         ? prologue->dtype
                     : main_input < 0 ? op->out[0].dtype
                                      : op->in[main_input].dtype;
    if (!um_dtype_valid(dtype) || !(row->dtypes & UM_BIT(dtype)))
        return refuse(why, why_size, op, dtype);
    return !row->supports || row->supports(op, why, why_size);
}

const char *um_cpu_isa_name(void) { return active_set()->name; }

int32_t um_cpu_simd_f32_lanes(void) { return active_set()->f32_lanes; }
