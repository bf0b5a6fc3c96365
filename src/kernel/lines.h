/* kernel/lines.h: what goes line by line: softmax and the norms. Such an op is a plan of a launch
 * that makes a few numbers of each line, in scratch memory, one that makes each element from its
 * own and its line's numbers, and for gradients one that adds up for each parameter. */
#ifndef UM_KERNEL_LINES_H
#define UM_KERNEL_LINES_H

#include "kernel/library.h"

/* An axis of the elements: which axis of views like x, like the parameters and like the statistics
 * it is, or -1. step: along the first two, so many of theirs is one. */
typedef struct um_kaxis {
    int64_t size, step;
    int32_t full, weight, line;
} um_kaxis;

typedef struct um_klayout {
    int32_t rank;
    um_kaxis axis[UM_KAXES];  /* in the order of x's */
    int64_t lines, weights;   /* as many as there are; made by um_klayout_close */
    int64_t number[UM_KAXES]; /* stride of a line's number */
} um_klayout;

/* What a view is like; NUMBER: not a view, but the line's number. */
typedef enum um_klike { UM_KLIKE_X, UM_KLIKE_WEIGHT, UM_KLIKE_LINE, UM_KLIKE_NUMBER } um_klike;
typedef struct um_kpart {
    const um_view *view;
    um_klike like;
} um_kpart;

void um_klayout_close(um_klayout *l);
/* The parts' walk, in which the axes that lines, or parameters, have lead. */
typedef enum um_klead { UM_KLEAD_NONE, UM_KLEAD_LINE, UM_KLEAD_WEIGHT } um_klead;
um_kwalk um_klayout_walk(const um_klayout *l, um_klead lead, int32_t count, const um_kpart *parts);

/* A kernel whose leading places are each made by some invocations, which share the other axes. */
typedef struct um_klines {
    um_kernel *k;
    um_klaunch *launch;
    um_kwalk walk;
    um_dtype compute;
    int64_t lines, count;  /* count: of the other axes' elements */
    uint32_t lanes, apart; /* invocations of a line, and from one of them to the next */
    um_val number, in, end, local, lane;
    um_val place[UM_KAXES], size[UM_KAXES]; /* of the line; then of the element, too */
    um_mem room[2];
    int32_t names;
} um_klines;

/* Of walk, compute: a new launch; views are declared by whoever has them. */
um_status um_klines_begin(um_klines *l, um_kplan *plan, const char *name);
/* Where the line begins in a view, also in one of the leading axes alone (um_klines_lead). */
um_kwalk um_klines_lead(const um_klines *l);
um_val um_klines_from(const um_klines *l, const um_kview *v);
/* A variable of compute, and a sum, with a new name. */
um_mem um_klines_var(um_klines *l, double value);
um_ksum um_klines_new_sum(um_klines *l);
/* Begins a loop over this invocation's elements, which um_k_end ends. */
void um_klines_each(um_klines *l);
/* The loop's element, in compute; from: of um_klines_from. */
um_val um_klines_load(const um_klines *l, const um_kview *v, um_val from);
/* What the line's invocations have together, in each of them: of a sum, and of the largest. The
 * flow is that of the whole work-group. */
um_val um_klines_sum(um_klines *l, um_ksum sum);
um_val um_klines_max(um_klines *l, um_mem largest, bool with_nan);
/* Begins an if of one invocation for each line. */
void um_klines_once(const um_klines *l);

/* Numbers of lines: number s of line i is element s lines + i of the scratch memory. */
typedef struct um_knumbers {
    um_mem mem;
    um_val lines;
} um_knumbers;
/* false: too many of them for 32-bit indices; why says so. */
bool um_klayout_fits(const um_op *op, const um_klayout *l, int32_t count, char *why,
                     size_t why_size);
void um_kplan_numbers(um_kplan *plan, const um_klayout *l, um_dtype compute, int32_t count);
um_knumbers um_knumbers_declare(um_klaunch *launch, const um_kplan *plan, const um_klayout *l,
                                um_dtype compute);
um_val um_knumbers_load(um_kernel *k, const um_knumbers *n, uint32_t which, um_val line);
void um_knumbers_store(um_kernel *k, const um_knumbers *n, uint32_t which, um_val line, um_val x);
/* The number's strides, as a view. */
um_kview um_knumber_declare(um_klaunch *launch, const um_kwalk *w, int32_t index);

/* ---- families ------------------------------------------------------------------------------- */

bool um_ksoftmax_supports(const um_op *op, char *why, size_t why_size);
um_status um_ksoftmax_plan(const um_op *op, um_kplan *plan);
um_status um_krope_plan(const um_op *op, um_kplan *plan); /* not by lines, but of this family */

#endif
