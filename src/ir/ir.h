/* ir/ir.h: the inside of a kernel, for the files of this folder, the renderers (src/render) and the
 * kernel library (src/kernel). What opcodes mean is in umbel/kernel.def. */
#ifndef UM_IR_IR_H
#define UM_IR_IR_H

#include "base/base.h"

#include <umbel/kernel.h>

/* An element type and its lanes; dtype UM_DTYPE_NONE: no value. */
typedef struct um_ktype {
    uint8_t dtype, lanes;
} um_ktype;
static inline bool um_ktype_equal(um_ktype a, um_ktype b)
{
    return a.dtype == b.dtype && a.lanes == b.lanes;
}
static inline uint32_t um_ktype_bits(um_ktype t)
{
    return (uint32_t)um_dtype_bits(t.dtype) * t.lanes; /* bool counts as 8 */
}

/* Value v is inst[v]; inst[0] is a NONE. */
typedef struct um_kinst {
    uint16_t op;
    um_ktype type;     /* of the result */
    um_val arg[4];     /* the first `arity` (VECTOR: `lanes`) of them */
    uint32_t reserved; /* 0: instructions are compared as bytes, as are the declarations below */
    uint64_t imm;      /* as the opcode's row says */
} um_kinst;

typedef enum um_space {
    UM_SPACE_BUFFER,
    UM_SPACE_SHARED,
    UM_SPACE_PRIVATE, /* arrays */
    UM_SPACE_VAR
} um_space;

/* Memory m is mem[m - 1]. Buffers come in the order of the launch's arguments. */
typedef struct um_kmem {
    char name[32];
    uint8_t space;  /* um_space */
    uint8_t access; /* buffers: UM_K_READ, ... */
    um_ktype type;  /* of an element; more than one lane: variables only */
    uint32_t count; /* arrays */
} um_kmem;

typedef struct um_kscalar {
    char name[32];
    um_dtype dtype;
} um_kscalar;

typedef struct um_kfrag {
    char name[32];
    uint8_t role, dtype;
    uint16_t reserved; /* 0 */
    uint32_t m, n, k;
} um_kfrag;

static inline uint32_t um_kfrag_rows(const um_kfrag *f)
{
    return f->role == UM_K_FRAG_B ? f->k : f->m;
}
static inline uint32_t um_kfrag_columns(const um_kfrag *f)
{
    return f->role == UM_K_FRAG_A ? f->k : f->n;
}
static inline uint32_t um_kfrag_count(const um_kfrag *f)
{
    return um_kfrag_rows(f) * um_kfrag_columns(f);
}

static inline uint32_t um_element_bytes(um_dtype dtype)
{
    return (uint32_t)um_dtype_bits(dtype) / 8;
}

struct um_kernel {
    char name[48];
    uint32_t group_size[3], subgroup_size, cluster_size[3]; /* sizes of dimensions are 1 or more */
    um_kinst *inst;
    int64_t inst_count, inst_capacity; /* with inst[0] */
    um_kmem *mem;
    int64_t mem_count, mem_capacity;
    um_kscalar *scalar;
    int64_t scalar_count, scalar_capacity;
    um_kfrag *frag;
    int64_t frag_count, frag_capacity;
    um_status status; /* the first mistake of the building, else UM_OK */
    um_error error;   /* it */
    bool finished;
    bool fma_twice; /* what it is for may round an fma of f64 twice */
};

/* Whether they are the same text, and a hash of that. */
bool um_kernel_same(const um_kernel *a, const um_kernel *b);
uint64_t um_kernel_hash(const um_kernel *k);

/* ---- opcodes (build.c) ---------------------------------------------------------------------- */

typedef enum um_krule {
    UM_KRULE_SAME,
    UM_KRULE_BOOL,
    UM_KRULE_SELECT,
    UM_KRULE_GIVEN,
    UM_KRULE_NONE
} um_krule;
/* Which element types, as bits. */
enum {
    UM_KTYPES_F = 1,
    UM_KTYPES_I = 2,
    UM_KTYPES_N = 3,
    UM_KTYPES_B = 4,
    UM_KTYPES_IB = 6,
    UM_KTYPES_NB = 7,
    UM_KTYPES_ANY = 15
};
typedef enum um_kflow { UM_KFLOW_ANY, UM_KFLOW_SUBGROUP, UM_KFLOW_GROUP } um_kflow;

/* What an instruction's imm holds. */
typedef enum um_kimm {
    UM_KIMM_NONE,      /* 0 */
    UM_KIMM_BITS,      /* a constant's */
    UM_KIMM_SCALAR,    /* scalar parameter number */
    UM_KIMM_NUMBER,    /* dimension, lane, distance, batches */
    UM_KIMM_MEMORY,    /* memory number */
    UM_KIMM_OPERATION, /* UM_K_ADD, ...; of scans, bit 32: exclusive */
    UM_KIMM_ATOMIC,    /* memory number, and the operation from bit 32 */
    UM_KIMM_FRAG,      /* fragment number */
    UM_KIMM_FRAG_AT,   /* fragment number, bit 31 by columns, memory number from bit 32 */
    UM_KIMM_MMA,       /* four fragment numbers of 16 bits */
    UM_KIMM_COPY       /* memory number, and another from bit 32 */
} um_kimm;
typedef enum um_ksame {
    UM_KSAME_OPERANDS,
    UM_KSAME_MEMORY,
    UM_KSAME_GROUP,
    UM_KSAME_SUBGROUP,
    UM_KSAME_NOWHERE
} um_ksame;

typedef struct um_kop_row {
    const char *name; /* NULL: no such opcode */
    uint8_t arity, rule, types, flow, imm, same;
} um_kop_row;
#define UM_KOP_LIMIT 160
extern const um_kop_row um_kop_rows[UM_KOP_LIMIT];
static inline um_kimm um_kop_imm(um_kop op) { return um_kop_rows[op].imm; }

/* The fields of an imm, in the order of the text; behind the last is one of no kind. */
typedef enum um_kfield_kind {
    UM_KFIELD_NONE,
    UM_KFIELD_BITS,
    UM_KFIELD_SCALAR, /* numbers of what has a name, as are: */
    UM_KFIELD_MEMORY,
    UM_KFIELD_FRAG,
    UM_KFIELD_OPERATION,
    UM_KFIELD_NUMBER,
    UM_KFIELD_EXCLUSIVE, /* a word that is there or not, as is: */
    UM_KFIELD_BY_COLUMNS
} um_kfield_kind;
typedef struct um_kfield {
    uint8_t kind, shift, bits;
} um_kfield;
extern const um_kfield um_kimm_fields[][5];
static inline const um_kfield *um_kinst_fields(const um_kinst *inst)
{
    return um_kimm_fields[um_kop_rows[inst->op].imm];
}
static inline uint64_t um_kfield_get(const um_kfield *f, uint64_t imm)
{
    return imm >> f->shift & UINT64_MAX >> (64 - f->bits);
}
/* NULL: no such number. */
const char *um_kfield_name(const um_kernel *k, um_kfield_kind kind, uint64_t number);

/* How many of inst->arg are values. */
static inline int32_t um_kinst_arity(const um_kinst *inst)
{
    return inst->op == UM_KOP_VECTOR ? inst->type.lanes : um_kop_rows[inst->op].arity;
}
static inline um_ktype um_val_type(const um_kernel *k, um_val v) { return k->inst[v].type; }
static inline bool um_dtype_is_int(um_dtype dtype)
{
    um_dtype_kind kind = um_dtype_get_kind(dtype);
    return kind == UM_KIND_INT || kind == UM_KIND_UINT;
}
/* Invocations of a work-group. */
static inline uint32_t um_kernel_invocations(const um_kernel *k)
{
    return k->group_size[0] * k->group_size[1] * k->group_size[2];
}

static inline int64_t um_kernel_buffers(const um_kernel *k)
{
    int64_t count = 0;
    for (int64_t i = 0; i < k->mem_count; i++) count += k->mem[i].space == UM_SPACE_BUFFER;
    return count;
}

/* Appends an instruction; what it appends is checked by um_kernel_finish. 0 after a mistake. */
um_val um_kernel_append(um_kernel *k, const um_kinst *inst);
bool um_kernel_name_is_free(const um_kernel *k, const char *name);
/* The same in all lanes: of bits, and of a number rounded to the type. */
um_val um_k_bits(um_kernel *k, um_dtype dtype, int32_t lanes, uint64_t bits);
um_val um_k_number(um_kernel *k, um_dtype dtype, int32_t lanes, double value);
/* A parameter, without the instruction that gives its value. */
bool um_kernel_declare_scalar(um_kernel *k, const char *name, um_dtype dtype);
/* Keeps the first mistake of the building: "kernel NAME: ..."; gives 0, which is no value. */
um_val um_kernel_mistake(um_kernel *k, um_status code, const char *format, ...) UM_PRINTF(3, 4);

/* ---- arithmetic (lanes.c) ----------------------------------------------------------------------
 */

/* d[i] = a[i] op b[i], i < n, for an opcode of arity 1 to 3 that kernel.def has no more to say of
 * (not SELECT), on operands of a dtype with arithmetic. d may be a. */
void um_lanes_eval(um_kop op, um_dtype dtype, void *d, const void *a, const void *b, const void *c,
                   int32_t n);
void um_lanes_convert(um_dtype to, void *d, um_dtype from, const void *a, int32_t n);
/* The opcode that joins two values in a UM_K_... operation. */
um_kop um_koperation_opcode(uint32_t operation);
/* What changes nothing when it is joined with a value (but -0: 0 + -0 is 0). */
void um_koperation_identity(uint32_t operation, um_dtype dtype, void *out);

/* ---- text (print.c) -------------------------------------------------------------------------- */

#define UM_KTEXT_MAX 320 /* bytes that one instruction takes at most, with its end */
/* Instruction v as one line of text, without its end; whatever it holds. */
void um_kinst_text(const um_kernel *k, um_val v, char out[UM_KTEXT_MAX]);
/* "f32", "f16x4" */
void um_ktype_text(um_ktype type, char out[16]);

/* ---- verifying (verify.c, uniform.c) -----------------------------------------------------------
 */

#define UM_KDEPTH_MAX 64 /* blocks inside blocks */

um_status um_kernel_verify(const um_kernel *k);
/* What its arrays of a space take, each at whole 16 bytes. */
uint64_t um_kernel_bytes(const um_kernel *k, um_space space);
/* For each IF, ELSE, FOR, LOOP its partner: IF to ELSE or END, ELSE, FOR and LOOP to END, END to
 * what it closes (ELSE where there is one), BREAK to the loop's END; 0 for the others.
 * INVALID_ARGUMENT where they do not nest. */
um_status um_kernel_match(const um_kernel *k, uint32_t *partner);

/* How far a value, or the flow that an instruction stands in, is the same. */
typedef enum um_kuniform { UM_UNIFORM_GROUP, UM_UNIFORM_SUBGROUP, UM_VARYING } um_kuniform;
/* value[v] and flow[v], um_kuniform, for each of the inst_count instructions, of a kernel whose
 * types and structure are right. OUT_OF_MEMORY. */
um_status um_kernel_uniformity(const um_kernel *k, uint8_t *value, uint8_t *flow);
/* Whether each instruction of such a kernel stands in the flow that its row asks for; the message
 * says by which way the flow came to differ. */
um_status um_kernel_check_flow(const um_kernel *k);

/* ---- passes: a finished kernel to a new finished one that does the same ---------------------- */

/* Constants computed, values not made twice, known branches taken (fold.c). */
um_status um_kernel_fold(const um_kernel *k, um_kernel **out);
/* Without what nobody can see: values, stores to memory of the invocation, loops, memories (not
 * parameters). A loop that does nothing is taken to end (dead.c). */
um_status um_kernel_sweep(const um_kernel *k, um_kernel **out);
/* Both. */
um_status um_kernel_simplify(const um_kernel *k, um_kernel **out);

/* What a target lacks. */
typedef struct um_klacks {
    bool group_ops;    /* group_broadcast, group_reduce, group_scan */
    bool subgroups;    /* subgroup ops; they are then as with subgroups of one invocation */
    uint32_t shuffles; /* not 0: subgroup_reduce, _scan and _ballot; it has shuffles, and subgroups
                          of this many invocations, of a work-group the last perhaps of fewer */
    bool fragments;    /* of all matrix tiles but these */
    const struct um_matrix_tile *tiles;
    int32_t tile_count;
    bool async_copy; /* async_copy, _commit, _wait */
    bool math; /* EXP to ATAN2 of f32, and what ir/math.h has of f64, within bounds: they are done
                  by arithmetic */
    bool lane_bitcasts; /* bitcast to another number of lanes */
    bool saturation;    /* its convert of a float that is no integer's is anything */
    bool dot4;          /* dot4_i8, dot4_u8 */
    bool whole;         /* its trunc and round of f64 lose the sign of 0, or the even of ties */
    bool widening;      /* what compares its i64 of an i32 with a constant may be wrong */
    bool integers;      /* its min and max of integers, and u32 to f32 from 2^31 on, are anything */
    bool zeros;         /* its arithmetic with a constant 0.0 drops signs, infinities and NaN */
    uint32_t arithmetic; /* bit (1u << dtype): f16, computed in f32 */
    /* Bit (1u << dtype): no values and no memory of it. 64-bit integers become pairs of u32. Types
     * of 8 and 16 bits, and bool in memory, lie in u16, u8 or, where these lack too, in parts of
     * u32; in shared and private arrays in a u32 each. */
    uint32_t types;
} um_klacks;
/* The kernel without what the target lacks (expand.c). UNSUPPORTED: what cannot be expressed. */
um_status um_kernel_expand(const um_kernel *k, const um_klacks *lacks, um_kernel **out);
/* What a renderer is given for a target that lacks these: simplified, expanded, simplified. */
um_status um_kernel_lower(const um_kernel *k, const um_klacks *lacks, um_kernel **out);

/* Whether one of the tiles is the fragment's. */
struct um_matrix_tile;
bool um_ktiles_hold(const struct um_matrix_tile *tiles, int32_t count, const um_kfrag *f);

#endif
