/* ir/build.c: a kernel's life, and what is declared in it: buffers, scalars, arrays, variables,
 * fragments. Its instructions are appended in emit.c. */
#include "ir/ir.h"

#include <stdio.h>

const um_kop_row um_kop_rows[UM_KOP_LIMIT] = {
#define UM_KOP(id, NAME, name, arity, rule, types, flow, imm, same, doc)                           \
    [id] = {#name,           arity,         UM_KRULE_##rule, UM_KTYPES_##types,                    \
            UM_KFLOW_##flow, UM_KIMM_##imm, UM_KSAME_##same},
#include <umbel/kernel.def>
};

const um_kfield um_kimm_fields[][5] = {
    [UM_KIMM_BITS] = {{UM_KFIELD_BITS, 0, 64}},
    [UM_KIMM_SCALAR] = {{UM_KFIELD_SCALAR, 0, 64}},
    [UM_KIMM_NUMBER] = {{UM_KFIELD_NUMBER, 0, 64}},
    [UM_KIMM_MEMORY] = {{UM_KFIELD_MEMORY, 0, 64}},
    [UM_KIMM_OPERATION] = {{UM_KFIELD_OPERATION, 0, 32}, {UM_KFIELD_EXCLUSIVE, 32, 32}},
    [UM_KIMM_ATOMIC] = {{UM_KFIELD_OPERATION, 32, 32}, {UM_KFIELD_MEMORY, 0, 32}},
    [UM_KIMM_FRAG] = {{UM_KFIELD_FRAG, 0, 64}},
    [UM_KIMM_FRAG_AT] = {{UM_KFIELD_FRAG, 0, 31},
                         {UM_KFIELD_MEMORY, 32, 32},
                         {UM_KFIELD_BY_COLUMNS, 31, 1}},
    [UM_KIMM_MMA] = {{UM_KFIELD_FRAG, 0, 16},
                     {UM_KFIELD_FRAG, 16, 16},
                     {UM_KFIELD_FRAG, 32, 16},
                     {UM_KFIELD_FRAG, 48, 16}},
    [UM_KIMM_COPY] = {{UM_KFIELD_MEMORY, 0, 32}, {UM_KFIELD_MEMORY, 32, 32}}};

const char *um_kfield_name(const um_kernel *k, um_kfield_kind kind, uint64_t number)
{
    static const char *const operation[] = {NULL,  "add", "mul", "min",     "max",
                                            "and", "or",  "xor", "exchange"};
    switch (kind) {
    case UM_KFIELD_SCALAR:
        return number < (uint64_t)k->scalar_count ? k->scalar[number].name : NULL;
    case UM_KFIELD_MEMORY:
        return number - 1 < (uint64_t)k->mem_count ? k->mem[number - 1].name : NULL;
    case UM_KFIELD_FRAG:
        return number - 1 < (uint64_t)k->frag_count ? k->frag[number - 1].name : NULL;
    case UM_KFIELD_OPERATION: return number < UM_COUNT_OF(operation) ? operation[number] : NULL;
    case UM_KFIELD_NONE:
    case UM_KFIELD_BITS:
    case UM_KFIELD_NUMBER:
    case UM_KFIELD_EXCLUSIVE:
    case UM_KFIELD_BY_COLUMNS: break;
    }
    return NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

static bool is_identifier(const char *name, size_t size)
{
    size_t n = 0;
    if (!name) return false;
    for (; name[n]; n++) {
        char c = name[n];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (n + 1 >= size || (!letter && (n == 0 || c < '0' || c > '9'))) return false;
    }
    return n > 0;
}

/* The sizes of the three dimensions, 0 taken as 1; false when they multiply to more than limit. */
static bool take_sizes(uint32_t out[3], const uint32_t in[3], uint32_t limit)
{
    uint64_t all = 1;
    for (int32_t i = 0; i < 3; i++) {
        out[i] = in[i] ? in[i] : 1;
        all *= out[i];
        if (all > limit) return false;
    }
    return true;
}

um_status um_kernel_create(const um_kernel_desc *desc, um_kernel **out)
{
    if (!desc || !out)
        return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_create: %s is NULL", desc ? "out" : "desc");
    *out = NULL;
    um_kernel head = {.subgroup_size = desc->subgroup_size};
    if (!is_identifier(desc->name, sizeof head.name))
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "um_kernel_create: the name is not a C identifier of at most %d characters",
                       (int)sizeof head.name - 1);
    if (!take_sizes(head.group_size, desc->group_size, 1024))
        return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: group_size %ux%ux%u is over 1024",
                       desc->name, desc->group_size[0], desc->group_size[1], desc->group_size[2]);
    if (!take_sizes(head.cluster_size, desc->cluster_size, 16))
        return UM_FAIL(UM_INVALID_ARGUMENT, "kernel %s: cluster_size %ux%ux%u is over 16",
                       desc->name, desc->cluster_size[0], desc->cluster_size[1],
                       desc->cluster_size[2]);
    if ((head.subgroup_size & (head.subgroup_size - 1)) != 0 || head.subgroup_size > 128)
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "kernel %s: subgroup_size %u is no power of two up to 128", desc->name,
                       desc->subgroup_size);
    um_kernel *k = um_mem_alloc(sizeof *k);
    if (!k) return UM_FAIL(UM_OUT_OF_MEMORY, "kernel %s: no memory", desc->name);
    *k = head;
    snprintf(k->name, sizeof k->name, "%s", desc->name);
    um_kernel_append(k, &(um_kinst){0});
    if (k->status != UM_OK) {
        um_fail_again(&k->error);
        um_kernel_release(k);
        return um_status_last();
    }
    *out = k;
    return UM_OK;
}

void um_kernel_release(um_kernel *k)
{
    if (!k) return;
    um_mem_free(k->inst);
    um_mem_free(k->mem);
    um_mem_free(k->scalar);
    um_mem_free(k->frag);
    um_mem_free(k);
}

um_status um_kernel_finish(um_kernel *k)
{
    if (!k) return UM_FAIL(UM_INVALID_ARGUMENT, "um_kernel_finish: kernel is NULL");
    if (k->status != UM_OK) return um_fail_again(&k->error);
    if (!k->finished) UM_TRY(um_kernel_verify(k));
    k->finished = true;
    return UM_OK;
}

_Static_assert(sizeof(um_kinst) == 32 && sizeof(um_kmem) == 40 && sizeof(um_kscalar) == 36 &&
                   sizeof(um_kfrag) == 48,
               "no bytes between the members");

static bool same(const void *a, const void *b, int64_t a_count, int64_t b_count, size_t item_bytes)
{
    return a_count == b_count && (a_count == 0 || memcmp(a, b, (size_t)a_count * item_bytes) == 0);
}

bool um_kernel_same(const um_kernel *a, const um_kernel *b)
{
    return strcmp(a->name, b->name) == 0 && a->subgroup_size == b->subgroup_size &&
           same(a->group_size, b->group_size, 3, 3, sizeof(uint32_t)) &&
           same(a->cluster_size, b->cluster_size, 3, 3, sizeof(uint32_t)) &&
           same(a->inst, b->inst, a->inst_count, b->inst_count, sizeof *a->inst) &&
           same(a->mem, b->mem, a->mem_count, b->mem_count, sizeof *a->mem) &&
           same(a->scalar, b->scalar, a->scalar_count, b->scalar_count, sizeof *a->scalar) &&
           same(a->frag, b->frag, a->frag_count, b->frag_count, sizeof *a->frag);
}

/* Declarations seldom differ where instructions and the name do not. */
uint64_t um_kernel_hash(const um_kernel *k)
{
    uint64_t hash = um_hash(k->inst, (size_t)k->inst_count * sizeof *k->inst, k->group_size[0]);
    return um_hash(k->name, strlen(k->name), hash);
}

um_val um_kernel_mistake(um_kernel *k, um_status code, const char *format, ...)
{
    char text[384];
    va_list args;
    if (!k || k->status != UM_OK) return 0;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    um_error saved = *um_last_error();
    k->status = um_fail(code, "kernel %s: %s", k->name, text);
    k->error = *um_last_error();
    um_fail_again(&saved);
    return 0;
}

/* ---- declarations --------------------------------------------------------------------------- */

bool um_kernel_name_is_free(const um_kernel *k, const char *name)
{
    for (int64_t i = 0; i < k->mem_count; i++)
        if (strcmp(k->mem[i].name, name) == 0) return false;
    for (int64_t i = 0; i < k->scalar_count; i++)
        if (strcmp(k->scalar[i].name, name) == 0) return false;
    for (int64_t i = 0; i < k->frag_count; i++)
        if (strcmp(k->frag[i].name, name) == 0) return false;
    return true;
}

/* Whether something with that name can be declared; `out` gets the name. */
static bool can_declare(um_kernel *k, const char *what, const char *name, char out[32])
{
    if (!k || k->status != UM_OK) return false;
    if (k->finished)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "a finished kernel takes no %s", what);
    if (!is_identifier(name, 32))
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT,
                                 "a %s's name is not a C identifier of at most 31 characters",
                                 what);
    if (!um_kernel_name_is_free(k, name))
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "there is a '%s' already", name);
    snprintf(out, 32, "%s", name);
    return true;
}

static bool reserve(um_kernel *k, void **items, int64_t *capacity, int64_t count, size_t item_bytes)
{
    if (um_vec_reserve(items, capacity, count, item_bytes, "um_kernel") == UM_OK) return true;
    um_kernel_mistake(k, UM_OUT_OF_MEMORY, "no memory");
    return false;
}

#define MAX_MEMORIES 1024
#define MAX_FRAGS    256

static um_mem declare_memory(um_kernel *k, const char *what, const char *name, um_kmem mem)
{
    if (!can_declare(k, what, name, mem.name)) return 0;
    if (k->mem_count == MAX_MEMORIES)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "more than %d memories", MAX_MEMORIES);
    if (um_dtype_bits(mem.type.dtype) < 8)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT,
                                 "%s %s: elements of %s are not of whole bytes", what, name,
                                 um_dtype_name(mem.type.dtype));
    if (!reserve(k, (void **)&k->mem, &k->mem_capacity, k->mem_count, sizeof mem)) return 0;
    k->mem[k->mem_count] = mem;
    return (um_mem)++k->mem_count;
}

/* A dtype as it is kept; what is none becomes 0, which declare_memory refuses. */
static um_ktype type_of(um_dtype dtype, int32_t lanes)
{
    bool good = um_dtype_valid(dtype) && (lanes == 1 || lanes == 2 || lanes == 4);
    return good ? (um_ktype){(uint8_t)dtype, (uint8_t)lanes} : (um_ktype){0, 0};
}

um_mem um_k_buffer(um_kernel *k, const char *name, um_dtype dtype, int32_t access)
{
    if (access < UM_K_READ || access > UM_K_READ_WRITE)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "a buffer's access %d is none", access);
    if (k && um_kernel_buffers(k) == UM_K_MAX_BUFFERS)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "more than %d buffers", UM_K_MAX_BUFFERS);
    return declare_memory(
        k, "buffer", name,
        (um_kmem){.space = UM_SPACE_BUFFER, .access = (uint8_t)access, .type = type_of(dtype, 1)});
}

/* An array of 1 to 2^24 elements. */
static um_mem declare_array(um_kernel *k, const char *what, um_space space, const char *name,
                            um_dtype dtype, uint32_t count)
{
    if (count == 0 || count > 1u << 24)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "a %s array of %u elements", what, count);
    return declare_memory(
        k, what, name,
        (um_kmem){.space = (uint8_t)space, .type = type_of(dtype, 1), .count = count});
}

um_mem um_k_shared(um_kernel *k, const char *name, um_dtype dtype, uint32_t count)
{
    return declare_array(k, "shared", UM_SPACE_SHARED, name, dtype, count);
}

um_mem um_k_private(um_kernel *k, const char *name, um_dtype dtype, uint32_t count)
{
    return declare_array(k, "private", UM_SPACE_PRIVATE, name, dtype, count);
}

um_mem um_k_var(um_kernel *k, const char *name, um_dtype dtype, int32_t lanes)
{
    return declare_memory(k, "variable", name,
                          (um_kmem){.space = UM_SPACE_VAR, .type = type_of(dtype, lanes)});
}

bool um_kernel_declare_scalar(um_kernel *k, const char *name, um_dtype dtype)
{
    um_kscalar scalar = {.dtype = dtype};
    if (!can_declare(k, "scalar", name, scalar.name)) return false;
    if (dtype != UM_F32 && dtype != UM_I32 && dtype != UM_U32)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "scalar %s is %s, not f32, i32 or u32",
                                 name, um_dtype_name(dtype));
    if (k->scalar_count == UM_K_MAX_SCALARS)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "more than %d scalars", UM_K_MAX_SCALARS);
    if (!reserve(k, (void **)&k->scalar, &k->scalar_capacity, k->scalar_count, sizeof scalar))
        return false;
    k->scalar[k->scalar_count++] = scalar;
    return true;
}

um_val um_k_scalar(um_kernel *k, const char *name, um_dtype dtype)
{
    if (!um_kernel_declare_scalar(k, name, dtype)) return 0;
    return um_kernel_append(k, &(um_kinst){.op = UM_KOP_SCALAR,
                                           .type = type_of(dtype, 1),
                                           .imm = (uint64_t)(k->scalar_count - 1)});
}

um_frag um_k_frag(um_kernel *k, const char *name, int32_t role, uint32_t m, uint32_t n, uint32_t kk,
                  um_dtype dtype)
{
    um_kfrag frag = {
        .role = (uint8_t)role, .dtype = type_of(dtype, 1).dtype, .m = m, .n = n, .k = kk};
    if (!can_declare(k, "fragment", name, frag.name)) return 0;
    bool sizes = m >= 1 && n >= 1 && kk >= 1 && m <= 64 && n <= 256 && kk <= 256;
    if (role < UM_K_FRAG_A || role > UM_K_FRAG_C || !sizes || um_dtype_bits(frag.dtype) < 8)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "fragment %s: role %d, %ux%ux%u of %s",
                                 name, role, m, n, kk, um_dtype_name(dtype));
    if (k->frag_count == MAX_FRAGS)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "more than %d fragments", MAX_FRAGS);
    if (!reserve(k, (void **)&k->frag, &k->frag_capacity, k->frag_count, sizeof frag)) return 0;
    k->frag[k->frag_count] = frag;
    return (um_frag)++k->frag_count;
}

/* ---- instructions --------------------------------------------------------------------------- */

um_val um_kernel_append(um_kernel *k, const um_kinst *inst)
{
    if (!k || k->status != UM_OK) return 0;
    if (k->finished)
        return um_kernel_mistake(k, UM_INVALID_ARGUMENT, "a finished kernel takes no %s",
                                 um_kop_rows[inst->op].name);
    if (k->inst_count > INT32_MAX ||
        !reserve(k, (void **)&k->inst, &k->inst_capacity, k->inst_count, sizeof *inst))
        return 0;
    k->inst[k->inst_count] = *inst;
    return (um_val)k->inst_count++;
}
