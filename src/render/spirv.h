/* render/spirv.h: SPIR-V words (spirv.def). What the module's frame (spirv.c) and its instructions
 * (spirv_inst.c, spirv_group.c) share. */
#ifndef UM_RENDER_SPIRV_H
#define UM_RENDER_SPIRV_H

#include "render/render.h"

enum {
#define UM_SPV(name, number) name = number,
#include "render/spirv.def"
};

/* Ids of which each module has one. */
enum { ID_FIRST_LABEL = 1, ID_EXT_SET, ID_FUNCTION, ID_VOID, ID_OTHERS };

/* An open if, for or loop. */
typedef struct um_spirv_flow {
    um_val inst;
    uint32_t head, next, merge;  /* labels; of an if, next is the else */
    uint32_t counter, following; /* a for's value in this round and the next */
} um_spirv_flow;

typedef struct um_spirv_const {
    uint64_t bits;
    uint32_t type, id;
} um_spirv_const;

typedef struct um_spirv {
    const um_kernel *k;
    bool is_kernel;  /* for OpenCL environments, else for Vulkan */
    bool by_address; /* for Vulkan, without bindings */
    uint32_t modes;  /* of floats */
    um_status status;
    uint32_t next_id;
    /* sections of the module */
    um_text capabilities, decorations, globals, parameters, variables, body;
    uint32_t capability[32];
    int32_t capability_count;
    uint32_t type[32][5]; /* by dtype and lanes; 0: not declared yet */
    uint32_t *value;      /* first id of each value; its other lanes follow */
    /* Of each memory: its variable, an element's pointer type, the offset or 0. */
    uint32_t *memory, *pointer, *base;
    uint32_t *scalar;                  /* of each parameter: its value */
    uint32_t *matrix, *matrix_type;    /* of each fragment: its variable, and what is in it */
    uint32_t input[16], interface[16]; /* built-in variables, by opcode; in order */
    int32_t interface_count;
    uint32_t block; /* the label of the block that is being written */
    um_spirv_flow flow[UM_KDEPTH_MAX];
    int32_t flow_count;
    um_spirv_const *constant;
    int64_t constant_count, constant_capacity;
} um_spirv;

/* ---- spirv.c --------------------------------------------------------------------------------- */

void um_spirv_put(um_text *section, uint32_t opcode, int32_t count, const uint32_t *words);
static inline uint32_t um_spirv_id(um_spirv *s) { return s->next_id++; }
/* In the body, with a result of a type, or of a dtype, whose id they give; and a type, which names
 * itself. */
uint32_t um_spirv_typed(um_spirv *s, uint32_t opcode, uint32_t type, int32_t count,
                        const uint32_t *words);
uint32_t um_spirv_new(um_spirv *s, uint32_t opcode, um_dtype dtype, int32_t count,
                      const uint32_t *words);
uint32_t um_spirv_declare(um_spirv *s, uint32_t opcode, int32_t count, const uint32_t *words);
/* UM_SPIRV(&s->body, opcode, word, ...), and the like */
#define UM_SPIRV_WORDS(...)                                                                        \
    (int32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4), (uint32_t[]) { __VA_ARGS__ }
#define UM_SPIRV(section, opcode, ...)                                                             \
    um_spirv_put((section), (opcode), UM_SPIRV_WORDS(__VA_ARGS__))
#define UM_SPIRV_TYPED(s, opcode, type, ...)                                                       \
    um_spirv_typed((s), (opcode), (type), UM_SPIRV_WORDS(__VA_ARGS__))
#define UM_SPIRV_NEW(s, opcode, dtype, ...)                                                        \
    um_spirv_new((s), (opcode), (dtype), UM_SPIRV_WORDS(__VA_ARGS__))
#define UM_SPIRV_DECLARE(s, opcode, ...)                                                           \
    um_spirv_declare((s), (opcode), UM_SPIRV_WORDS(__VA_ARGS__))

uint32_t um_spirv_type(um_spirv *s, um_dtype dtype);
uint32_t um_spirv_vector(um_spirv *s, um_dtype dtype, int32_t lanes);
uint32_t um_spirv_constant(um_spirv *s, um_dtype dtype, uint64_t bits);
static inline uint32_t um_spirv_u32(um_spirv *s, uint64_t bits)
{
    return um_spirv_constant(s, UM_U32, bits);
}
void um_spirv_capability(um_spirv *s, uint32_t capability);
uint32_t um_spirv_pointer(um_spirv *s, uint32_t storage_class, uint32_t type); /* a new type */
uint32_t um_spirv_variable(um_spirv *s, uint32_t storage_class, uint32_t type);
void um_spirv_lacks(um_spirv *s, const char *what);
/* Element `at` of a memory. */
uint32_t um_spirv_load(um_spirv *s, int64_t mem, um_dtype dtype, uint32_t at);
void um_spirv_store(um_spirv *s, int64_t mem, uint32_t at, uint32_t value);
uint32_t um_spirv_builtin(um_spirv *s, um_kop op, uint32_t dim); /* as u32 */

/* ---- spirv_inst.c ------------------------------------------------------------------------------
 */

/* What says an opcode, kind or operation of operands of a dtype (spirv.def); 0: nothing. */
typedef enum um_spirv_set { CORE, GLSL, OPENCL, CONVERT, SUBGROUP, ATOMIC, SETS } um_spirv_set;
uint32_t um_spirv_row(um_spirv_set set, uint64_t key, um_dtype dtype);
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
