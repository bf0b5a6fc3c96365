/* kernel/library.h: the kernel library: every op as kernels in IR, for devices without kernels of
 * their own.
 *
 *   library.c   which ops there are, a plan's life
 *   walk.c      views as scalars, elements of them as loads and stores
 *   value.c     what each elementwise op is, on values
 *   map.c       elementwise ops and programs, copy, fill, arange
 *   reduce.c    reductions
 *   product.c   sums of products, product_frag.c by matrix units; what has them: matmul.c, conv.c
 *   pool.c      pooling; resize.c the same for resizing
 *   lines.c     what goes line by line (lines.h): softmax.c, norm.c; and rope.c
 *   attention.c attention: attention_forward.c, by attention_tile.c; attention_grad.c its gradients
 *   quant.c     affine quantization; random.c random numbers and dropout
 *   index.c     what reads or writes through indices; nonzero.c where elements are not 0
 *   sort.c      order by keys; scan.c running sums, products, maxima
 *
 * An op becomes a plan: one launch or more, in order. A launch has a kernel, whose text depends on
 * the op, dtypes and the number of axes but not on sizes, and its arguments: ranges of memory, in
 * which views begin at a base element, and 32-bit scalars.
 *
 * A new family is a file with um_k<family>_plan and, unless it takes all that fits,
 * um_k<family>_supports, named at the end here and in library.c. A plan takes a launch with its
 * kernel, makes a walk of the op's views, declares scalars and views (which also gives the
 * arguments), builds the body with places, indices, loads and stores of walk.c, and finishes the
 * kernel. */
#ifndef UM_KERNEL_LIBRARY_H
#define UM_KERNEL_LIBRARY_H

#include "ir/ir.h"
#include "op/table.h"

#include <umbel/device.h>

/* What a buffer parameter is bound to: begins at a multiple of 16. */
typedef struct um_kbinding {
    um_ptr begin; /* scratch: an offset in the plan's */
    uint64_t size_bytes;
    bool scratch;
} um_kbinding;

typedef struct um_kshared um_kshared;

typedef struct um_klaunch {
    um_kernel *kernel;  /* finished; the plan's; launches in a row may have the same */
    um_kshared *shared; /* not NULL: the kernel is a cache's (device/kcache.h) */
    uint32_t group_count[3];
    int32_t buffer_count, scalar_count;
    um_kbinding buffer[UM_K_MAX_BUFFERS];
    uint32_t scalar[UM_K_MAX_SCALARS];
} um_klaunch;

enum { UM_KPLAN_LAUNCHES = 32, UM_KFAULT_BYTES = 16 };

/* Of shared memory, that a kernel for a matrix unit may take. */
enum { UM_KUNIT_SHARED_BYTES = 49152 };

/* The matrix unit of the device that a plan is made for, or that it is a processor, whose shared
 * memory is memory like any other. */
typedef struct um_kunit {
    const um_matrix_tile *tiles;
    int32_t tile_count;
    uint32_t subgroup; /* invocations; all subgroups of such kernels have as many */
    bool async_copy;
    uint32_t own_tile; /* of a processor: rows and columns of a large product an invocation makes;
                        * a multiple of 4, at most 16 */
    bool fma_twice;    /* its fma of f64 may round twice */
} um_kunit;

typedef struct um_kplan {
    const um_kunit *unit; /* NULL: none; used while it is made */
    /* Which of several ways to do the op, from 1 to form_count; 0: by the library's rules. One way:
     * form_count is 1. */
    int32_t form, form_count;
    um_klaunch launch[UM_KPLAN_LAUNCHES];
    int32_t launch_count;
    /* Memory from the first launch to the last, at a multiple of 16; anything is in it. */
    uint64_t scratch_bytes;
    /* Not empty: scratch's first UM_KFAULT_BYTES are 0 at the beginning, and when its first u32 is
     * not 0 at the end, the op failed with OUT_OF_RANGE and this message. */
    char fault[128];
} um_kplan;

/* Whether there are kernels for a checked op with something to write; why says why not. */
bool um_kplan_supports(const um_op *op, char *why, size_t why_size);
/* Of an op that is supported. form: one of those that a plan has counted; 0: by the library's
 * rules. unit: the device's; NULL: none. OUT_OF_MEMORY. *out is good for release also after a
 * failure. */
um_status um_kplan_make(const um_op *op, const um_kunit *unit, int32_t form, um_kplan *out);
void um_kplan_release(um_kplan *plan);
/* While it is made: one more launch, with a new kernel of so many invocations a work-group. */
um_status um_kplan_launch(um_kplan *plan, const char *name, uint32_t size, um_klaunch **launch);
/* Why something is not supported, "<op>: no kernel <what>"; gives false. */
bool um_kplan_refuse(const um_op *op, char *why, size_t why_size, const char *what);

/* ---- the parts (walk.c) --------------------------------------------------------------------- */

/* One axis more than views have: group_norm's channels are two. */
enum { UM_KGROUP = 256, UM_KVIEWS = UM_OP_MAX_INPUTS + 1, UM_KAXES = UM_MAX_RANK + 1 };

/* Views of one shape, with axes that go on in all of them made one; axes of size 1 are gone. Those
 * that `lead` counts stay apart from the rest. */
typedef struct um_kwalk {
    int32_t view_count, rank, lead; /* lead: how many axes are of the first kind */
    const um_view *view[UM_KVIEWS];
    int64_t shape[UM_KAXES];
    int64_t stride[UM_KVIEWS][UM_KAXES];
} um_kwalk;

/* How elements of an output are written. */
typedef enum um_kstore {
    UM_KSTORE_PLAIN,  /* of 32 bits or more */
    UM_KSTORE_WORDS,  /* narrower and packed: an invocation writes all of a 32-bit word */
    UM_KSTORE_ATOMIC, /* narrower, anywhere: bits of a word by atomics */
} um_kstore;

/* false: too large for 32-bit indices; why says so. Of one view, of all that an op has. */
bool um_kwalk_fits(const um_view *view, char *why, size_t why_size);
bool um_kop_fits(const um_op *op, char *why, size_t why_size);
um_kwalk um_kwalk_make(int32_t count, const um_view *const *views, int32_t lead);
/* One more axis, behind those that are there, with its stride in each view; lead ones come first.
 */
void um_kwalk_add(um_kwalk *w, bool lead, int64_t size, const int64_t *stride);
/* Views of one rank, whose axes stay as they are; the shape is the first one's. */
um_kwalk um_kwalk_apart(int32_t count, const um_view *const *views);
/* ... but one, which goes behind the others (below 0: counted from the end); the shape is the last
 * view's. */
um_kwalk um_kwalk_behind(int32_t count, const um_view *const *views, int32_t axis);
um_kstore um_kwalk_store(const um_view *out);
/* How many elements along an axis can be loaded at once: 4, where they lie next to each other and
 * each four at a multiple of 4 from where a parameter can begin; or 1. */
int32_t um_kwalk_lanes(const um_view *view, int32_t axis);
/* Whether so can `count` of them. */
bool um_kwalk_joins(const um_view *view, int32_t axis, int64_t count);

/* One view as a parameter of a kernel: its memory, its base and its strides as scalars. */
typedef struct um_kview {
    um_mem mem;
    um_dtype dtype; /* of the elements; the memory's may be another of their bits */
    um_kstore store;
    um_val base, stride[UM_KAXES];
} um_kview;

/* What declares a parameter also appends its argument to the launch. Names are printf's; of a value
 * its low 32 bits count. */
um_val um_klaunch_scalar(um_klaunch *launch, int64_t value, const char *name, ...) UM_PRINTF(3, 4);
/* Of a dtype of 32 bits, or of 64 as two scalars. */
um_val um_klaunch_real(um_klaunch *launch, um_dtype dtype, double value, const char *name);
um_kview um_kview_declare(um_klaunch *launch, const um_kwalk *w, int32_t index, int32_t access,
                          um_kstore store);
um_kview um_kview_read(um_klaunch *launch, const um_kwalk *w, int32_t index);
/* Of which an invocation writes whatever element. */
um_kview um_kview_write(um_klaunch *launch, const um_kwalk *w, int32_t index);
/* The walk's view 0, written; and one that is read through its parameter where both are the same
 * view: one memory, one binding. */
um_kview um_kview_output(um_klaunch *launch, const um_kwalk *w, um_kstore store);
um_kview um_kview_input(um_klaunch *launch, const um_kwalk *w, int32_t index, const um_kview *out);
/* The sizes of axes first + 1 .. end - 1. */
void um_kwalk_sizes(um_klaunch *launch, const um_kwalk *w, int32_t first, int32_t end,
                    um_val *size);
/* A variable that begins with the value. */
um_mem um_kvar(um_kernel *k, um_val value, const char *name, ...) UM_PRINTF(3, 4);

/* place[axis] of element e of the walk's axes first .. end - 1, row-major; size: their sizes, of
 * which the first is not looked at. */
void um_kwalk_places(um_kernel *k, um_val e, int32_t first, int32_t end, const um_val *size,
                     um_val *place);
/* base + sum of place * stride over axes first .. end - 1. */
um_val um_kview_index(um_kernel *k, const um_kview *v, um_val base, int32_t first, int32_t end,
                      const um_val *place);
/* The same, from the view's own base, and the element there. */
um_val um_kview_place(um_kernel *k, const um_kview *v, int32_t rank, const um_val *place);
um_val um_kview_load_at(um_kernel *k, const um_kview *v, int32_t rank, const um_val *place);
um_val um_kview_load(um_kernel *k, const um_kview *v, um_val index);
void um_kview_store(um_kernel *k, const um_kview *v, um_val index, um_val value);

/* Bytes of the plan's scratch memory as a parameter. */
um_mem um_klaunch_scratch(um_klaunch *launch, const char *name, um_dtype dtype, uint64_t offset,
                          uint64_t size_bytes);
/* Element `index` of memory of u32 becomes 1 where the condition holds, in whatever work-group. */
void um_kflag(um_kernel *k, um_mem mem, uint32_t index, um_val condition);

/* The number of the invocation in the launch, of work-groups in one row or several. */
um_val um_klaunch_number(um_kernel *k);
um_val um_klaunch_group_number(um_kernel *k);
/* Work-groups, at most 65,535 a dimension; there may be more than count. */
void um_klaunch_groups(um_klaunch *launch, int64_t count);

/* A kernel with an invocation for each element of an output, the walk's view 0, or for those of a
 * 32-bit word of it. */
typedef struct um_keach {
    um_kernel *k;
    um_klaunch *launch;
    um_kwalk walk;
    um_kview view[UM_KVIEWS];               /* those that are declared */
    um_val size[UM_KAXES], place[UM_KAXES]; /* place, number: of the element */
    um_val number, count, shift, per;
    um_kstore store;
} um_keach;
/* Of walk: a new launch, with the sizes as scalars; and with view 0. */
um_status um_keach_start(um_keach *each, um_kplan *plan, const char *name);
um_status um_keach_create(um_keach *each, um_kplan *plan, const char *name);
void um_keach_read(um_keach *each, int32_t view);
/* What is appended between begin and finish is done for each element. */
void um_keach_begin(um_keach *each);
um_status um_keach_finish(um_keach *each);
/* The element at its place, of a view; and as another dtype. store: as view 0's. */
um_val um_keach_load(const um_keach *each, int32_t view);
um_val um_keach_load_as(const um_keach *each, int32_t view, um_dtype dtype);
void um_keach_store(const um_keach *each, um_val value);

/* A value of at most 32 bits as the low bits of a u32, and back. */
um_val um_kvalue_bits(um_kernel *k, um_val a);
um_val um_kvalue_from_bits(um_kernel *k, um_dtype dtype, um_val bits);

/* ---- values (value.c) ----------------------------------------------------------------------- */

um_val um_kvalue_number(um_kernel *k, um_dtype dtype, double value);
/* a as dtype; what it is when it is so already. f4e2m1, which no kernel has, is one of its numbers
 * as f32. */
um_val um_kvalue_as(um_kernel *k, um_dtype dtype, um_val a);
/* The 4 bits of a as f4e2m1, and back to f32. */
um_val um_kvalue_f4_bits(um_kernel *k, um_val a);
um_val um_kvalue_from_f4_bits(um_kernel *k, um_val bits);
/* What an op computes a dtype in: f32, f64, i32, u32 (bool too), i64, u64. */
um_dtype um_kvalue_compute(um_dtype dtype);
/* A MAP op on values of a compute dtype. Comparisons and logic give bool. */
um_val um_kvalue_map(um_kernel *k, um_op_id op, const um_val *x, double a);
/* A program (map.c) on values of its inputs: the last instruction's, in what that dtype computes in
 * or bool. */
um_val um_kprogram_run(um_kernel *k, const um_map_program *p, int32_t in_count, const um_val *in);
um_val um_kvalue_max(um_kernel *k, um_val a, um_val b); /* by the contract, of floats too */
um_val um_kvalue_min(um_kernel *k, um_val a, um_val b);

/* ---- sums (product.c) ----------------------------------------------------------------------- */

/* A sum in variables: of floats with what its additions lost, so that the error does not grow with
 * their number; else, and where that is not wanted, lost is 0. */
typedef struct um_ksum {
    um_mem sum, lost;
} um_ksum;
/* Of as many lanes as the first value has, which counts. */
um_ksum um_ksum_new(um_kernel *k, um_val first, const char *name, ...) UM_PRINTF(3, 4);
void um_ksum_add(um_kernel *k, um_ksum s, um_val x);
um_val um_ksum_get(um_kernel *k, um_ksum s);

/* out[batch,row,column] = what `finish` makes of the sum over depth of a[batch,row,depth] times
 * b[batch,column,depth], in the dtype `compute`. The functions append to a kernel, of which there
 * may be two: one for the factors and one for the result. */
enum { UM_KPRODUCT_FACTORS = 1, UM_KPRODUCT_RESULT = 2 };
typedef struct um_kproduct {
    int64_t batches, rows, columns, depth; /* as many outputs as fit in 32 bits */
    um_dtype compute;
    bool a_deep,
        b_deep; /* along the depth elements lie next to each other; else rows, columns do */
    int32_t a_lanes, b_lanes; /* 4: so many of them, from a multiple, can be loaded at once; or 1 */
    void *ctx;
    /* The parameters of `parts` (UM_KPRODUCT_FACTORS, ...). in_fours: an invocation finishes 4
     * columns of a row, from a multiple of 4; else one. */
    void (*declare)(void *ctx, um_klaunch *launch, int32_t parts, bool in_fours);
    void (*begin)(void *ctx, um_kernel *k, um_val batch); /* what follows is of that entry */
    /* A factor, or lanes of them, in any dtype; 0 where `in` does not hold. Not called with a depth
     * of 0. */
    um_val (*a)(void *ctx, um_kernel *k, um_val row, um_val depth, um_val in, int32_t lanes);
    um_val (*b)(void *ctx, um_kernel *k, um_val column, um_val depth, um_val in, int32_t lanes);
    void (*finish)(void *ctx, um_kernel *k, um_val row, um_val column, um_val sum);
    /* For a matrix unit: a dtype that has all factors' numbers, whether 16 bytes of them can be
     * copied as they are, and where: which element of which memory; at NULL: they cannot. */
    um_dtype narrow;
    bool a_whole, b_whole;
    um_val (*at)(void *ctx, um_kernel *k, bool of_b, um_val place, um_val depth, um_mem *mem);
    /* NULL: always. Whether there is a product at all, as opposed to one of zeros, which is NaN
     * where the other factor is not finite. */
    um_val (*meets)(void *ctx, um_kernel *k, um_val row, um_val column, um_val depth);
} um_kproduct;
um_dtype um_kproduct_narrow(um_dtype dtype); /* of factors of the dtype */
/* Rows, columns and depth of the tiles of a form of a product of f32 (the plan of whose op counts
 * forms). */
void um_kproduct_tile(int32_t form, int32_t tile[3]);
/* Appends a launch or two to the plan, and takes its scratch memory. */
um_status um_kproduct_plan(const char *name, um_kplan *plan, const um_kproduct *p);

/* ---- order (sort.c) ------------------------------------------------------------------------- */

/* Lines of keys in the plan's scratch memory, of one u32 or two, low first. */
typedef struct um_korder {
    int64_t count, length; /* of all keys; of a line */
    int32_t words;
    int64_t limit; /* how many of each line are wanted; 0: all */
    void *ctx;
    void (*declare)(void *ctx, um_klaunch *launch);
    /* Key e, which is number i of its line, is number `rank` of the line in order; equal keys stay
     * in theirs. NULL: the plan leaves them sorted in its scratch memory. */
    void (*put)(void *ctx, um_kernel *k, um_val e, um_val i, um_val rank);
} um_korder;
bool um_korder_fits(const um_op *op, int64_t count, char *why, size_t why_size);
um_mem um_korder_declare(um_klaunch *launch, const um_korder *o);
void um_korder_store(um_kernel *k, um_mem keys, int32_t words, um_val e, const um_val *key);
/* What is sorted: key e's words, and then which of its line it was. */
um_mem um_korder_declare_sorted(um_klaunch *launch, const um_korder *o);
void um_korder_load(um_kernel *k, um_mem sorted, int32_t words, um_val e, um_val *record);
/* How many of `count` < 2^(top + 1) sorted keys of one word, from number `first`, are less than
 * `key`, or the same. */
um_val um_korder_search(um_kernel *k, um_mem sorted, um_val first, um_val count, um_val top,
                        um_val key, bool or_equal);
/* Appends the launches after that which stores the keys, and takes the plan's scratch memory. */
um_status um_korder_plan(const char *name, um_kplan *plan, const um_korder *o);

/* ---- families ------------------------------------------------------------------------------- */

#define UM_KFAMILY(family)                                                                         \
    bool um_k##family##_supports(const um_op *op, char *why, size_t why_size);                     \
    um_status um_k##family##_plan(const um_op *op, um_kplan *plan);
UM_KFAMILY(reduce)
UM_KFAMILY(matmul)
UM_KFAMILY(conv)
UM_KFAMILY(pool)
UM_KFAMILY(resize)
UM_KFAMILY(norm)
UM_KFAMILY(attention)
UM_KFAMILY(random)
UM_KFAMILY(index)
UM_KFAMILY(sort)
#undef UM_KFAMILY
um_status um_kmap_plan(const um_op *op, um_kplan *plan);
um_status um_kquant_plan(const um_op *op, um_kplan *plan);
um_status um_knonzero_plan(const um_op *op, um_kplan *plan);
um_status um_kscan_plan(const um_op *op, um_kplan *plan);

#endif
