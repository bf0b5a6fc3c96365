/* backend/cpu/kernel/attention.h: one attention op as the body (attention_body.h) sees it. Letters:
 * B batch, H heads of q, Sq queries, Sk keys, D and Dv head sizes. Made by attention.c. */
#ifndef UM_CPU_ATTENTION_H
#define UM_CPU_ATTENTION_H

#include "backend/cpu/cpu.h"

typedef struct attention_job {
    um_cpu_exec *exec;
    const um_view *q, *k, *v, *bias, *out; /* bias: float, bool mask, or NULL */
    int64_t heads, queries, keys, d, dv;
    int64_t group; /* heads of q that share one of k and v */
    double scale, softcap;
    int32_t causal;
    int64_t window;
    int64_t queries_a_task, tasks_a_head;
} attention_job;

/* Where one head's rows start, in elements. */
typedef struct head_at {
    int64_t q, k, v, bias, out;
} head_at;

/* Keys [first, end). */
typedef struct key_range {
    int64_t first, end;
} key_range;

#endif
