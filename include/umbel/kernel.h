/* umbel/kernel.h: the kernel IR: kernels written once, in C, for every target.
 *
 * A kernel is built by calls, each of which appends one instruction and gives its value:
 *
 *   um_kernel *k;
 *   um_kernel_create(&(um_kernel_desc){.name = "scale", .group_size = {64}}, &k);
 *   um_mem x = um_k_buffer(k, "x", UM_F32, UM_K_READ_WRITE);
 *   um_val n = um_k_scalar(k, "n", UM_U32), s = um_k_scalar(k, "s", UM_F32);
 *   um_val i = um_k_global_index(k, 0);
 *   um_k_if(k, um_k_lt(k, i, n));
 *   um_k_store(k, x, i, um_k_mul(k, um_k_load(k, x, i), s));
 *   um_k_end(k);
 *   um_status status = um_kernel_finish(k);
 *
 * Nothing needs a check in between: the first mistake is kept, what follows it does nothing, and
 * um_kernel_finish returns it. A kernel is used from one thread at a time while it is built and by
 * any number once it is finished; then it never changes.
 *
 * Model: work-groups of invocations; subgroups of 1 to 128 invocations within them, of a size that
 * only the device knows. Values are immutable, of an element type (um_dtype) and 1, 2 or 4 lanes.
 * Arithmetic is on f32, i32, u32 and bool everywhere; on f16, f64, i64, u64 where the device has it
 * or the passes can emulate it. Other dtypes are stored, loaded and converted only. What changes
 * lives in memories: buffers, shared arrays, private arrays and variables. Memory is reached as
 * (memory, u32 element index), never by address. There are no phis and no early return: a loop's
 * carried values are variables.
 *
 * Races: two invocations of a work-group touch one element of a memory between two barriers, one of
 * them writes and not both are atomic: undefined. A 32-bit word of a buffer of 8- or 16-bit
 * elements counts as one element when it is stored to: one invocation owns it. Two work-groups of a
 * launch race likewise on an element of a buffer, from the launch's begin to its end.
 */
#ifndef UMBEL_KERNEL_H
#define UMBEL_KERNEL_H

#include <umbel/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct um_kernel um_kernel;
typedef uint32_t um_val;  /* a value; 0: none, and of a call after a mistake */
typedef uint32_t um_mem;  /* a buffer parameter, shared or private array or variable; 0: none */
typedef uint32_t um_frag; /* a matrix fragment; 0: none */

typedef int32_t um_kop;
enum {
    UM_KOP_NONE = 0,
#define UM_KOP(id, NAME, name, arity, rule, types, flow, imm, same, doc) UM_KOP_##NAME = id,
#include <umbel/kernel.def>
};

/* How a buffer is used; the operation of reduce, scan and atomic; what a fragment is in a b + c. */
enum { UM_K_READ = 1, UM_K_WRITE = 2, UM_K_READ_WRITE = 3 };
enum {
    UM_K_ADD = 1,
    UM_K_MUL = 2, /* not of atomics */
    UM_K_MIN = 3,
    UM_K_MAX = 4,
    UM_K_AND = 5, /* integers; of reduce also bool */
    UM_K_OR = 6,
    UM_K_XOR = 7,
    UM_K_EXCHANGE = 8 /* atomics only */
};
enum { UM_K_FRAG_A = 1, UM_K_FRAG_B = 2, UM_K_FRAG_C = 3 };

#define UM_K_MAX_BUFFERS 16
#define UM_K_MAX_SCALARS 80

typedef struct um_kernel_desc {
    const char *name;         /* a C identifier of at most 47 characters, unique in a program */
    uint32_t group_size[3];   /* 0 counts as 1; at most 1024 in all */
    uint32_t subgroup_size;   /* the only one it runs with; 0: any */
    uint32_t cluster_size[3]; /* work-groups of a cluster; 0 counts as 1 */
} um_kernel_desc;

/* ---- a kernel's life --------------------------------------------------------------------------
 */

/* OUT_OF_MEMORY, INVALID_ARGUMENT. */
UM_API UM_MUST_CHECK um_status um_kernel_create(const um_kernel_desc *desc,
                                                UM_GIVE um_kernel **out);
/* Verifies it: operand types, structure, that values are seen where they are used, uniformity
 * (a barrier and group ops in flow that all invocations of the work-group share, subgroup ops and
 * fragments in flow that the subgroup shares), names, sizes. Returns the first mistake, of the
 * building or of the verifier: INVALID_ARGUMENT, naming the instruction; OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_kernel_finish(um_kernel *kernel);
UM_API void um_kernel_release(UM_TAKE um_kernel *kernel); /* NULL is legal */

/* ---- what it takes and holds -------------------------------------------------------------------
 */

/* Parameters, in the order in which a launch gives them. Names are C identifiers of at most 31
 * characters, unique in the kernel. dtype: any whose elements are whole bytes. */
UM_API um_mem um_k_buffer(um_kernel *k, const char *name, um_dtype dtype, int32_t access);
/* f32, i32 or u32. */
UM_API um_val um_k_scalar(um_kernel *k, const char *name, um_dtype dtype);
/* Of the work-group, undefined until it is written. */
UM_API um_mem um_k_shared(um_kernel *k, const char *name, um_dtype dtype, uint32_t count);
/* Of the invocation: an array, and a variable of 1, 2 or 4 lanes; undefined until written. */
UM_API um_mem um_k_private(um_kernel *k, const char *name, um_dtype dtype, uint32_t count);
UM_API um_mem um_k_var(um_kernel *k, const char *name, um_dtype dtype, int32_t lanes);
/* Of the subgroup: role UM_K_FRAG_A [m,k], B [k,n], C [m,n]. */
UM_API um_frag um_k_frag(um_kernel *k, const char *name, int32_t role, uint32_t m, uint32_t n,
                         uint32_t kk, um_dtype dtype);

/* ---- instructions -------------------------------------------------------------------------------
 */

/* Opcodes of arity 1, 2 and 3 of one type: um_k_add(k, a, b), um_k_lt, um_k_select, um_k_exp, ...
 */
#define UM_KOP(id, NAME, name, arity, rule, types, flow, imm, same, doc)
#define UM_KOP1(id, NAME, name, rule, types, doc) UM_API um_val um_k_##name(um_kernel *k, um_val a);
#define UM_KOP2(id, NAME, name, rule, types, doc)                                                  \
    UM_API um_val um_k_##name(um_kernel *k, um_val a, um_val b);
#define UM_KOP3(id, NAME, name, rule, types, doc)                                                  \
    UM_API um_val um_k_##name(um_kernel *k, um_val a, um_val b, um_val c);
#include <umbel/kernel.def>

/* Constants: by the dtype's own bits, and by value. */
UM_API um_val um_k_const(um_kernel *k, um_dtype dtype, uint64_t bits);
UM_API um_val um_k_f32(um_kernel *k, float value);
UM_API um_val um_k_i32(um_kernel *k, int32_t value);
UM_API um_val um_k_u32(um_kernel *k, uint32_t value);
UM_API um_val um_k_bool(um_kernel *k, bool value);

/* The opcodes without operands: UM_KOP_GROUP_ID, ...; dim 0, 1 or 2 where it has one, else 0. */
UM_API um_val um_k_builtin(um_kernel *k, um_kop op, uint32_t dim);
/* group_id(dim) * group_size[dim] + local_id(dim) */
UM_API um_val um_k_global_index(um_kernel *k, uint32_t dim);

/* By um_convert's rules; and the same bits as another type of as many bits in all. */
UM_API um_val um_k_convert(um_kernel *k, um_dtype dtype, um_val a);
UM_API um_val um_k_bitcast(um_kernel *k, um_dtype dtype, int32_t lanes, um_val a);
/* With 1 lane, and of the one lane of a scalar: what was given. */
UM_API um_val um_k_vector(um_kernel *k, int32_t lanes, const um_val *items);
UM_API um_val um_k_splat(um_kernel *k, int32_t lanes, um_val a);
UM_API um_val um_k_extract(um_kernel *k, um_val a, uint32_t lane);

/* index: u32. Elements index .. index + lanes - 1; index must be a multiple of lanes. */
UM_API um_val um_k_load(um_kernel *k, um_mem mem, um_val index);
UM_API um_val um_k_load_lanes(um_kernel *k, um_mem mem, um_val index, int32_t lanes);
/* Where the condition does not hold: other, and memory is not touched. Its lanes are loaded. */
UM_API um_val um_k_load_if(um_kernel *k, um_mem mem, um_val index, um_val condition, um_val other);
UM_API void um_k_store(um_kernel *k, um_mem mem, um_val index, um_val value);
UM_API void um_k_store_if(um_kernel *k, um_mem mem, um_val index, um_val value, um_val condition);
UM_API um_val um_k_get(um_kernel *k, um_mem var);
UM_API void um_k_set(um_kernel *k, um_mem var, um_val value);
/* On u32 and i32 in buffers and shared arrays (f32 add where the device has it). */
UM_API um_val um_k_atomic(um_kernel *k, int32_t operation, um_mem mem, um_val index, um_val value);
UM_API um_val um_k_atomic_cas(um_kernel *k, um_mem mem, um_val index, um_val expected,
                              um_val value);
UM_API void um_k_barrier(um_kernel *k);
/* Between two barriers, so that the value counts as the same in the whole work-group. */
UM_API um_val um_k_load_uniform(um_kernel *k, um_mem shared, um_val index);

/* Over the lanes of the subgroup; a scan takes the lanes up to this one, exclusive: without it. */
UM_API um_val um_k_subgroup_reduce(um_kernel *k, int32_t operation, um_val a);
UM_API um_val um_k_subgroup_scan(um_kernel *k, int32_t operation, bool exclusive, um_val a);
UM_API um_val um_k_subgroup_shuffle(um_kernel *k, um_val a, um_val lane);
/* op: UM_KOP_SUBGROUP_SHUFFLE_XOR, _UP, _DOWN */
UM_API um_val um_k_subgroup_shift(um_kernel *k, um_kop op, um_val a, uint32_t by);
UM_API um_val um_k_subgroup_ballot(um_kernel *k, um_val a);
UM_API um_val um_k_group_broadcast(um_kernel *k, um_val a, uint32_t local_index);
UM_API um_val um_k_group_reduce(um_kernel *k, int32_t operation, um_val a);
UM_API um_val um_k_group_scan(um_kernel *k, int32_t operation, bool exclusive, um_val a);

/* Fragments move between registers and a buffer or shared array, of the fragment's type or of its
 * bits as an unsigned integer; stride: u32, elements from one row (by_columns: column) to the next.
 * Rows begin at whole 16 bytes; of 8, 4, 2 bytes and odd ones, at whole 8, 4, 2, 1. */
UM_API void um_k_frag_fill(um_kernel *k, um_frag frag, um_val a);
UM_API void um_k_frag_load(um_kernel *k, um_frag frag, um_mem mem, um_val index, um_val stride,
                           bool by_columns);
UM_API void um_k_frag_store(um_kernel *k, um_frag frag, um_mem mem, um_val index, um_val stride,
                            bool by_columns);
UM_API void um_k_frag_mma(um_kernel *k, um_frag d, um_frag a, um_frag b, um_frag c);
/* The elements that this invocation holds, and where they lie in the matrix. */
UM_API um_val um_k_frag_count(um_kernel *k, um_frag frag);
UM_API um_val um_k_frag_get(um_kernel *k, um_frag frag, um_val item);
UM_API void um_k_frag_set(um_kernel *k, um_frag frag, um_val item, um_val value);
UM_API um_val um_k_frag_row(um_kernel *k, um_frag frag, um_val item);
UM_API um_val um_k_frag_column(um_kernel *k, um_frag frag, um_val item);

/* 16 bytes to shared memory, behind the invocation's other work: what was copied since the last
 * commit is a batch, and a wait is over when all but the last batches_left are there. */
UM_API void um_k_async_copy(um_kernel *k, um_mem shared, um_val shared_index, um_mem buffer,
                            um_val buffer_index);
UM_API void um_k_async_commit(um_kernel *k);
UM_API void um_k_async_wait(um_kernel *k, uint32_t batches_left);

/* Structured flow; each if, for and loop has its end. */
UM_API void um_k_if(um_kernel *k, um_val condition);
UM_API void um_k_else(um_kernel *k);
/* The value of the counter: begin, begin + step, ... below end; i32 or u32. */
UM_API um_val um_k_for(um_kernel *k, um_val begin, um_val end, um_val step);
UM_API void um_k_loop(um_kernel *k);
UM_API void um_k_break(um_kernel *k);
UM_API void um_k_break_if(um_kernel *k, um_val condition); /* if, break, end */
UM_API void um_k_end(um_kernel *k);

/* ---- text ---------------------------------------------------------------------------------------
 */

/* The kernel as text, which um_kernel_parse turns into the same kernel. *text is freed with
 * um_kernel_text_free. OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_kernel_print(const um_kernel *kernel, UM_GIVE char **text);
UM_API void um_kernel_text_free(UM_TAKE char *text);
/* A finished kernel. INVALID_ARGUMENT, with line and column where the text has another form, with
 * the instruction where the kernel is wrong; OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_kernel_parse(const char *text, UM_GIVE um_kernel **out);

/* ---- the interpreter ----------------------------------------------------------------------------
 */

/* Memory of a buffer parameter, on the host; index 0 of the parameter is the first byte. At a
 * multiple of 16 bytes. Buffers may overlap; the rules on races hold for what they share. */
typedef struct um_kernel_buffer {
    void *data;
    uint64_t size_bytes;
} um_kernel_buffer;

typedef struct um_kernel_run {
    uint32_t group_count[3]; /* 0: nothing runs */
    uint32_t subgroup_size;  /* 1, 2, 4, ... 128; 0: 32. The last of a group may be smaller */
    const um_kernel_buffer *buffers;
    int32_t buffer_count;
    const uint32_t *scalars; /* the bits of each */
    int32_t scalar_count;
    uint64_t step_limit; /* instructions of one work-group; 0: 2^32 */
} um_kernel_run;

/* Runs a finished kernel on the calling thread, work-group by work-group, the invocations of a
 * group in lock-step; the meaning of the IR. OUT_OF_RANGE: an access past the end of a memory;
 * INVALID_ARGUMENT: wrong parameters, or what the IR forbids: a misaligned vector access, a value
 * read before it was written, a race, a division by 0, a barrier that not all reach; TIMEOUT: the
 * step limit. Each names the instruction and the invocation. OUT_OF_MEMORY. What a run that fails
 * had stored stays.
 *
 * Fragments are of any size here, and lie as on no device, so that a kernel that relies on a layout
 * fails: of a matrix whose elements are numbered row by row (role B: column by column), element f
 * is item f / L of lane f % L of the L invocations of the subgroup; frag_count may differ between
 * them. What a shuffle up or down gives without a source is all bits set. */
UM_API UM_MUST_CHECK um_status um_kernel_interpret(const um_kernel *kernel,
                                                   const um_kernel_run *run);

#ifdef __cplusplus
}
#endif
#endif
