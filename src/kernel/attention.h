/* kernel/attention.h: what attention (attention.c) and its gradients (attention_grad.c) share: the
 * views as parameters, which keys a query sees, and scores. */
#ifndef UM_KERNEL_ATTENTION_H
#define UM_KERNEL_ATTENTION_H

#include "kernel/library.h"

/* Views by number. Of dq, dk, ...: the one that a kernel makes is A_OUT. */
enum { A_Q, A_K, A_V, A_BIAS, A_SINKS, A_OUT, A_LSE, A_DOUT, A_RESULT, A_COUNT };
_Static_assert((int)A_COUNT <= (int)UM_KVIEWS, "a walk has them all");

/* Keys that a work-group's invocations score at a time, one each; and columns that they make. */
enum { A_TILE = 64 };

typedef struct um_kattention {
    const um_op *op;
    um_kplan *plan;
    um_kernel *k;
    um_klaunch *launch;
    um_dtype compute;
    int32_t optional; /* input number of the bias */
    um_kwalk walk;
    um_kview view[A_COUNT];
    um_mem scratch;                                                              /* of i32 */
    um_val heads, kv_heads, queries, keys, d, dv, group, scale, softcap, window; /* u32, reals */
    um_val zero, one;                                                            /* u32 */
} um_kattention;

/* A query and what it may see: u32, and i32 counts and bounds. */
typedef struct um_kquery {
    um_val b, h, i, kv_head, key_count, query_count, begin, end;
} um_kquery;

bool um_kattention_fits(const um_op *op, char *why, size_t why_size);
um_kattention um_kattention_of(const um_op *op, um_kplan *plan);
/* Bytes of the plan's scratch for lengths, and their launch where there are any. */
uint64_t um_kattention_length_bytes(const um_kattention *a);
um_status um_kattention_plan_lengths(um_kattention *a);
/* A kernel of A_TILE invocations a group, with the sizes as scalars. */
um_status um_kattention_begin(um_kattention *a, const char *name, int64_t groups);
/* The views of `wanted` (bits) that there are. out: what A_OUT is; NULL: the op's first. */
void um_kattention_declare(um_kattention *a, uint32_t wanted, const um_view *out);
bool um_kattention_has(const um_kattention *a, int32_t view);

/* The query of row (b, h, i); it sees keys begin .. end - 1 but for the bias. */
um_kquery um_kattention_query(const um_kattention *a, um_val row);
/* begin and end as u32 that count as the same in the whole work-group, as they are. */
void um_kattention_bounds(const um_kattention *a, const um_kquery *q, um_val local, um_val *begin,
                          um_val *end);
um_val um_kattention_load(const um_kattention *a, int32_t view, const um_val *place);
/* The sum over n of view x[x_place, e] y[y_place, e]; the names of its variables end in tag. */
um_val um_kattention_dot(const um_kattention *a, int32_t x, const um_val *x_place, int32_t y,
                         const um_val *y_place, um_val n, const char *tag);
/* The bias of the query and key j, 0 where there is none; *seen also of what it masks. */
um_val um_kattention_bias(const um_kattention *a, const um_kquery *q, um_val j, um_val *seen);
/* The score but for the bias; slope: NULL, or the softcap's. */
um_val um_kattention_score(const um_kattention *a, const um_kquery *q, um_val j, um_val *slope);
um_val um_kattention_real(const um_kattention *a, double value);
um_mem um_kattention_var(const um_kattention *a, const char *name, um_val value);

/* attention_grad.c */
bool um_kattention_grad_supports(const um_op *op, char *why, size_t why_size);
um_status um_kattention_grad_plan(const um_op *op, um_kplan *plan);

#endif
