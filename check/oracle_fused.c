/* check/oracle_fused.c: ops with a prologue or an epilogue: the prologue's values are the input of
 * the op, whose results, each with how far it may be off, go through the epilogue. The op's own
 * oracle does what is between.
 */
#include "check/oracle.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 10 };

typedef struct fused {
    const um_map_program *prologue, *epilogue;
    int32_t own; /* inputs of the op itself, at most */
} fused;

static fused fused_of(const um_op *op)
{
    bool reduces = op->id >= UM_OP_SUM && op->id <= UM_OP_STD && op->id != UM_OP_ARGMAX &&
                   op->id != UM_OP_ARGMIN;
    if (reduces) return (fused){op->attrs.reduce.prologue, op->attrs.reduce.epilogue, 1};
    if (op->id == UM_OP_MATMUL) return (fused){NULL, op->attrs.matmul.epilogue, 5};
    if (op->id == UM_OP_CONV) return (fused){NULL, op->attrs.conv_fused.epilogue, 3};
    return (fused){NULL, NULL, 0};
}

bool um_oracle_is_fused(const um_op *op)
{
    fused f = fused_of(op);
    return f.prologue || f.epilogue;
}

/* Element i of the program: what it reads at that place, x as value 0. */
static um_expect run(const um_map_program *program, const um_op *op, const um_array *in,
                     int32_t own, int64_t i, um_num x, um_dtype x_dtype, double err, um_dtype out)
{
    um_num value[MOST] = {x};
    um_dtype dtype[MOST] = {x_dtype};
    for (int32_t k = 1; k < op->in_count; k++) {
        dtype[k] = in[k].dtype;
        /* the other program's inputs may be of another shape */
        if (k >= own) value[k] = in[k].item[i < in[k].count ? i : 0];
    }
    return um_oracle_program(program, op->in_count, dtype, value, err, out);
}

/* The op's first input behind the prologue; what its elements may be off. */
static um_status run_prologue(const fused *f, const um_op *op, const um_array *in, um_array *x,
                              double *err)
{
    um_dtype to = f->prologue->dtype;
    *x = in[0];
    x->dtype = um_oracle_is_float(to) ? um_oracle_worker(to) : to;
    x->item = malloc((size_t)(x->count + 1) * sizeof *x->item);
    if (!x->item) return UM_OUT_OF_MEMORY;
    for (int64_t i = 0; i < x->count; i++) {
        um_expect e = run(f->prologue, op, in, f->own, i, in[0].item[i], in[0].dtype, 0, x->dtype);
        if (um_oracle_is_float(x->dtype)) {
            x->item[i].f = um_oracle_round(x->dtype, e.want);
            err[i] = e.bound > UM_ANY_ZERO && isfinite(x->item[i].f)
                         ? e.bound + (double)fabsl((long double)x->item[i].f - e.want)
                         : 0;
        } else {
            x->item[i] = e.num;
        }
    }
    return UM_OK;
}

/* What the errors of x, whose lines of `n` are an output's each, add to the results' bounds. The
 * samples leave inexact values to the ops that add up; of others no bound is known. */
static bool add_errors(um_op_id op, const um_array *x, const double *err, const um_array *made,
                       um_expect *expect)
{
    double most = 0;
    for (int64_t i = 0; i < x->count; i++) most = err[i] > most ? err[i] : most;
    if (most == 0) return true;
    if (op != UM_OP_SUM && op != UM_OP_MEAN && op != UM_OP_L1) return false;
    int64_t n = made->count ? x->count / made->count : 0;
    double each = op == UM_OP_MEAN ? most : most * (double)n;
    for (int64_t o = 0; o < made->count; o++) expect[o].bound += each;
    return true;
}

/* The result that a kernel has before the epilogue. */
static um_dtype made_dtype(const um_op *op, um_dtype x)
{
    if (op->id == UM_OP_ANY || op->id == UM_OP_ALL) return UM_BOOL;
    if (op->id == UM_OP_MATMUL && (x == UM_I8 || x == UM_U8)) return UM_I32;
    return um_oracle_is_float(x) ? um_oracle_worker(x) : x;
}

static um_expect finish(const fused *f, const um_op *op, const um_array *in, int64_t i,
                        um_dtype made, const um_expect *was, um_dtype out)
{
    bool is_float = um_oracle_is_float(made);
    um_num x = was->num;
    double err = 0;
    if (is_float) {
        x.f = um_oracle_round(made, was->want);
        /* A bound of 0 is what a kernel has to the bit; else it may be anywhere around. */
        if (was->bound > 0) err = was->bound + (double)fabsl((long double)x.f - was->want);
        if (!isfinite(x.f)) err = 0;
    }
    um_expect e;
    if (f->epilogue) {
        e = run(f->epilogue, op, in, f->own, i, x, made, err, out);
        bool any_zero = err > 0 && um_oracle_is_float(out); /* times 0 */
        if (any_zero && !(e.bound > 0)) e.bound = UM_ANY_ZERO;
    } else if (is_float) {
        e = *was;
    } else {
        um_num num = um_oracle_convert(out, made, x);
        e = um_oracle_is_float(out) ? um_expect_near((long double)num.f, 0) : um_expect_num(num);
    }
    /* Of what may have been NaN or inf, anything may come. */
    bool loose = is_float && (was->judge != UM_JUDGE_NEAR || (isinf(x.f) && isfinite(was->want)));
    if (loose && f->epilogue) e.judge = UM_JUDGE_ANY;
    return e;
}

um_status um_oracle_fused(const um_op *op, const um_array *in, const um_array *out,
                          um_expect *expect)
{
    fused f = fused_of(op);
    um_op bare = *op;
    um_array own[MOST], made = *out;
    um_status status = UM_OK;
    double *err = calloc((size_t)in[0].count + 1, sizeof *err);
    if (!err) return UM_OUT_OF_MEMORY;
    for (int32_t k = 0; k < op->in_count; k++) own[k] = in[k];
    bare.in_count = op->in_count < f.own ? op->in_count : f.own;
    if (op->id == UM_OP_CONV && bare.in_count == 3 && in[2].count == 0) bare.in_count = 2;
    if (op->id == UM_OP_MATMUL)
        bare.attrs.matmul.epilogue = NULL;
    else if (op->id == UM_OP_CONV)
        bare.attrs.conv_fused.epilogue = NULL;
    else
        bare.attrs.reduce.prologue = bare.attrs.reduce.epilogue = NULL;
    if (f.prologue) status = run_prologue(&f, op, in, &own[0], err);
    made.dtype = made_dtype(op, own[0].dtype);
    if (status == UM_OK) status = um_oracle_run(&bare, own, &made, &expect);
    if (status == UM_OK && f.prologue && !add_errors(op->id, &own[0], err, &made, expect))
        status = UM_INTERNAL;
    for (int64_t i = 0; status == UM_OK && i < out->count; i++)
        expect[i] = finish(&f, op, in, i, made.dtype, &expect[i], out->dtype);
    if (f.prologue) free(own[0].item);
    free(err);
    return status;
}
