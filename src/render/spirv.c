/* render/spirv.c: the frame of a SPIR-V module: capabilities, types, constants, parameters,
 * built-ins, the function's begin and end. Instructions are in spirv_inst.c. */
#include "render/spirv.h"

enum {
    CLASS_INPUT = 1,
    CLASS_WORKGROUP = 4,
    CLASS_CROSS_WORKGROUP = 5,
    CLASS_PUSH_CONSTANT = 9,
    CLASS_STORAGE_BUFFER = 12,
    CLASS_PHYSICAL = 5349,
    PUSH_WORDS_MAX = 32
};

void um_spirv_put(um_text *section, uint32_t opcode, int32_t count, const uint32_t *words)
{
    uint32_t first = (uint32_t)(count + 1) << 16 | opcode;
    um_text_put(section, (const char *)&first, sizeof first);
    um_text_put(section, (const char *)words, (size_t)count * sizeof *words);
}

uint32_t um_spirv_new(um_spirv *s, uint32_t opcode, um_dtype dtype, int32_t count,
                      const uint32_t *words)
{
    uint32_t id = um_spirv_id(s), all[8] = {um_spirv_type(s, dtype), id};
    memcpy(all + 2, words, (size_t)count * sizeof *words);
    um_spirv_put(&s->body, opcode, 2 + count, all);
    return id;
}

/* `count` words, then a text, then `more_count` words. */
static void put_named(um_text *section, uint32_t opcode, int32_t count, const uint32_t *words,
                      const char *name, int32_t more_count, const uint32_t *more)
{
    uint32_t all[48] = {0};
    size_t name_words = strlen(name) / 4 + 1;
    for (int32_t i = 0; i < count; i++) all[i] = words[i];
    memcpy(all + count, name, strlen(name));
    for (int32_t i = 0; i < more_count; i++) all[(size_t)count + name_words + (size_t)i] = more[i];
    um_spirv_put(section, opcode, count + (int32_t)name_words + more_count, all);
}

void um_spirv_lacks(um_spirv *s, um_status code, const char *what)
{
    if (s->status != UM_OK) return;
    s->status = UM_FAIL(code,
                        code == UM_UNSUPPORTED ? "kernel %s: SPIR-V has no words for %s"
                                               : "kernel %s: SPIR-V: %s",
                        s->k->name, what);
}

void um_spirv_capability(um_spirv *s, uint32_t capability)
{
    for (int32_t i = 0; i < s->capability_count; i++)
        if (s->capability[i] == capability) return;
    if (s->capability_count == (int32_t)UM_COUNT_OF(s->capability))
        return; /* there are not so many */
    s->capability[s->capability_count++] = capability;
    UM_SPIRV(&s->capabilities, 17, capability);
}

/* ---- types and constants ----------------------------------------------------------------------
 */

uint32_t um_spirv_type(um_spirv *s, um_dtype dtype)
{
    enum { FLOAT16 = 9, FLOAT64 = 10, INT64 = 11, INT16 = 22, INT8 = 39 };
    um_dtype_kind kind = um_dtype_get_kind(dtype);
    uint32_t bits = (uint32_t)um_dtype_bits(dtype);
    if (s->is_kernel && kind == UM_KIND_INT) return um_spirv_type(s, dtype + (UM_U8 - UM_I8));
    if (s->type[dtype]) return s->type[dtype];
    uint32_t id = s->type[dtype] = um_spirv_id(s);
    if (dtype != UM_F64 && dtype != UM_F32 && dtype != UM_F16 && kind == UM_KIND_FLOAT)
        um_spirv_lacks(s, UM_UNSUPPORTED, um_dtype_name(dtype));
    if (kind == UM_KIND_FLOAT) {
        if (bits == 16) um_spirv_capability(s, FLOAT16);
        if (bits == 64) um_spirv_capability(s, FLOAT64);
        UM_SPIRV(&s->globals, 22, id, bits);
    } else if (kind == UM_KIND_BOOL) {
        UM_SPIRV(&s->globals, 20, id);
    } else {
        if (bits != 32) um_spirv_capability(s, bits == 64 ? INT64 : bits == 16 ? INT16 : INT8);
        UM_SPIRV(&s->globals, 21, id, bits, kind == UM_KIND_INT);
    }
    return id;
}

uint32_t um_spirv_constant(um_spirv *s, um_dtype dtype, uint64_t bits)
{
    uint32_t type = um_spirv_type(s, dtype);
    for (int64_t i = 0; i < s->constant_count; i++)
        if (s->constant[i].dtype == type && s->constant[i].bits == bits) return s->constant[i].id;
    if (um_vec_reserve((void **)&s->constant, &s->constant_capacity, s->constant_count,
                       sizeof *s->constant, "um_render_spirv") != UM_OK) {
        um_spirv_lacks(s, UM_OUT_OF_MEMORY, "no memory");
        return 1;
    }
    uint32_t id = um_spirv_id(s);
    s->constant[s->constant_count++] = (um_spirv_const){bits, type, id};
    um_dtype_kind kind = um_dtype_get_kind(dtype);
    int32_t width = um_dtype_bits(dtype);
    if (kind == UM_KIND_BOOL) {
        UM_SPIRV(&s->globals, bits ? 41 : 42, type, id);
    } else if (width == 64) {
        UM_SPIRV(&s->globals, 43, type, id, (uint32_t)bits, (uint32_t)(bits >> 32));
    } else {
        /* Narrow signed ones are extended by their sign. */
        bool sign = kind == UM_KIND_INT && !s->is_kernel;
        uint32_t word = sign ? (uint32_t)((int32_t)((uint32_t)bits << (32 - width)) >> (32 - width))
                             : (uint32_t)bits;
        UM_SPIRV(&s->globals, 43, type, id, word);
    }
    return id;
}

uint32_t um_spirv_pointer(um_spirv *s, uint32_t storage_class, uint32_t type)
{
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->globals, 32, id, storage_class, type);
    return id;
}

static uint32_t array_of(um_spirv *s, uint32_t type, uint32_t count)
{
    uint32_t id = um_spirv_id(s), length = um_spirv_constant(s, UM_U32, count);
    UM_SPIRV(&s->globals, 28, id, type, length);
    return id;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* A struct with that one member, or of `count` words. */
static uint32_t block_type(um_spirv *s, uint32_t member, uint32_t count)
{
    enum { BLOCK = 2, OFFSET = 35, MEMBER_DECORATE = 72 };
    uint32_t type = um_spirv_id(s), words[1 + 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS] = {type};
    for (uint32_t i = 0; i < count; i++) {
        words[1 + i] = member;
        UM_SPIRV(&s->decorations, MEMBER_DECORATE, type, i, OFFSET, 4 * i);
    }
    um_spirv_put(&s->globals, 30, (int32_t)count + 1, words);
    UM_SPIRV(&s->decorations, OP_DECORATE, type, BLOCK);
    return type;
}

/* In a variable; at a binding of set 0 if it is no push constant. */
static uint32_t block_variable(um_spirv *s, uint32_t type, uint32_t storage_class, uint32_t binding)
{
    enum { BINDING = 33, DESCRIPTOR_SET = 34 };
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->globals, 59, um_spirv_pointer(s, storage_class, type), id, storage_class);
    if (storage_class == CLASS_PUSH_CONSTANT) return id;
    UM_SPIRV(&s->decorations, OP_DECORATE, id, DESCRIPTOR_SET, 0);
    UM_SPIRV(&s->decorations, OP_DECORATE, id, BINDING, binding);
    return id;
}

/* Where the elements of a buffer are: a struct with an array without an end. */
static uint32_t buffer_type(um_spirv *s, const um_kmem *mem)
{
    enum { ARRAY_STRIDE = 6, STORAGE_16 = 4433, STORAGE_8 = 4448 };
    uint32_t element = um_spirv_type(s, mem->type.dtype),
             bytes = (uint32_t)um_dtype_bits(mem->type.dtype) / 8;
    if (bytes < 4) um_spirv_capability(s, bytes == 2 ? STORAGE_16 : STORAGE_8);
    uint32_t array = um_spirv_id(s);
    UM_SPIRV(&s->globals, 29, array, element);
    UM_SPIRV(&s->decorations, OP_DECORATE, array, ARRAY_STRIDE, bytes);
    return block_type(s, array, 1);
}

/* Buffers may overlap. */
static uint32_t bound_buffer(um_spirv *s, const um_kmem *mem, uint32_t binding)
{
    enum { ALIASED = 20, NON_WRITABLE = 24 };
    uint32_t id = block_variable(s, buffer_type(s, mem), CLASS_STORAGE_BUFFER, binding);
    UM_SPIRV(&s->decorations, OP_DECORATE, id, ALIASED);
    if (mem->access == UM_K_READ) UM_SPIRV(&s->decorations, OP_DECORATE, id, NON_WRITABLE);
    return id;
}

/* The block of base offsets or addresses, and scalars. */
typedef struct word_block {
    uint32_t id, pointer; /* a word's pointer type */
    bool is_physical;
} word_block;

static uint32_t block_word(um_spirv *s, const word_block *b, uint32_t index)
{
    enum { ALIGNED = 2 };
    uint32_t at = um_spirv_id(s), id = um_spirv_id(s), u32 = um_spirv_type(s, UM_U32);
    UM_SPIRV(&s->body, OP_ACCESS_CHAIN, b->pointer, at, b->id, um_spirv_constant(s, UM_U32, index));
    if (b->is_physical)
        UM_SPIRV(&s->body, OP_LOAD, u32, id, at, ALIGNED, 4);
    else
        UM_SPIRV(&s->body, OP_LOAD, u32, id, at);
    return id;
}

/* A pointer to the struct whose address is in words index and index + 1. */
static uint32_t address_word(um_spirv *s, const word_block *b, uint32_t index, uint32_t type)
{
    enum { CONSTRUCT = 80 };
    uint32_t pointer = um_spirv_pointer(s, CLASS_PHYSICAL, type);
    if (!s->two) { /* declared once */
        s->two = um_spirv_id(s);
        UM_SPIRV(&s->globals, 23, s->two, um_spirv_type(s, UM_U32), 2);
    }
    uint32_t low = block_word(s, b, index), high = block_word(s, b, index + 1);
    uint32_t both = um_spirv_id(s), id = um_spirv_id(s);
    UM_SPIRV(&s->body, CONSTRUCT, s->two, both, low, high);
    UM_SPIRV(&s->body, OP_BITCAST, pointer, id, both);
    return id;
}

static word_block declare_words(um_spirv *s, uint32_t count, uint32_t binding)
{
    bool pushed = count <= PUSH_WORDS_MAX, pointed = !pushed && s->by_address;
    uint32_t u32 = um_spirv_type(s, UM_U32), type = block_type(s, u32, count);
    uint32_t storage_class = pushed || pointed ? CLASS_PUSH_CONSTANT : CLASS_STORAGE_BUFFER;
    word_block b = {.pointer = um_spirv_pointer(s, storage_class, u32)};
    b.id = block_variable(s, pointed ? block_type(s, u32, 2) : type, storage_class, binding);
    if (!pointed) return b;
    return (word_block){address_word(s, &b, 0, type), um_spirv_pointer(s, CLASS_PHYSICAL, u32),
                        true};
}

static void vulkan_parameters(um_spirv *s)
{
    const um_kernel *k = s->k;
    uint32_t buffers = 0, at = 0;
    for (int64_t i = 0; i < k->mem_count; i++) buffers += k->mem[i].space == UM_SPACE_BUFFER;
    uint32_t words = buffers * (s->by_address ? 2 : 1) + (uint32_t)k->scalar_count;
    if (words == 0) return;
    word_block block = declare_words(s, words, buffers);
    for (int64_t i = 0; i < k->mem_count; i++) {
        if (k->mem[i].space != UM_SPACE_BUFFER) continue;
        uint32_t storage_class = s->by_address ? CLASS_PHYSICAL : CLASS_STORAGE_BUFFER;
        s->pointer[i] = um_spirv_pointer(s, storage_class, um_spirv_type(s, k->mem[i].type.dtype));
        if (s->by_address) {
            s->memory[i] = address_word(s, &block, at, buffer_type(s, &k->mem[i]));
            at += 2;
        } else {
            s->memory[i] = bound_buffer(s, &k->mem[i], at);
            s->base[i] = block_word(s, &block, at++);
        }
    }
    for (int64_t i = 0; i < k->scalar_count; i++) {
        uint32_t word = block_word(s, &block, at++);
        s->scalar[i] = word;
        if (k->scalar[i].dtype == UM_U32) continue;
        s->scalar[i] = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_BITCAST, um_spirv_type(s, k->scalar[i].dtype), s->scalar[i], word);
    }
}

/* What an access of the memory has to say: by address what that is a multiple of, with fragments
 * that others see it (spirv_group.c). Gives the number of words. */
static int32_t access_words(const um_spirv *s, int64_t m, uint32_t words[2])
{
    enum { ALIGNED = 2 };
    const um_kmem *mem = &s->k->mem[m];
    bool is_buffer = mem->space == UM_SPACE_BUFFER, aligned = is_buffer && s->by_address;
    bool seen = s->k->frag_count > 0 && (is_buffer || mem->space == UM_SPACE_SHARED);
    words[0] = (aligned ? ALIGNED : 0u) | (seen ? NON_PRIVATE : 0u);
    words[1] = (uint32_t)um_dtype_bits(mem->type.dtype) / 8;
    return words[0] ? 1 + aligned : 0;
}

uint32_t um_spirv_load(um_spirv *s, int64_t mem, um_dtype dtype, uint32_t at)
{
    uint32_t id = um_spirv_id(s), words[5] = {um_spirv_type(s, dtype), id, at};
    um_spirv_put(&s->body, OP_LOAD, 3 + access_words(s, mem, words + 3), words);
    return id;
}

void um_spirv_store(um_spirv *s, int64_t mem, uint32_t at, uint32_t value)
{
    uint32_t words[4] = {at, value};
    um_spirv_put(&s->body, OP_STORE, 2 + access_words(s, mem, words + 2), words);
}

/* The function's parameters and type; gives the type. */
static uint32_t kernel_parameters(um_spirv *s, um_text *params)
{
    const um_kernel *k = s->k;
    uint32_t types[2 + 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS], count = 2;
    types[0] = um_spirv_id(s);
    types[1] = s->void_type;
    for (int64_t i = 0; i < k->mem_count; i++) {
        if (k->mem[i].space != UM_SPACE_BUFFER) continue;
        uint32_t whole = um_spirv_id(s), base = um_spirv_id(s), u64 = um_spirv_type(s, UM_U64);
        s->pointer[i] =
            um_spirv_pointer(s, CLASS_CROSS_WORKGROUP, um_spirv_type(s, k->mem[i].type.dtype));
        types[count++] = s->pointer[i];
        types[count++] = u64;
        UM_SPIRV(params, 55, s->pointer[i], whole);
        UM_SPIRV(params, 55, u64, base);
        s->memory[i] = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_PTR_ACCESS_CHAIN, s->pointer[i], s->memory[i], whole, base);
    }
    for (int64_t i = 0; i < k->scalar_count; i++) {
        types[count] = um_spirv_type(s, k->scalar[i].dtype);
        s->scalar[i] = um_spirv_id(s);
        UM_SPIRV(params, 55, types[count++], s->scalar[i]);
    }
    um_spirv_put(&s->globals, 33, (int32_t)count, types);
    return types[0];
}

/* Shared arrays in the module, private ones and variables in the function; a variable of several
 * lanes is as many. */
static void declare_memories(um_spirv *s)
{
    for (int64_t i = 0; i < s->k->mem_count; i++) {
        const um_kmem *mem = &s->k->mem[i];
        if (mem->space == UM_SPACE_BUFFER) continue;
        bool shared = mem->space == UM_SPACE_SHARED;
        uint32_t storage_class = shared ? CLASS_WORKGROUP : CLASS_FUNCTION;
        uint32_t element = um_spirv_type(s, mem->type.dtype);
        uint32_t type = mem->space == UM_SPACE_VAR ? element : array_of(s, element, mem->count);
        uint32_t pointer = um_spirv_pointer(s, storage_class, type);
        s->pointer[i] =
            mem->space == UM_SPACE_VAR ? pointer : um_spirv_pointer(s, storage_class, element);
        s->memory[i] = s->next_id;
        for (int32_t lane = 0; lane < mem->type.lanes; lane++)
            UM_SPIRV(shared ? &s->globals : &s->variables, 59, pointer, um_spirv_id(s),
                     storage_class);
    }
}

/* ---- built-ins ------------------------------------------------------------------------------- */

static const struct {
    uint8_t number;
    bool is_vector, is_size; /* of three; a size_t in a kernel */
} inputs[] = {
    [UM_KOP_GROUP_ID] = {26, true, true},        [UM_KOP_GROUP_COUNT] = {24, true, true},
    [UM_KOP_LOCAL_ID] = {27, true, true},        [UM_KOP_LOCAL_INDEX] = {29, false, true},
    [UM_KOP_SUBGROUP_SIZE] = {36, false, false}, [UM_KOP_SUBGROUP_ID] = {40, false, false},
    [UM_KOP_SUBGROUP_LANE] = {41, false, false},
};

uint32_t um_spirv_builtin(um_spirv *s, um_kop op, uint32_t dim)
{
    enum { BUILT_IN = 11, GROUP_NON_UNIFORM = 61 };
    uint32_t u32 = um_spirv_type(s, UM_U32);
    bool wide = s->is_kernel && inputs[op].is_size, vector = inputs[op].is_vector;
    uint32_t item = wide ? um_spirv_type(s, UM_U64) : u32, type = item;
    if (vector) {
        type = s->input[10 + wide];
        if (!type) {
            type = s->input[10 + wide] = um_spirv_id(s);
            UM_SPIRV(&s->globals, 23, type, item, 3);
        }
    }
    if (op >= UM_KOP_SUBGROUP_SIZE) um_spirv_capability(s, GROUP_NON_UNIFORM);
    if (!s->input[op]) {
        s->input[op] = um_spirv_id(s);
        UM_SPIRV(&s->globals, 59, um_spirv_pointer(s, CLASS_INPUT, type), s->input[op],
                 CLASS_INPUT);
        UM_SPIRV(&s->decorations, OP_DECORATE, s->input[op], BUILT_IN, inputs[op].number);
        s->interface[s->interface_count++] = s->input[op];
    }
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->body, OP_LOAD, type, id, s->input[op]);
    if (vector) {
        uint32_t whole = id;
        id = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_EXTRACT, item, id, whole, dim);
    }
    if (wide) {
        uint32_t size = id;
        id = um_spirv_id(s);
        UM_SPIRV(&s->body, OP_UCONVERT, u32, id, size);
    }
    return id;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Of SPV_KHR_float_controls, by bit. */
static const struct {
    uint16_t mode, capability;
} float_modes[] = {{4461, 4466}, {4461, 4466}, {4459, 4464},
                   {4459, 4464}, {4462, 4467}, {4462, 4467}};

static void declare_modes(um_spirv *s)
{
    const uint32_t wide = UM_SPIRV_SPECIALS_64 | UM_SPIRV_SUBNORMALS_64 | UM_SPIRV_NEAREST_64;
    if (!s->type[UM_F64]) s->modes &= ~wide;
    for (size_t i = 0; i < UM_COUNT_OF(float_modes); i++)
        if (s->modes >> i & 1) um_spirv_capability(s, float_modes[i].capability);
}

/* What stands before the types: sets, memory model, entry point, modes. */
static void put_head(um_spirv *s, um_text *out)
{
    enum {
        GL_COMPUTE = 5,
        KERNEL = 6,
        LOCAL_SIZE = 17,
        CONTRACTION_OFF = 31,
        MODE = 16,
        PHYSICAL_64 = 5348
    };
    enum { GLSL_450 = 1, OPENCL, VULKAN }; /* memory models */
    const um_kernel *k = s->k;
    char name[64] = "um_";
    memcpy(name + 3, k->name, sizeof k->name);
    static const struct {
        uint32_t capability;
        const char *name;
    } extensions[] = {{4448, "SPV_KHR_8bit_storage"},
                      {5345, "SPV_KHR_vulkan_memory_model"},
                      {5347, "SPV_KHR_physical_storage_buffer"},
                      {6022, "SPV_KHR_cooperative_matrix"}};
    for (int32_t i = 0; i < s->capability_count; i++)
        for (size_t e = 0; e < UM_COUNT_OF(extensions); e++)
            if (s->capability[i] == extensions[e].capability)
                put_named(out, 10, 0, NULL, extensions[e].name, 0, NULL);
    if (s->modes) put_named(out, 10, 0, NULL, "SPV_KHR_float_controls", 0, NULL);
    put_named(out, 11, 1, &s->ext_set, s->is_kernel ? "OpenCL.std" : "GLSL.std.450", 0, NULL);
    uint32_t of_vulkan = k->frag_count > 0 ? VULKAN : GLSL_450;
    UM_SPIRV(out, 14,
             s->is_kernel    ? 2u
             : s->by_address ? PHYSICAL_64
                             : 0u,
             s->is_kernel ? OPENCL : of_vulkan);
    put_named(out, 15, 2, (uint32_t[]){s->is_kernel ? KERNEL : GL_COMPUTE, s->function}, name,
              s->interface_count, s->interface);
    UM_SPIRV(out, MODE, s->function, LOCAL_SIZE, k->group_size[0], k->group_size[1],
             k->group_size[2]);
    if (s->is_kernel) UM_SPIRV(out, MODE, s->function, CONTRACTION_OFF);
    for (uint32_t i = 0; i < UM_COUNT_OF(float_modes); i++)
        if (s->modes >> i & 1)
            UM_SPIRV(out, MODE, s->function, float_modes[i].mode, i % 2 ? 64 : 32);
}

static void put_section(um_text *out, const um_text *section)
{
    if (section->size > 0) um_text_put(out, section->data, (size_t)section->size);
    if (section->status != UM_OK) out->status = section->status;
}

static void assemble(um_spirv *s, const um_text *params, uint32_t function_type, um_text *out)
{
    uint32_t header[5] = {0x07230203, s->is_kernel ? 0x00010000 : 0x00010300, 0, s->next_id, 0};
    um_text_put(out, (const char *)header, sizeof header);
    put_section(out, &s->capabilities);
    put_head(s, out);
    put_section(out, &s->decorations);
    put_section(out, &s->globals);
    UM_SPIRV(out, 54, s->void_type, s->function, 0, function_type);
    put_section(out, params);
    UM_SPIRV(out, OP_LABEL, 1);
    put_section(out, &s->variables);
    put_section(out, &s->body);
    um_spirv_put(out, 253, 0, NULL);
    um_spirv_put(out, 56, 0, NULL);
}

static um_status render(um_spirv *s, um_text *out)
{
    enum { SHADER = 1, ADDRESSES = 4, KERNEL = 6, PHYSICAL_ADDRESSES = 5347 };
    um_text params = {0};
    um_spirv_capability(s, s->is_kernel ? KERNEL : SHADER);
    if (s->is_kernel) um_spirv_capability(s, ADDRESSES);
    if (s->by_address) um_spirv_capability(s, PHYSICAL_ADDRESSES);
    s->next_id = 2; /* 1 is the function's first label */
    s->block = 1;
    s->ext_set = um_spirv_id(s);
    s->function = um_spirv_id(s);
    s->void_type = um_spirv_id(s);
    UM_SPIRV(&s->globals, 19, s->void_type);
    uint32_t function_type;
    if (s->is_kernel) {
        function_type = kernel_parameters(s, &params);
    } else {
        function_type = um_spirv_id(s);
        UM_SPIRV(&s->globals, 33, function_type, s->void_type);
        vulkan_parameters(s);
    }
    declare_memories(s);
    um_spirv_declare_frags(s);
    for (int64_t v = 1; v < s->k->inst_count && s->status == UM_OK; v++)
        um_spirv_walk(s, (um_val)v);
    declare_modes(s);
    if (s->status == UM_OK) assemble(s, &params, function_type, out);
    um_text_release(&params);
    return s->status != UM_OK ? s->status : out->status;
}

um_status um_render_spirv(const um_kernel *kernel, um_spirv_flavour flavour, uint32_t modes,
                          um_text *out)
{
    if (!kernel || !out || !kernel->finished)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_render_spirv: %s",
                       !kernel ? "kernel is NULL"
                       : !out  ? "out is NULL"
                               : "the kernel is not finished");
    um_spirv s = {.k = kernel,
                  .is_kernel = flavour == UM_SPIRV_KERNEL,
                  .by_address = flavour == UM_SPIRV_VULKAN_ADDRESS,
                  .modes = modes};
    size_t mems = (size_t)kernel->mem_count, scalars = (size_t)kernel->scalar_count;
    size_t frags = (size_t)kernel->frag_count;
    um_status status = UM_OUT_OF_MEMORY;
    uint32_t *ids =
        um_mem_zalloc(((size_t)kernel->inst_count + 3 * mems + scalars + 2 * frags) * sizeof *ids);
    if (ids) {
        s.value = ids;
        s.memory = s.value + kernel->inst_count;
        s.pointer = s.memory + mems;
        s.base = s.pointer + mems;
        s.scalar = s.base + mems;
        s.matrix = s.scalar + scalars;
        s.matrix_type = s.matrix + frags;
        status = render(&s, out);
    } else {
        UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: SPIR-V: no memory", kernel->name);
    }
    um_text *sections[] = {&s.capabilities, &s.decorations, &s.globals, &s.variables, &s.body};
    for (size_t i = 0; i < UM_COUNT_OF(sections); i++) um_text_release(sections[i]);
    um_mem_free(s.flow);
    um_mem_free(s.constant);
    um_mem_free(ids);
    return status;
}
