/* kernel/attention.h: what attention (attention_forward.c) and its gradients (attention_grad.c)
 * share: the views as parameters, which keys a query sees, scores (attention.c); tiles. */
#ifndef UM_KERNEL_ATTENTION_H
#define UM_KERNEL_ATTENTION_H

#include "kernel/library.h"

/* Views by number. Of dq, dk, ...: the one that a kernel makes is A_OUT. */
enum { A_Q, A_K, A_V, A_BIAS, A_SINKS, A_OUT, A_LSE, A_DOUT, A_RESULT, A_COUNT };
_Static_assert((int)A_COUNT <= (int)UM_KVIEWS, "a walk has them all");

/* Invocations of a group that works without tiles. */
enum { A_TILE = 64 };

typedef struct um_kattention {
    const um_op *op;
    um_kplan *plan;
    um_kernel *k;
    um_klaunch *launch;
    um_dtype compute;
    int32_t optional; /* input number of the bias */
    bool in_fours;    /* A_OUT is written 4 columns at a time */
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
/* A kernel of `size` invocations a group, with the sizes as scalars. */
um_status um_kattention_begin(um_kattention *a, const char *name, int64_t groups, uint32_t size);
/* The views of `wanted` (bits) that there are. out: what A_OUT is; NULL: the op's first. */
void um_kattention_declare(um_kattention *a, uint32_t wanted, const um_view *out);
bool um_kattention_has(const um_kattention *a, int32_t view);

/* The query of row (b, h, i); it sees keys begin .. end - 1 but for the bias. */
um_kquery um_kattention_query(const um_kattention *a, um_val row);
um_kquery um_kattention_query_at(const um_kattention *a, um_val b, um_val h, um_val i);
um_val um_kattention_load(const um_kattention *a, int32_t view, const um_val *place);
/* The sum over n of view x[x_place, e] y[y_place, e]; the names of its variables end in tag. */
um_val um_kattention_dot(const um_kattention *a, int32_t x, const um_val *x_place, int32_t y,
                         const um_val *y_place, um_val n, const char *tag);
/* The bias of the query and key j, 0 where there is none; *seen also of what it masks. */
um_val um_kattention_bias(const um_kattention *a, const um_kquery *q, um_val j, um_val *seen);
/* The score but for the bias, of a sum q k, or several; slope: NULL, or the softcap's. */
um_val um_kattention_finish(const um_kattention *a, um_val dot, um_val *slope);
um_val um_kattention_score(const um_kattention *a, const um_kquery *q, um_val j);
um_val um_kattention_real(const um_kattention *a, double value);
um_val um_kattention_i32(const um_kattention *a, um_val u);

/* What is taken from scores before exp: the largest, or 0 where that is -inf. */
um_val um_kattention_shift(const um_kattention *a, um_val top);

/* ---- tiles (attention_tile.c) --------------------------------------------------------------- */

/* A work-group's own rows, of one side, meet rows of the other, so many at a time. A side is the
 * keys of a head, or the queries of all heads that share it: row i * group + h. In the numbers of
 * their meetings, an invocation has 4 of the others by score_rows of its own; in what the
 * work-group makes, 4 columns, or twice 4, by sum_rows. */
enum { UM_KTILE_GROUP = 128, UM_KTILE_COLUMNS = 64, UM_KTILE_ROWS = 8 };
typedef struct um_ktile {
    um_kattention *a;
    bool queries;                  /* its own rows are */
    uint32_t own, other, wide;     /* rows; columns, in UM_KTILE_COLUMNS: 1 or 2 */
    int64_t tiles, chunks, splits; /* of rows, of columns, of the others' rows */
    int64_t groups, column_count;
    uint32_t deep, across, score_rows, sum_rows;
    um_mem parts, weights, seen; /* shared */
    um_ksum sum[UM_KTILE_ROWS];  /* of its columns */
    um_val local, x, y, sum_x, sum_y, columns;
    um_val b, head, first, column, split, split_count; /* the work-group's */
    um_val begin, end, all_begin, all_end; /* other rows that some, and that all, of its own meet */
    int32_t names;
} um_ktile;

/* Which form when, to make `columns` of each row. */
um_ktile um_ktile_of(um_kattention *a, bool queries, int64_t columns);
/* A kernel with views as um_kattention_declare has them; its body is in an `if`. terms: how many a
 * sum has; where they are few, nothing is kept of what additions lose. */
um_status um_ktile_begin(um_ktile *t, const char *name, uint32_t wanted, const um_view *out,
                         int64_t terms);
/* The place in the tile of the invocation's own row i: of the scores, or of the sums. */
um_val um_ktile_own(const um_ktile *t, bool sums, uint32_t i);
um_val um_ktile_index(const um_ktile *t, int32_t view, bool queries, um_val row, um_val column);
/* The query of a row; where there is none, one of another that sees no key. */
um_kquery um_ktile_query(const um_ktile *t, um_val row);
/* A loop over the other rows, as the first of a tile; ends as loops do. */
um_val um_ktile_each(const um_ktile *t);
/* Variables of 4 lanes, one for each of score_rows: sums of own rows of view x by rows of view y
 * from `first` on. */
void um_ktile_multiply(um_ktile *t, int32_t x, int32_t y, um_val depth, um_val first,
                       um_mem scores[UM_KTILE_ROWS]);
/* The scores of row i from the sums, -inf where the query does not see the key: bits in *seen,
 * bools in *in. query: of each row, or of each lane where own rows are keys. slope: as above. */
um_val um_ktile_score(const um_ktile *t, um_mem sum, uint32_t i, um_val first,
                      const um_kquery *query, um_val *seen, um_val *in, um_val *slope);
/* sum += weights, 4 of each of score_rows, which are 0 of what is not seen, by the rows of view. */
void um_ktile_blend(um_ktile *t, const um_val *weights, um_val seen, int32_t view, um_val first);
/* Sum c of row i. */
um_val um_ktile_sum(const um_ktile *t, uint32_t i, uint32_t c);
/* Four columns of the sums' row to A_OUT, where it is there; at: of column 0. One condition, not
 * one inside another: of those PoCL 3.1 forgets the outer one here. */
void um_ktile_store(const um_ktile *t, uint32_t c, um_val at, um_val y, um_val there);

um_status um_kattention_forward_plan(const um_op *op, um_kplan *plan);
/* attention_grad.c */
bool um_kattention_grad_supports(const um_op *op, char *why, size_t why_size);
um_status um_kattention_grad_plan(const um_op *op, um_kplan *plan);

#endif
