/* kernel/walk.c: views in kernels: their axes made few, their strides as scalars, their elements
 * loaded and stored. */
#include "kernel/library.h"

#include <stdio.h>

/* Indices are u32 and may wrap on the way. What fits are the elements of a view, and the
 * invocations of whole rows of 65,535 groups, of which the last may be for nothing. */
#define COUNT_MAX (((int64_t)1 << 32) - ((int64_t)1 << 24) - ((int64_t)1 << 16))

bool um_kwalk_fits(const um_view *view, char *why, size_t why_size)
{
    int64_t low, high, bits = um_dtype_bits(view->dtype);
    if (um_view_count(view) <= COUNT_MAX && um_view_extent(view, &low, &high) &&
        (high - low) / bits <= COUNT_MAX / 8)
        return true;
    snprintf(why, why_size, "no kernel takes %s: it has 2^32 elements or more",
             um_dtype_name(view->dtype));
    return false;
}

bool um_kop_fits(const um_op *op, char *why, size_t why_size)
{
    bool fits = true;
    for (int32_t i = 0; fits && i < op->in_count; i++)
        fits = um_kwalk_fits(&op->in[i], why, why_size);
    for (int32_t i = 0; fits && i < op->out_count; i++)
        fits = um_kwalk_fits(&op->out[i], why, why_size);
    return fits;
}

/* ---- axes ----------------------------------------------------------------------------------- */

static bool goes_on(const um_kwalk *w, int64_t size, const int64_t *stride)
{
    for (int32_t v = 0; v < w->view_count; v++)
        if (w->stride[v][w->rank - 1] != stride[v] * size) return false;
    return true;
}

void um_kwalk_add(um_kwalk *w, bool lead, int64_t size, const int64_t *stride)
{
    if (size == 1) return;
    bool first = w->rank == 0 || (!lead && w->rank == w->lead);
    if (first || !goes_on(w, size, stride)) w->shape[w->rank++] = 1;
    w->shape[w->rank - 1] *= size;
    for (int32_t v = 0; v < w->view_count; v++) w->stride[v][w->rank - 1] = stride[v];
    if (lead) w->lead = w->rank;
}

um_kwalk um_kwalk_make(int32_t count, const um_view *const *views, int32_t lead)
{
    um_kwalk w = {.view_count = count};
    int64_t stride[UM_KVIEWS];
    for (int32_t v = 0; v < count; v++) w.view[v] = views[v];
    for (int32_t axis = 0; axis < views[0]->rank; axis++) {
        for (int32_t v = 0; v < count; v++) stride[v] = views[v]->stride[axis];
        um_kwalk_add(&w, axis < lead, views[0]->shape[axis], stride);
    }
    return w;
}

um_kwalk um_kwalk_apart(int32_t count, const um_view *const *views)
{
    um_kwalk w = {.view_count = count, .rank = views[0]->rank};
    memcpy(w.shape, views[0]->shape, sizeof views[0]->shape);
    for (int32_t v = 0; v < count; v++) {
        w.view[v] = views[v];
        memcpy(w.stride[v], views[v]->stride, sizeof views[v]->stride);
    }
    return w;
}

um_kwalk um_kwalk_behind(int32_t count, const um_view *const *views, int32_t axis)
{
    um_kwalk w = um_kwalk_apart(count, views);
    if (axis < 0) axis += w.rank;
    for (int32_t d = 0; d < w.rank; d++) {
        int32_t from = d == w.rank - 1 ? axis : d + (d >= axis);
        w.shape[d] = views[count - 1]->shape[from];
        for (int32_t v = 0; v < count; v++) w.stride[v][d] = views[v]->stride[from];
    }
    return w;
}

um_kstore um_kwalk_store(const um_view *out)
{
    int64_t bits = um_dtype_bits(out->dtype);
    if (bits >= 32) return UM_KSTORE_PLAIN;
    return bits >= 8 && um_view_is_packed(out) ? UM_KSTORE_WORDS : UM_KSTORE_ATOMIC;
}

bool um_kwalk_joins(const um_view *view, int32_t axis, int64_t count)
{
    int64_t bytes = um_dtype_bits(view->dtype) / 8;
    if (bytes < 1 || view->ptr % (uint64_t)(count * bytes) != 0) return false;
    if (view->stride[axis] != 1 || view->shape[axis] % count != 0) return false;
    for (int32_t i = 0; i < view->rank; i++)
        if (i != axis && view->shape[i] != 1 && view->stride[i] % count != 0) return false;
    return true;
}

int32_t um_kwalk_lanes(const um_view *view, int32_t axis)
{
    return um_dtype_bits(view->dtype) <= 32 && um_kwalk_joins(view, axis, 4) ? 4 : 1;
}

/* ---- parameters ----------------------------------------------------------------------------- */

um_val um_klaunch_scalar(um_klaunch *launch, int64_t value, const char *name, ...)
{
    char text[32];
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    launch->scalar[launch->scalar_count++] = (uint32_t)value;
    return um_k_scalar(launch->kernel, text, UM_U32);
}

um_val um_klaunch_real(um_klaunch *launch, um_dtype dtype, double value, const char *name)
{
    um_kernel *k = launch->kernel;
    uint64_t bits = dtype == UM_I32 ? (uint64_t)(int64_t)value : 0; /* wraps */
    if (dtype != UM_I32) um_store(dtype, &bits, 0, 1, UM_CLASS_F64, &value, 1);
    um_val low = um_klaunch_scalar(launch, (int64_t)bits, "%s", name);
    if (um_dtype_bits(dtype) == 32) return um_k_bitcast(k, dtype, 1, low);
    um_val high = um_klaunch_scalar(launch, (int64_t)(bits >> 32), "%s_high", name);
    return um_k_bitcast(k, dtype, 1, um_k_vector(k, 2, (um_val[]){low, high}));
}

um_mem um_kvar(um_kernel *k, um_val value, const char *name, ...)
{
    char text[32];
    um_ktype type = um_val_type(k, value);
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    um_mem var = um_k_var(k, text, type.dtype, type.lanes);
    um_k_set(k, var, value);
    return var;
}

void um_kwalk_sizes(um_klaunch *launch, const um_kwalk *w, int32_t first, int32_t end, um_val *size)
{
    for (int32_t axis = first + 1; axis < end; axis++)
        size[axis] = um_klaunch_scalar(launch, w->shape[axis], "size%d", axis);
}

um_kview um_kview_declare(um_klaunch *launch, const um_kwalk *w, int32_t index, int32_t access,
                          um_kstore store)
{
    const um_view *view = w->view[index];
    int64_t low = 0, high = 0, bits = um_dtype_bits(view->dtype);
    char name[32];
    um_kview v = {.dtype = view->dtype, .store = store};
    um_view_extent(view, &low, &high); /* fits */
    um_ptr first = view->ptr + (uint64_t)low, begin = first & ~(um_ptr)15;
    uint64_t bytes = view->ptr + (uint64_t)high - begin;
    if (store == UM_KSTORE_ATOMIC) bytes = (bytes + 3) & ~(uint64_t)3;
    launch->buffer[launch->buffer_count++] = (um_kbinding){begin, bytes, false};
    snprintf(name, sizeof name, "view%d", index);
    um_dtype dtype = store == UM_KSTORE_ATOMIC            ? UM_U32
                     : view->dtype == UM_BOOL || bits < 8 ? UM_U8 /* another view may lie there */
                                                          : view->dtype;
    v.mem = um_k_buffer(launch->kernel, name, dtype,
                        store == UM_KSTORE_ATOMIC ? UM_K_READ_WRITE : access);
    v.base = um_klaunch_scalar(launch, (int64_t)((view->ptr - begin) * 8 / (uint64_t)bits),
                               "base%d", index);
    for (int32_t axis = 0; axis < w->rank; axis++)
        v.stride[axis] =
            um_klaunch_scalar(launch, w->stride[index][axis], "stride%d_%d", index, axis);
    return v;
}

um_kview um_kview_read(um_klaunch *launch, const um_kwalk *w, int32_t index)
{
    return um_kview_declare(launch, w, index, UM_K_READ, UM_KSTORE_PLAIN);
}

um_kview um_kview_write(um_klaunch *launch, const um_kwalk *w, int32_t index)
{
    bool narrow = um_dtype_bits(w->view[index]->dtype) < 32;
    return um_kview_declare(launch, w, index, UM_K_WRITE,
                            narrow ? UM_KSTORE_ATOMIC : UM_KSTORE_PLAIN);
}

static bool lies_on_output(const um_kwalk *w, int32_t index)
{
    return w->view[index] && um_views_identical(w->view[index], w->view[0]);
}

um_kview um_kview_output(um_klaunch *launch, const um_kwalk *w, um_kstore store)
{
    int32_t access = UM_K_WRITE;
    for (int32_t v = 1; v < w->view_count; v++)
        if (lies_on_output(w, v)) access = UM_K_READ_WRITE;
    return um_kview_declare(launch, w, 0, access, store);
}

um_kview um_kview_input(um_klaunch *launch, const um_kwalk *w, int32_t index, const um_kview *out)
{
    um_kview v = *out;
    if (!lies_on_output(w, index)) return um_kview_read(launch, w, index);
    v.dtype = w->view[index]->dtype;
    return v;
}

um_mem um_klaunch_scratch(um_klaunch *launch, const char *name, um_dtype dtype, uint64_t offset,
                          uint64_t size_bytes)
{
    launch->buffer[launch->buffer_count++] = (um_kbinding){offset, size_bytes, true};
    return um_k_buffer(launch->kernel, name, dtype, UM_K_READ_WRITE);
}

void um_kflag(um_kernel *k, um_mem mem, uint32_t index, um_val condition)
{
    um_k_if(k, condition);
    um_k_atomic(k, UM_K_OR, mem, um_k_u32(k, index), um_k_u32(k, 1));
    um_k_end(k);
}

/* ---- places and indices --------------------------------------------------------------------- */

void um_kwalk_places(um_kernel *k, um_val e, int32_t first, int32_t end, const um_val *size,
                     um_val *place)
{
    for (int32_t axis = end - 1; axis > first; axis--) {
        place[axis] = um_k_rem(k, e, size[axis]);
        e = um_k_div(k, e, size[axis]);
    }
    if (end > first) place[first] = e;
}

um_val um_kview_index(um_kernel *k, const um_kview *v, um_val base, int32_t first, int32_t end,
                      const um_val *place)
{
    for (int32_t axis = first; axis < end; axis++)
        base = um_k_add(k, base, um_k_mul(k, place[axis], v->stride[axis]));
    return base;
}

um_val um_kview_place(um_kernel *k, const um_kview *v, int32_t rank, const um_val *place)
{
    return um_kview_index(k, v, v->base, 0, rank, place);
}

um_val um_kview_load_at(um_kernel *k, const um_kview *v, int32_t rank, const um_val *place)
{
    return um_kview_load(k, v, um_kview_place(k, v, rank, place));
}

um_val um_klaunch_group_number(um_kernel *k)
{
    um_val row =
        um_k_mul(k, um_k_builtin(k, UM_KOP_GROUP_ID, 1), um_k_builtin(k, UM_KOP_GROUP_COUNT, 0));
    return um_k_add(k, row, um_k_builtin(k, UM_KOP_GROUP_ID, 0));
}

um_val um_klaunch_number(um_kernel *k)
{
    um_val first = um_k_mul(k, um_klaunch_group_number(k), um_k_u32(k, UM_KGROUP));
    return um_k_add(k, first, um_k_builtin(k, UM_KOP_LOCAL_INDEX, 0));
}

void um_klaunch_groups(um_klaunch *launch, int64_t count)
{
    const int64_t limit = 65535;
    launch->group_count[0] = (uint32_t)UM_MIN(count, limit);
    launch->group_count[1] = (uint32_t)um_ceil_div(count, limit);
    launch->group_count[2] = 1;
}

/* ---- each element --------------------------------------------------------------------------- */

um_status um_keach_start(um_keach *each, um_kplan *plan, const char *name)
{
    const um_view *out = each->walk.view[0];
    int64_t size = um_dtype_bits(out->dtype) / 8, count = um_view_count(out), per = 1, before = 0;
    UM_TRY(um_kplan_launch(plan, name, UM_KGROUP, &each->launch));
    each->k = each->launch->kernel;
    each->count = um_klaunch_scalar(each->launch, count, "count");
    if (each->store == UM_KSTORE_WORDS) {
        per = 4 / size;
        before = (int64_t)(out->ptr & 3) / size;
        each->per = um_k_u32(each->k, (uint32_t)per);
        each->shift = um_klaunch_scalar(each->launch, before, "shift");
    }
    um_klaunch_groups(each->launch, um_ceil_div(um_ceil_div(count + before, per), UM_KGROUP));
    um_kwalk_sizes(each->launch, &each->walk, 0, each->walk.rank, each->size);
    return UM_OK;
}

um_status um_keach_create(um_keach *each, um_kplan *plan, const char *name)
{
    each->store = um_kwalk_store(each->walk.view[0]);
    UM_TRY(um_keach_start(each, plan, name));
    each->view[0] = um_kview_output(each->launch, &each->walk, each->store);
    return UM_OK;
}

void um_keach_read(um_keach *each, int32_t view)
{
    each->view[view] = um_kview_input(each->launch, &each->walk, view, &each->view[0]);
}

void um_keach_begin(um_keach *each)
{
    um_kernel *k = each->k;
    um_val e = um_klaunch_number(k);
    if (each->per) {
        um_val j = um_k_for(k, um_k_u32(k, 0), each->per, um_k_u32(k, 1));
        e = um_k_add(k, um_k_mul(k, e, each->per), um_k_sub(k, j, each->shift));
    }
    um_k_if(k, um_k_lt(k, e, each->count));
    um_kwalk_places(k, e, 0, each->walk.rank, each->size, each->place);
    each->number = e;
}

um_status um_keach_finish(um_keach *each)
{
    um_k_end(each->k);
    if (each->per) um_k_end(each->k);
    return um_kernel_finish(each->k);
}

um_val um_keach_load(const um_keach *each, int32_t view)
{
    return um_kview_load_at(each->k, &each->view[view], each->walk.rank, each->place);
}

um_val um_keach_load_as(const um_keach *each, int32_t view, um_dtype dtype)
{
    return um_kvalue_as(each->k, dtype, um_keach_load(each, view));
}

void um_keach_store(const um_keach *each, um_val value)
{
    const um_kview *out = &each->view[0];
    um_val to = um_kview_place(each->k, out, each->walk.rank, each->place);
    if (out->dtype != UM_F4E2M1) value = um_kvalue_as(each->k, out->dtype, value);
    um_kview_store(each->k, out, to, value);
}

/* ---- elements ------------------------------------------------------------------------------- */

um_val um_kvalue_bits(um_kernel *k, um_val a)
{
    um_dtype dtype = um_val_type(k, a).dtype;
    if (dtype == UM_BOOL) return um_k_convert(k, UM_U32, a);
    switch (um_dtype_bits(dtype)) {
    case 8: return um_k_convert(k, UM_U32, um_k_bitcast(k, UM_U8, 1, a));
    case 16: return um_k_convert(k, UM_U32, um_k_bitcast(k, UM_U16, 1, a));
    default: return um_k_bitcast(k, UM_U32, 1, a);
    }
}

um_val um_kvalue_from_bits(um_kernel *k, um_dtype dtype, um_val bits)
{
    if (dtype == UM_F4E2M1) return um_kvalue_from_f4_bits(k, um_k_and(k, bits, um_k_u32(k, 15)));
    if (dtype == UM_BOOL) return um_k_ne(k, um_k_and(k, bits, um_k_u32(k, 255)), um_k_u32(k, 0));
    switch (um_dtype_bits(dtype)) {
    case 8: return um_k_bitcast(k, dtype, 1, um_k_convert(k, UM_U8, bits));
    case 16: return um_k_bitcast(k, dtype, 1, um_k_convert(k, UM_U16, bits));
    default: return um_k_bitcast(k, dtype, 1, bits);
    }
}

/* The same bits as another dtype of as many. */
static um_val as_bits_of(um_kernel *k, um_dtype dtype, um_val a)
{
    um_dtype from = um_val_type(k, a).dtype;
    if (from == dtype) return a;
    if (um_dtype_bits(dtype) == 64) return um_k_bitcast(k, dtype, 1, a);
    return um_kvalue_from_bits(k, dtype, um_kvalue_bits(k, a));
}

/* Of an element of 4, 8 or 16 bits: its word, and by how much it is shifted there. */
static um_val word_of(um_kernel *k, const um_kview *v, um_val index, um_val *shift)
{
    uint32_t bits = (uint32_t)um_dtype_bits(v->dtype), log2_bits = (uint32_t)__builtin_ctz(bits);
    um_val in_word = um_k_and(k, index, um_k_u32(k, 32 / bits - 1));
    *shift = um_k_shl(k, in_word, um_k_u32(k, log2_bits));
    return um_k_shr(k, index, um_k_u32(k, 5 - log2_bits));
}

/* Of a buffer of bytes. */
static um_val load_f4(um_kernel *k, const um_kview *v, um_val index)
{
    um_val byte = um_k_load(k, v->mem, um_k_shr(k, index, um_k_u32(k, 1)));
    um_val shift = um_k_shl(k, um_k_and(k, index, um_k_u32(k, 1)), um_k_u32(k, 2));
    return um_kvalue_from_bits(k, v->dtype, um_k_shr(k, um_k_convert(k, UM_U32, byte), shift));
}

um_val um_kview_load(um_kernel *k, const um_kview *v, um_val index)
{
    um_val shift;
    bool plain = v->store != UM_KSTORE_ATOMIC;
    if (plain && v->dtype == UM_F4E2M1) return load_f4(k, v, index);
    if (plain) return as_bits_of(k, v->dtype, um_k_load(k, v->mem, index));
    um_val word = word_of(k, v, index, &shift);
    um_val bits = um_k_atomic(k, UM_K_OR, v->mem, word, um_k_u32(k, 0));
    return um_kvalue_from_bits(k, v->dtype, um_k_shr(k, bits, shift));
}

void um_kview_store(um_kernel *k, const um_kview *v, um_val index, um_val value)
{
    um_val shift;
    if (v->store != UM_KSTORE_ATOMIC) {
        um_dtype dtype = v->dtype == UM_BOOL ? UM_U8 : v->dtype;
        um_k_store(k, v->mem, index, as_bits_of(k, dtype, value));
        return;
    }
    um_val word = word_of(k, v, index, &shift);
    um_val mask = um_k_u32(k, ((uint32_t)1 << um_dtype_bits(v->dtype)) - 1);
    um_k_atomic(k, UM_K_AND, v->mem, word, um_k_not(k, um_k_shl(k, mask, shift)));
    um_val bits = v->dtype == UM_F4E2M1 ? um_kvalue_f4_bits(k, value) : um_kvalue_bits(k, value);
    um_k_atomic(k, UM_K_OR, v->mem, word, um_k_shl(k, bits, shift));
}
