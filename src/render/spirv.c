/* render/spirv.c: the frame of a SPIR-V module: capabilities, types, constants, parameters,
 * built-ins, the function's begin and end. Instructions are in spirv_inst.c. */
#include "render/spirv.h"

enum { PUSH_WORDS_MAX = 32 };

void um_spirv_put(um_text *section, uint32_t opcode, int32_t count, const uint32_t *words)
{
    uint32_t first = (uint32_t)(count + 1) << 16 | opcode;
    um_text_put(section, (const char *)&first, sizeof first);
    um_text_put(section, (const char *)words, (size_t)count * sizeof *words);
}

uint32_t um_spirv_typed(um_spirv *s, uint32_t opcode, uint32_t type, int32_t count,
                        const uint32_t *words)
{
    uint32_t id = um_spirv_id(s), all[8] = {type, id};
    memcpy(all + 2, words, (size_t)count * sizeof *words);
    um_spirv_put(&s->body, opcode, 2 + count, all);
    return id;
}

uint32_t um_spirv_new(um_spirv *s, uint32_t opcode, um_dtype dtype, int32_t count,
                      const uint32_t *words)
{
    uint32_t id = um_spirv_id(s), all[8] = {um_spirv_type(s, dtype), id};
    memcpy(all + 2, words, (size_t)count * sizeof *words);
    um_spirv_put(&s->body, opcode, 2 + count, all);
    return id;
}

uint32_t um_spirv_declare(um_spirv *s, uint32_t opcode, int32_t count, const uint32_t *words)
{
    uint32_t id = um_spirv_id(s), all[8] = {id};
    for (int32_t i = 0; i < count; i++) all[1 + i] = words[i]; /* perhaps none, and NULL */
    um_spirv_put(&s->globals, opcode, 1 + count, all);
    return id;
}

/* Appends a text to `count` words, behind which are zeros; gives how many there are then. */
static int32_t add_text(uint32_t *words, int32_t count, const char *text)
{
    memcpy(words + count, text, strlen(text));
    return count + (int32_t)strlen(text) / 4 + 1;
}

static void put_extension(um_text *out, const char *name)
{
    uint32_t words[16] = {0};
    um_spirv_put(out, OP_EXTENSION, add_text(words, 0, name), words);
}

void um_spirv_lacks(um_spirv *s, const char *what)
{
    if (s->status == UM_OK)
        s->status =
            UM_FAIL(UM_UNSUPPORTED, "kernel %s: SPIR-V has no words for %s", s->k->name, what);
}

void um_spirv_capability(um_spirv *s, uint32_t capability)
{
    for (int32_t i = 0; i < s->capability_count; i++)
        if (s->capability[i] == capability) return;
    s->capability[s->capability_count++] = capability;
    UM_SPIRV(&s->capabilities, OP_CAPABILITY, capability);
}

/* ---- types and constants ----------------------------------------------------------------------
 */

uint32_t um_spirv_type(um_spirv *s, um_dtype dtype)
{
    um_dtype_kind kind = um_dtype_get_kind(dtype);
    uint32_t bits = (uint32_t)um_dtype_bits(dtype), *id = &s->type[dtype][1];
    if (s->is_kernel && kind == UM_KIND_INT) return um_spirv_type(s, dtype + (UM_U8 - UM_I8));
    if (*id) return *id;
    if (kind == UM_KIND_FLOAT) {
        if (dtype > UM_F16) um_spirv_lacks(s, um_dtype_name(dtype));
        if (bits != 32) um_spirv_capability(s, bits == 64 ? CAP_FLOAT64 : CAP_FLOAT16);
        *id = UM_SPIRV_DECLARE(s, OP_TYPE_FLOAT, bits);
    } else if (kind == UM_KIND_BOOL) {
        *id = um_spirv_declare(s, OP_TYPE_BOOL, 0, NULL);
    } else {
        if (bits != 32)
            um_spirv_capability(s, bits == 64 ? CAP_INT64 : bits == 16 ? CAP_INT16 : CAP_INT8);
        *id = UM_SPIRV_DECLARE(s, OP_TYPE_INT, bits, kind == UM_KIND_INT);
    }
    return *id;
}

uint32_t um_spirv_vector(um_spirv *s, um_dtype dtype, int32_t lanes)
{
    uint32_t item = um_spirv_type(s, dtype), *id = &s->type[dtype][lanes];
    if (!*id) *id = UM_SPIRV_DECLARE(s, OP_TYPE_VECTOR, item, (uint32_t)lanes);
    return *id;
}

uint32_t um_spirv_constant(um_spirv *s, um_dtype dtype, uint64_t bits)
{
    uint32_t type = um_spirv_type(s, dtype);
    for (int64_t i = 0; i < s->constant_count; i++)
        if (s->constant[i].type == type && s->constant[i].bits == bits) return s->constant[i].id;
    if (um_vec_reserve((void **)&s->constant, &s->constant_capacity, s->constant_count,
                       sizeof *s->constant, "um_render_spirv") != UM_OK) {
        s->status = UM_OUT_OF_MEMORY;
        return 1;
    }
    uint32_t id = um_spirv_id(s);
    s->constant[s->constant_count++] = (um_spirv_const){bits, type, id};
    um_dtype_kind kind = um_dtype_get_kind(dtype);
    int32_t width = um_dtype_bits(dtype);
    if (kind == UM_KIND_BOOL) {
        UM_SPIRV(&s->globals, bits ? OP_CONSTANT_TRUE : OP_CONSTANT_FALSE, type, id);
    } else if (width == 64) {
        UM_SPIRV(&s->globals, OP_CONSTANT, type, id, (uint32_t)bits, (uint32_t)(bits >> 32));
    } else {
        /* Narrow signed ones are extended by their sign. */
        bool sign = kind == UM_KIND_INT && !s->is_kernel;
        uint32_t word = sign ? (uint32_t)((int32_t)((uint32_t)bits << (32 - width)) >> (32 - width))
                             : (uint32_t)bits;
        UM_SPIRV(&s->globals, OP_CONSTANT, type, id, word);
    }
    return id;
}

uint32_t um_spirv_pointer(um_spirv *s, uint32_t storage_class, uint32_t type)
{
    return UM_SPIRV_DECLARE(s, OP_TYPE_POINTER, storage_class, type);
}

uint32_t um_spirv_variable(um_spirv *s, uint32_t storage_class, uint32_t type)
{
    uint32_t id = um_spirv_id(s), pointer = um_spirv_pointer(s, storage_class, type);
    um_text *section = storage_class == CLASS_FUNCTION ? &s->variables : &s->globals;
    UM_SPIRV(section, OP_VARIABLE, pointer, id, storage_class);
    return id;
}

static uint32_t array_of(um_spirv *s, uint32_t type, uint32_t count)
{
    uint32_t id = um_spirv_id(s);
    UM_SPIRV(&s->globals, OP_TYPE_ARRAY, id, type, um_spirv_u32(s, count));
    return id;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* A struct with that one member, or of `count` words. */
static uint32_t block_type(um_spirv *s, uint32_t member, uint32_t count)
{
    uint32_t type = um_spirv_id(s), words[1 + 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS] = {type};
    for (uint32_t i = 0; i < count; i++) {
        words[1 + i] = member;
        UM_SPIRV(&s->decorations, OP_MEMBER_DECORATE, type, i, OFFSET, 4 * i);
    }
    um_spirv_put(&s->globals, OP_TYPE_STRUCT, (int32_t)count + 1, words);
    UM_SPIRV(&s->decorations, OP_DECORATE, type, BLOCK);
    return type;
}

/* In a variable; at a binding of set 0 if it is no push constant. */
static uint32_t block_variable(um_spirv *s, uint32_t type, uint32_t storage_class, uint32_t binding)
{
    uint32_t id = um_spirv_variable(s, storage_class, type);
    if (storage_class == CLASS_PUSH_CONSTANT) return id;
    UM_SPIRV(&s->decorations, OP_DECORATE, id, DESCRIPTOR_SET, 0);
    UM_SPIRV(&s->decorations, OP_DECORATE, id, BINDING, binding);
    return id;
}

/* Where the elements of a buffer are: a struct with an array without an end. */
static uint32_t buffer_type(um_spirv *s, const um_kmem *mem)
{
    uint32_t element = um_spirv_type(s, mem->type.dtype),
             bytes = (uint32_t)um_dtype_bits(mem->type.dtype) / 8;
    if (bytes < 4) um_spirv_capability(s, bytes == 2 ? CAP_STORAGE_16 : CAP_STORAGE_8);
    uint32_t array = UM_SPIRV_DECLARE(s, OP_TYPE_RUNTIME_ARRAY, element);
    UM_SPIRV(&s->decorations, OP_DECORATE, array, ARRAY_STRIDE, bytes);
    return block_type(s, array, 1);
}

/* Buffers may overlap. */
static uint32_t bound_buffer(um_spirv *s, const um_kmem *mem, uint32_t binding)
{
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
    uint32_t at = um_spirv_id(s), id = um_spirv_id(s);
    uint32_t words[] = {um_spirv_type(s, UM_U32), id, at, ACCESS_ALIGNED, 4};
    UM_SPIRV(&s->body, OP_ACCESS_CHAIN, b->pointer, at, b->id, um_spirv_u32(s, index));
    um_spirv_put(&s->body, OP_LOAD, b->is_physical ? 5 : 3, words);
    return id;
}

/* A pointer to the struct whose address is in words index and index + 1. */
static uint32_t address_word(um_spirv *s, const word_block *b, uint32_t index, uint32_t type)
{
    uint32_t pointer = um_spirv_pointer(s, CLASS_PHYSICAL, type);
    uint32_t two = um_spirv_vector(s, UM_U32, 2);
    uint32_t low = block_word(s, b, index), high = block_word(s, b, index + 1);
    return UM_SPIRV_TYPED(s, OP_BITCAST, pointer, UM_SPIRV_TYPED(s, OP_CONSTRUCT, two, low, high));
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

/* Both give the function's type. */
static uint32_t vulkan_parameters(um_spirv *s)
{
    const um_kernel *k = s->k;
    uint32_t function_type = UM_SPIRV_DECLARE(s, OP_TYPE_FUNCTION, ID_VOID);
    uint32_t buffers = (uint32_t)um_kernel_buffers(k), at = 0;
    uint32_t words = buffers * (s->by_address ? 2 : 1) + (uint32_t)k->scalar_count;
    if (words == 0) return function_type;
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
        s->scalar[i] = block_word(s, &block, at++);
        if (k->scalar[i].dtype != UM_U32)
            s->scalar[i] = UM_SPIRV_NEW(s, OP_BITCAST, k->scalar[i].dtype, s->scalar[i]);
    }
    return function_type;
}

/* What an access of the memory has to say: by address what that is a multiple of, with fragments
 * that others see it (spirv_group.c). Gives the number of words. */
static int32_t access_words(const um_spirv *s, int64_t m, uint32_t words[2])
{
    const um_kmem *mem = &s->k->mem[m];
    bool is_buffer = mem->space == UM_SPACE_BUFFER, aligned = is_buffer && s->by_address;
    bool seen = s->k->frag_count > 0 && (is_buffer || mem->space == UM_SPACE_SHARED);
    words[0] = (aligned ? ACCESS_ALIGNED : 0u) | (seen ? ACCESS_NON_PRIVATE : 0u);
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

static uint32_t kernel_parameters(um_spirv *s)
{
    const um_kernel *k = s->k;
    uint32_t types[2 + 2 * UM_K_MAX_BUFFERS + UM_K_MAX_SCALARS], count = 2;
    types[0] = um_spirv_id(s);
    types[1] = ID_VOID;
    for (int64_t i = 0; i < k->mem_count; i++) {
        if (k->mem[i].space != UM_SPACE_BUFFER) continue;
        uint32_t whole = um_spirv_id(s), base = um_spirv_id(s), u64 = um_spirv_type(s, UM_U64);
        s->pointer[i] =
            um_spirv_pointer(s, CLASS_CROSS_WORKGROUP, um_spirv_type(s, k->mem[i].type.dtype));
        types[count++] = s->pointer[i];
        types[count++] = u64;
        UM_SPIRV(&s->parameters, OP_FUNCTION_PARAMETER, s->pointer[i], whole);
        UM_SPIRV(&s->parameters, OP_FUNCTION_PARAMETER, u64, base);
        s->memory[i] = UM_SPIRV_TYPED(s, OP_PTR_ACCESS_CHAIN, s->pointer[i], whole, base);
    }
    for (int64_t i = 0; i < k->scalar_count; i++) {
        types[count] = um_spirv_type(s, k->scalar[i].dtype);
        s->scalar[i] = um_spirv_id(s);
        UM_SPIRV(&s->parameters, OP_FUNCTION_PARAMETER, types[count++], s->scalar[i]);
    }
    um_spirv_put(&s->globals, OP_TYPE_FUNCTION, (int32_t)count, types);
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
            UM_SPIRV(shared ? &s->globals : &s->variables, OP_VARIABLE, pointer, um_spirv_id(s),
                     storage_class);
    }
}

/* ---- built-ins ------------------------------------------------------------------------------- */

static const struct {
    uint8_t number;
    bool is_vector, is_size;
} inputs[] = {
#define UM_SPV_INPUT(op, number, is_vector, is_size) [op] = {number, is_vector, is_size},
#include "render/spirv.def"
};

uint32_t um_spirv_builtin(um_spirv *s, um_kop op, uint32_t dim)
{
    uint32_t u32 = um_spirv_type(s, UM_U32), *input = &s->input[op];
    bool wide = s->is_kernel && inputs[op].is_size, vector = inputs[op].is_vector;
    um_dtype item = wide ? UM_U64 : UM_U32;
    uint32_t type = vector ? um_spirv_vector(s, item, 3) : um_spirv_type(s, item);
    if (op >= UM_KOP_SUBGROUP_SIZE) um_spirv_capability(s, CAP_GROUP);
    if (!*input) {
        *input = s->interface[s->interface_count++] = um_spirv_variable(s, CLASS_INPUT, type);
        UM_SPIRV(&s->decorations, OP_DECORATE, *input, BUILT_IN, inputs[op].number);
    }
    uint32_t id = UM_SPIRV_TYPED(s, OP_LOAD, type, *input);
    if (vector) id = UM_SPIRV_NEW(s, OP_EXTRACT, item, id, dim);
    return wide ? UM_SPIRV_TYPED(s, OP_UCONVERT, u32, id) : id;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Of SPV_KHR_float_controls, by three bits: of f16, f32 and f64. */
static const struct {
    uint16_t mode, capability;
} float_modes[] = {
    {MODE_SPECIALS, CAP_SPECIALS}, {MODE_SUBNORMALS, CAP_SUBNORMALS}, {MODE_NEAREST, CAP_NEAREST}};

static void declare_modes(um_spirv *s)
{
    /* with f16's they may have to be said together */
    if (!s->type[UM_F64][1] && !(s->modes & UM_SPIRV_MODES_16))
        s->modes &= ~(uint32_t)(UM_SPIRV_MODES_16 << 2);
    for (size_t i = 0; i < UM_COUNT_OF(float_modes); i++)
        if (s->modes >> 3 * i & 7) um_spirv_capability(s, float_modes[i].capability);
}

/* What stands before the types: sets, memory model, entry point, modes. */
static void put_head(um_spirv *s, um_text *out)
{
    static const struct {
        uint32_t capability;
        const char *name;
    } extensions[] = {
#define UM_SPV_EXTENSION(capability, name) {capability, name},
#include "render/spirv.def"
    };
    const um_kernel *k = s->k;
    uint32_t addresses = s->is_kernel    ? ADDRESSES_PHYSICAL_64
                         : s->by_address ? ADDRESSES_STORAGE_BUFFER_64
                                         : ADDRESSES_LOGICAL;
    uint32_t memory = s->is_kernel        ? MEMORY_OPENCL
                      : k->frag_count > 0 ? MEMORY_VULKAN
                                          : MEMORY_GLSL_450;
    uint32_t set[16] = {ID_EXT_SET};
    uint32_t entry[48] = {s->is_kernel ? MODEL_KERNEL : MODEL_GL_COMPUTE, ID_FUNCTION};
    char name[64] = "um_";
    memcpy(name + 3, k->name, sizeof k->name);
    for (int32_t i = 0; i < s->capability_count; i++)
        for (size_t e = 0; e < UM_COUNT_OF(extensions); e++)
            if (s->capability[i] == extensions[e].capability)
                put_extension(out, extensions[e].name);
    if (s->modes) put_extension(out, "SPV_KHR_float_controls");
    int32_t count = add_text(set, 1, s->is_kernel ? "OpenCL.std" : "GLSL.std.450");
    um_spirv_put(out, OP_EXT_IMPORT, count, set);
    UM_SPIRV(out, OP_MEMORY_MODEL, addresses, memory);
    count = add_text(entry, 2, name);
    memcpy(entry + count, s->interface, sizeof s->interface);
    um_spirv_put(out, OP_ENTRY_POINT, count + s->interface_count, entry);
    UM_SPIRV(out, OP_MODE, ID_FUNCTION, MODE_LOCAL_SIZE, k->group_size[0], k->group_size[1],
             k->group_size[2]);
    if (s->is_kernel) UM_SPIRV(out, OP_MODE, ID_FUNCTION, MODE_CONTRACTION_OFF);
    for (uint32_t i = 0; i < 3 * UM_COUNT_OF(float_modes); i++)
        if (s->modes >> i & 1)
            UM_SPIRV(out, OP_MODE, ID_FUNCTION, float_modes[i / 3].mode, 16u << i % 3);
}

static void put_section(um_text *out, const um_text *section)
{
    if (section->size > 0) um_text_put(out, section->data, (size_t)section->size);
    if (section->status != UM_OK) out->status = section->status;
}

static void assemble(um_spirv *s, uint32_t function_type, um_text *out)
{
    uint32_t header[5] = {MAGIC, s->is_kernel ? 0x00010000 : 0x00010300, 0, s->next_id, 0};
    um_text_put(out, (const char *)header, sizeof header);
    put_section(out, &s->capabilities);
    put_head(s, out);
    put_section(out, &s->decorations);
    put_section(out, &s->globals);
    UM_SPIRV(out, OP_FUNCTION, ID_VOID, ID_FUNCTION, 0, function_type);
    put_section(out, &s->parameters);
    UM_SPIRV(out, OP_LABEL, ID_FIRST_LABEL);
    put_section(out, &s->variables);
    put_section(out, &s->body);
    um_spirv_put(out, OP_RETURN, 0, NULL);
    um_spirv_put(out, OP_FUNCTION_END, 0, NULL);
}

static um_status render(um_spirv *s, um_text *out)
{
    um_spirv_capability(s, s->is_kernel ? CAP_KERNEL : CAP_SHADER);
    if (s->is_kernel) um_spirv_capability(s, CAP_ADDRESSES);
    if (s->by_address) um_spirv_capability(s, CAP_STORAGE_ADDRESSES);
    UM_SPIRV(&s->globals, OP_TYPE_VOID, ID_VOID);
    uint32_t function_type = s->is_kernel ? kernel_parameters(s) : vulkan_parameters(s);
    declare_memories(s);
    um_spirv_declare_frags(s);
    for (int64_t v = 1; v < s->k->inst_count && s->status == UM_OK; v++)
        um_spirv_walk(s, (um_val)v);
    declare_modes(s);
    if (s->status == UM_OK) assemble(s, function_type, out);
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
                  .modes = modes,
                  .next_id = ID_OTHERS,
                  .block = ID_FIRST_LABEL};
    size_t mems = (size_t)kernel->mem_count, scalars = (size_t)kernel->scalar_count;
    size_t frags = (size_t)kernel->frag_count;
    size_t count = (size_t)kernel->inst_count + 3 * mems + scalars + 2 * frags;
    s.value = um_mem_zalloc(count * sizeof *s.value);
    if (!s.value) return UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: SPIR-V: no memory", kernel->name);
    s.memory = s.value + kernel->inst_count;
    s.pointer = s.memory + mems;
    s.base = s.pointer + mems;
    s.scalar = s.base + mems;
    s.matrix = s.scalar + scalars;
    s.matrix_type = s.matrix + frags;
    um_status status = render(&s, out);
    um_text *sections[] = {&s.capabilities, &s.decorations, &s.globals,
                           &s.parameters,   &s.variables,   &s.body};
    for (size_t i = 0; i < UM_COUNT_OF(sections); i++) um_text_release(sections[i]);
    um_mem_free(s.constant);
    um_mem_free(s.value);
    return status;
}
