/* check/oracle.h: what every op should give, computed slowly and plainly from CONTRACT.md's rules
 * in double, long double and 64-bit integers. Shares no code with src/: it has its own idea of
 * every dtype (oracle_dtype.c), and one function an op family (oracle_map.c, ...). compare.c judges
 * results by it. Used by the driver and by test_check.c.
 */
#ifndef UM_CHECK_ORACLE_H
#define UM_CHECK_ORACLE_H

#include <stdbool.h>
#include <stdint.h>
#include <umbel/op.h>

/* One value of any dtype, exactly: f for floats, u for u64, i for other integers and bool. */
typedef union um_num {
    double f;
    int64_t i;
    uint64_t u;
} um_num;

/* A tensor as the oracle sees it: row-major, no strides. */
typedef struct um_array {
    um_dtype dtype;
    int32_t rank;
    int64_t shape[UM_MAX_RANK];
    int64_t count;
    um_num *item;
} um_array;

/* How an output element is judged. */
typedef enum um_judge {
    UM_JUDGE_EXACT, /* integers: num */
    UM_JUDGE_NEAR,  /* floats: want within bound, then rounded to the dtype */
    UM_JUDGE_LOOSE, /* as NEAR, but partial results may overflow: NaN and inf are right, too */
    UM_JUDGE_ANY    /* the order of evaluation, which is free, decides everything */
} um_judge;

/* What one output element should be. The right results are those from round(want - bound) to
 * round(want + bound), where round is to the dtype. A bound of 0 asks for the sign of zero, too;
 * UM_ANY_ZERO is as exact but for that sign. */
typedef struct um_expect {
    long double want;
    double bound;
    um_num num;
    um_judge judge;
} um_expect;
#define UM_ANY_ZERO 4.94065645841246544e-324

/* ---- dtypes (oracle_dtype.c) ----------------------------------------------------------------- */

bool um_oracle_is_float(um_dtype dtype);
int32_t um_oracle_bits(um_dtype dtype); /* of one stored element */
um_num um_oracle_decode(um_dtype dtype, uint64_t bits);
/* value must be one that the dtype has. */
uint64_t um_oracle_encode(um_dtype dtype, um_num value);
/* To the nearest value of a float dtype, ties to even; too large: inf or the largest. */
double um_oracle_round(um_dtype dtype, long double value);
/* The same, with another rule for what is too large. */
double um_oracle_round_over(um_dtype dtype, long double value, um_overflow overflow);
/* By the contract's rules for conversions. */
um_num um_oracle_convert(um_dtype to, um_dtype from, um_num value);
/* An integer, kept modulo 2^bits as the dtype keeps it. */
um_num um_oracle_wrap(um_dtype dtype, uint64_t bits);
/* The value as a real number. */
long double um_oracle_real(um_dtype dtype, um_num value);
/* Distance between neighbours of `value` in the dtype; the smallest step at 0. */
double um_oracle_ulp(um_dtype dtype, long double value);
double um_oracle_max(um_dtype dtype);      /* largest finite value */
double um_oracle_eps(um_dtype dtype);      /* um_oracle_ulp(1) */
um_dtype um_oracle_worker(um_dtype dtype); /* what kernels compute in: F64 of F64, else F32 */
/* Ends of an integer dtype. */
um_num um_oracle_lowest(um_dtype dtype);
um_num um_oracle_highest(um_dtype dtype);

/* ---- expectations ---------------------------------------------------------------------------- */

um_expect um_expect_num(um_num num);
um_expect um_expect_near(long double want, double bound);

/* One elementwise op on float values: x[0..2], each off by up to err[0..2] (NULL: exact), attribute
 * a, computed in dtype `work` (F32 or F64). */
um_expect um_oracle_map_float(um_op_id op, um_dtype work, const long double *x, const double *err,
                              double a);
/* ... on integers or bools of `dtype`. The result is of the dtype, or 0 and 1. */
um_num um_oracle_map_int(um_op_id op, um_dtype dtype, const um_num *x);
/* A fused program on one value of each input; err: of the first, floats only. */
um_expect um_oracle_program(const um_map_program *program, int32_t in_count, const um_dtype *dtype,
                            const um_num *in, double err, um_dtype out);
/* Inputs of a MAP op. */
int32_t um_oracle_map_arity(um_op_id op);
/* Gives bool whatever the inputs are. */
bool um_oracle_map_is_test(um_op_id op);

/* Fills expect[k][0 .. out[k].count - 1] for each output k of the whole op. in[] are op->in_count
 * arrays, out[] op->out_count with dtype and shape. OUT_OF_MEMORY. */
um_status um_oracle_run(const um_op *op, const um_array *in, const um_array *out,
                        um_expect *const *expect);
/* The same of an op with a prologue or an epilogue, by way of the op without. */
bool um_oracle_is_fused(const um_op *op);
um_status um_oracle_fused(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *expect);
/* The families it picks from; these have one output. */
um_status um_oracle_map(const um_op *op, const um_array *in, const um_array *out,
                        um_expect *expect);
um_status um_oracle_reduce(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect);
um_status um_oracle_scan(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect);
um_status um_oracle_move(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect);
um_status um_oracle_matmul(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect);
um_status um_oracle_norm(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect);
/* These also have ops with two outputs. */
um_status um_oracle_index(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *const *expect);
um_status um_oracle_sort(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *const *expect);
um_status um_oracle_random(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *const *expect);
um_status um_oracle_quant(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *const *expect);
um_status um_oracle_attention(const um_op *op, const um_array *in, const um_array *out,
                              um_expect *const *expect);
/* Whether the op takes indices or lengths, which may be out of range; whether one of them is, so
 * that the stream fails. */
bool um_oracle_takes_indices(um_op_id op);
bool um_oracle_has_bad_index(const um_op *op, const um_array *in);
bool um_oracle_has_bad_length(const um_op *op, const um_array *in); /* attention's part of that */
um_status um_oracle_conv(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *expect);
um_status um_oracle_resize(const um_op *op, const um_array *in, const um_array *out,
                           um_expect *expect);
/* These have several. */
um_status um_oracle_normalize(const um_op *op, const um_array *in, const um_array *out,
                              um_expect *const *expect);
um_status um_oracle_pool(const um_op *op, const um_array *in, const um_array *out,
                         um_expect *const *expect);

/* The contract's bound on a sum of n addends: 8 log2(n) eps times the sum of their magnitudes. */
double um_oracle_sum_bound(um_dtype work, int64_t n, long double magnitude);

/* Whether a part of it, rounded at each step, may be beyond what the dtype has. */
bool um_oracle_sum_overflows(um_dtype work, int64_t n, long double magnitude);

/* A plain sum with its magnitude, in more precision than any dtype. */
typedef struct um_total {
    long double sum, carry, magnitude; /* magnitude: of the finite addends */
} um_total;
void um_total_add(um_total *total, long double value);
long double um_total_get(const um_total *total);

/* ---- judging (compare.c) --------------------------------------------------------------------- */

bool um_expect_accepts(const um_expect *expect, um_dtype dtype, um_num got);
/* "1.5 within 3e-07" into text; returns text. */
const char *um_expect_text(const um_expect *expect, um_dtype dtype, char *text, size_t size);
const char *um_num_text(um_dtype dtype, um_num value, char *text, size_t size);

#endif
