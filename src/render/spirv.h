/* render/spirv.h: SPIR-V words. What the module's frame (spirv.c) and its instructions
 * (spirv_inst.c) share. Numbers are from the SPIR-V specification and its GLSL.std.450 and
 * OpenCL.std instruction sets. */
#ifndef UM_RENDER_SPIRV_H
#define UM_RENDER_SPIRV_H

#include "render/render.h"

/* An open if, for or loop. */
typedef struct um_spirv_flow {
    um_val inst;
    uint32_t head, next, merge;  /* labels; of an if, next is the else */
    uint32_t counter, following; /* a for's value in this round and the next */
} um_spirv_flow;

typedef struct um_spirv_const {
    uint64_t bits;
    uint32_t dtype, id;
} um_spirv_const;

typedef struct um_spirv {
    const um_kernel *k;
    bool is_kernel;  /* for OpenCL environments, else for Vulkan */
    bool by_address; /* for Vulkan, without bindings */
    uint32_t modes;  /* of floats; those of f64 where it has any */
    um_status status;
    uint32_t next_id;
    um_text capabilities, decorations, globals, variables, body; /* sections of the module */
    uint32_t capability[32];
    int32_t capability_count;
    uint32_t void_type, function, ext_set;
    uint32_t type[32];  /* by dtype; 0: not declared yet */
    uint32_t two, four; /* vectors of so many u32; 0: likewise */
    uint32_t *value;    /* first id of each value; its other lanes follow */
    uint32_t *memory, *pointer,
        *base;        /* of each memory: its variable, an element's pointer type, the offset or 0 */
    uint32_t *scalar; /* of each parameter: its value */
    uint32_t *matrix, *matrix_type;    /* of each fragment: its variable, and what is in it */
    uint32_t input[16], interface[16]; /* built-in variables, by opcode; in order */
    int32_t interface_count;
    uint32_t block; /* the label of the block that is being written */
    um_spirv_flow *flow;
    int64_t flow_count, flow_capacity;
    um_spirv_const *constant;
    int64_t constant_count, constant_capacity;
} um_spirv;

/* ---- spirv.c --------------------------------------------------------------------------------- */

void um_spirv_put(um_text *section, uint32_t opcode, int32_t count, const uint32_t *words);
/* UM_SPIRV(&s->body, opcode, word, ...) */
#define UM_SPIRV(section, opcode, ...)                                                             \
    um_spirv_put((section), (opcode), (int32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4),            \
                 (uint32_t[]){__VA_ARGS__})
static inline uint32_t um_spirv_id(um_spirv *s) { return s->next_id++; }
/* In the body, with a result of that type, whose id it gives: UM_SPIRV_NEW(s, opcode, dtype, word,
 * ...) */
uint32_t um_spirv_new(um_spirv *s, uint32_t opcode, um_dtype dtype, int32_t count,
                      const uint32_t *words);
#define UM_SPIRV_NEW(s, opcode, dtype, ...)                                                        \
    um_spirv_new((s), (opcode), (dtype), (int32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4),         \
                 (uint32_t[]){__VA_ARGS__})
uint32_t um_spirv_type(um_spirv *s, um_dtype dtype);
uint32_t um_spirv_constant(um_spirv *s, um_dtype dtype, uint64_t bits);
void um_spirv_capability(um_spirv *s, uint32_t capability);
uint32_t um_spirv_pointer(um_spirv *s, uint32_t storage_class, uint32_t type); /* a new type */
void um_spirv_lacks(um_spirv *s, um_status code, const char *what);
/* Element `at` of a memory. */
uint32_t um_spirv_load(um_spirv *s, int64_t mem, um_dtype dtype, uint32_t at);
void um_spirv_store(um_spirv *s, int64_t mem, uint32_t at, uint32_t value);
uint32_t um_spirv_builtin(um_spirv *s, um_kop op, uint32_t dim); /* as u32 */

/* Numbers of the specification that several files use. */
enum {
    CLASS_FUNCTION = 7,
    SCOPE_DEVICE = 1,
    SCOPE_WORKGROUP = 2,
    SCOPE_SUBGROUP = 3,
    NON_PRIVATE = 0x20, /* of an access, in Vulkan's memory model */
    OP_LOAD = 61,
    OP_STORE = 62,
    OP_ACCESS_CHAIN = 65,
    OP_PTR_ACCESS_CHAIN = 70, /* in bounds */
    OP_DECORATE = 71,
    OP_EXTRACT = 81,
    OP_UCONVERT = 113,
    OP_BITCAST = 124,
    OP_IADD = 128,
    OP_LABEL = 248,
    OP_BRANCH = 249
};

/* ---- spirv_inst.c ------------------------------------------------------------------------------
 */

/* Opcodes by the class of the operands. */
typedef struct um_spirv_row {
    uint16_t f, s, u, b;
} um_spirv_row;
uint32_t um_spirv_by_class(um_spirv_row row, um_dtype dtype);
uint32_t um_spirv_operand(um_spirv *s, um_val v, int32_t lane);
/* A pointer to that element of memory m. */
uint32_t um_spirv_element(um_spirv *s, int64_t m, uint32_t index);
/* Writes instruction v. */
void um_spirv_walk(um_spirv *s, um_val v);

/* ---- spirv_group.c -----------------------------------------------------------------------------
 */

void um_spirv_subgroup(um_spirv *s, um_val v);
void um_spirv_ballot(um_spirv *s, um_val v);
void um_spirv_declare_frags(um_spirv *s);
void um_spirv_frag(um_spirv *s, um_val v);

#endif
