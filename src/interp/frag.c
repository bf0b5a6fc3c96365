/* interp/frag.c: matrix fragments of any size. The layout, which is none of any device's: of a
 * matrix whose elements are numbered row by row (role B: column by column), element f is item f / L
 * of lane f % L of the L invocations of the subgroup. So counts may differ between invocations. */
#include "interp/interp.h"

static um_frag frag_of(const um_kinst *inst) { return (um_frag)(inst->imm & 0x7fffffff); }

static uint32_t total_of(const um_ifrag *frag) { return frag->rows * frag->columns; }

/* ---- whole fragments ------------------------------------------------------------------------ */

/* An operand that all of the subgroup share, as index of invocation lo. */
static um_status check_same(um_interp *it, um_val v, int32_t lo, int32_t hi)
{
    size_t size = um_element_bytes(um_val_type(it->k, v).dtype);
    const char *items = um_interp_value(it, v);
    for (int32_t i = lo + 1; i < hi; i++)
        if (memcmp(items + (size_t)i * size, items + (size_t)lo * size, size) != 0)
            return um_interp_fail(it, UM_INVALID_ARGUMENT, i,
                                  "an operand is not the same as that of the subgroup's first");
    return UM_OK;
}

static um_status fill(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    um_ifrag *frag = &it->frag[frag_of(inst) - 1];
    uint32_t total = total_of(frag);
    size_t base = (size_t)(lo / it->subgroup) * total;
    const char *value = um_interp_value(it, inst->arg[0]);
    UM_TRY(check_same(it, inst->arg[0], lo, hi));
    for (size_t f = base; f < base + total; f++)
        memcpy(frag->data + f * frag->size, value + (size_t)lo * frag->size, frag->size);
    memset(frag->is + base, UM_IS_WRITTEN, total);
    return UM_OK;
}

static um_status fail_unwritten(um_interp *it, um_frag f, uint32_t row, uint32_t column,
                                int32_t invocation)
{
    return um_interp_fail(it, UM_INVALID_ARGUMENT, invocation,
                          "element (%u,%u) of %s is used before it was written", row, column,
                          it->k->frag[f - 1].name);
}

/* Rows (columns) begin where matrix units can read them. */
static bool is_aligned(const um_ifrag *frag, bool by_columns, uint64_t index, uint64_t stride)
{
    uint64_t bytes = (by_columns ? frag->rows : frag->columns) * frag->size;
    uint64_t at = UM_MIN(bytes & -bytes, 16);
    return index * frag->size % at == 0 && stride * frag->size % at == 0;
}

/* Load and store: element (row, column) is index + row * stride + column. */
static um_status move_matrix(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    bool is_load = inst->op == UM_KOP_FRAG_LOAD, by_columns = (inst->imm >> 31 & 1) != 0;
    um_ifrag *frag = &it->frag[frag_of(inst) - 1];
    um_imem *mem = &it->mem[(inst->imm >> 32) - 1];
    size_t size = frag->size;
    uint64_t index = ((const uint32_t *)um_interp_value(it, inst->arg[0]))[lo];
    uint64_t stride = ((const uint32_t *)um_interp_value(it, inst->arg[1]))[lo];
    uint32_t subgroup = (uint32_t)(lo / it->subgroup);
    UM_TRY(check_same(it, inst->arg[0], lo, hi));
    UM_TRY(check_same(it, inst->arg[1], lo, hi));
    if (!is_aligned(frag, by_columns, index, stride))
        return um_interp_fail(it, UM_INVALID_ARGUMENT, lo,
                              "index %llu or stride %llu of %s: rows not at whole 16 bytes",
                              (unsigned long long)index, (unsigned long long)stride, mem->name);
    for (uint32_t f = 0; f < total_of(frag); f++) {
        uint32_t row = f / frag->columns, column = f % frag->columns;
        uint64_t at = index + (by_columns ? column * stride + row : row * stride + column);
        size_t item = (size_t)subgroup * total_of(frag) + f;
        if (!is_load && !frag->is[item]) return fail_unwritten(it, frag_of(inst), row, column, lo);
        UM_TRY(um_interp_touch(it, mem, at, 1, UM_WHO_SUBGROUP + subgroup, lo,
                               is_load ? UM_TOUCH_READ : UM_TOUCH_WRITE));
        char *there = mem->data + at * size, *here = frag->data + item * size;
        memcpy(is_load ? here : there, is_load ? there : here, size);
        frag->is[item] = UM_IS_WRITTEN;
    }
    return UM_OK;
}

/* ---- d = a b + c ---------------------------------------------------------------------------- */

/* What products are added up in: f32 of all floats but f64, and 64 bits, which wrap, of integers.
 */
static void multiply_f32(float *c, const float *a, const float *b, const um_kfrag *f)
{
    for (uint32_t i = 0; i < f->m; i++)
        for (uint32_t p = 0; p < f->k; p++)
            for (uint32_t j = 0; j < f->n; j++)
                c[i * f->n + j] += a[i * f->k + p] * b[p * f->n + j];
}

static void multiply_f64(double *c, const double *a, const double *b, const um_kfrag *f)
{
    for (uint32_t i = 0; i < f->m; i++)
        for (uint32_t p = 0; p < f->k; p++)
            for (uint32_t j = 0; j < f->n; j++)
                c[i * f->n + j] += a[i * f->k + p] * b[p * f->n + j];
}

static void multiply_i64(uint64_t *c, const uint64_t *a, const uint64_t *b, const um_kfrag *f)
{
    for (uint32_t i = 0; i < f->m; i++)
        for (uint32_t p = 0; p < f->k; p++)
            for (uint32_t j = 0; j < f->n; j++)
                c[i * f->n + j] += a[i * f->k + p] * b[p * f->n + j];
}

/* The class in which the products of C's fragments are added. */
static um_class sum_class(um_dtype dtype)
{
    um_class c = um_dtype_class(dtype);
    return c == UM_CLASS_U64 ? UM_CLASS_I64 : c;
}

/* Loads the subgroup's elements of a fragment, all of which must be written, as class c. */
static um_status load_fragment(um_interp *it, um_frag f, uint32_t subgroup, um_class c, void *out)
{
    const um_ifrag *frag = &it->frag[f - 1];
    uint32_t total = total_of(frag);
    int64_t base = (int64_t)subgroup * total;
    for (uint32_t e = 0; e < total; e++)
        if (!frag->is[base + e])
            return fail_unwritten(it, f, e / frag->columns, e % frag->columns,
                                  (int32_t)subgroup * it->subgroup);
    um_load(c, out, it->k->frag[f - 1].dtype, frag->data, base, 1, total);
    return UM_OK;
}

static um_status multiply(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    um_frag id[4]; /* d, a, b, c */
    uint32_t subgroup = (uint32_t)(lo / it->subgroup);
    (void)hi;
    for (int32_t i = 0; i < 4; i++) id[i] = inst->imm >> 16 * i & 0xffff;
    const um_kfrag *d = &it->k->frag[id[0] - 1];
    um_class class = sum_class(it->k->frag[id[3] - 1].dtype);
    char *a = it->scratch, *b = a + (size_t)8 * d->m * d->k, *c = b + (size_t)8 * d->k * d->n;
    UM_TRY(load_fragment(it, id[1], subgroup, class, a));
    UM_TRY(load_fragment(it, id[2], subgroup, class, b));
    UM_TRY(load_fragment(it, id[3], subgroup, class, c));
    if (class == UM_CLASS_F32)
        multiply_f32((void *)c, (void *)a, (void *)b, d);
    else if (class == UM_CLASS_F64)
        multiply_f64((void *)c, (void *)a, (void *)b, d);
    else
        multiply_i64((void *)c, (void *)a, (void *)b, d);
    um_ifrag *out = &it->frag[id[0] - 1];
    size_t base = (size_t)subgroup * total_of(out);
    um_store(d->dtype, out->data, (int64_t)base, 1, class, c, total_of(out));
    memset(out->is + base, UM_IS_WRITTEN, total_of(out));
    return UM_OK;
}

/* ---- the items of an invocation ------------------------------------------------------------- */

/* Where an invocation's items are. */
typedef struct held {
    uint32_t lane, lanes, count; /* of the subgroup; items */
    size_t base;                 /* of the subgroup's elements */
} held;

static held held_by(const um_interp *it, const um_ifrag *frag, int32_t i)
{
    int32_t subgroup = i / it->subgroup, lo = subgroup * it->subgroup;
    uint32_t lanes = (uint32_t)UM_MIN(it->subgroup, it->n - lo), lane = (uint32_t)(i - lo);
    uint32_t total = total_of(frag);
    return (held){lane, lanes, total / lanes + (lane < total % lanes), (size_t)subgroup * total};
}

static um_status count(um_interp *it, int32_t lo, int32_t hi)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    uint32_t *out = um_interp_value(it, it->pc);
    for (int32_t i = lo; i < hi; i++) out[i] = held_by(it, &it->frag[frag_of(inst) - 1], i).count;
    return UM_OK;
}

/* GET, SET, ROW and COLUMN of the item of one invocation. */
static um_status use_item(um_interp *it, const um_kinst *inst, int32_t i)
{
    um_frag id = frag_of(inst);
    um_ifrag *frag = &it->frag[id - 1];
    held h = held_by(it, frag, i);
    uint32_t item = ((const uint32_t *)um_interp_value(it, inst->arg[0]))[i];
    if (item >= h.count)
        return um_interp_fail(it, UM_OUT_OF_RANGE, i, "item %u of %s, of which it holds %u", item,
                              it->k->frag[id - 1].name, h.count);
    bool by_columns = it->k->frag[id - 1].role == UM_K_FRAG_B;
    uint32_t f = item * h.lanes + h.lane;
    uint32_t row = by_columns ? f % frag->rows : f / frag->columns;
    uint32_t column = by_columns ? f / frag->rows : f % frag->columns;
    size_t at = h.base + row * (size_t)frag->columns + column, size = frag->size;
    char *element = frag->data + at * size;
    if (inst->op == UM_KOP_FRAG_SET) {
        memcpy(element, (char *)um_interp_value(it, inst->arg[1]) + (size_t)i * size, size);
        frag->is[at] = UM_IS_WRITTEN;
        return UM_OK;
    }
    char *out = um_interp_value(it, it->pc);
    if (inst->op == UM_KOP_FRAG_GET) {
        if (!frag->is[at]) return fail_unwritten(it, id, row, column, i);
        memcpy(out + (size_t)i * size, element, size);
    } else {
        memcpy(out + (size_t)i * 4, inst->op == UM_KOP_FRAG_ROW ? &row : &column, 4);
    }
    return UM_OK;
}

um_status um_interp_frag(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    switch (inst->op) {
    case UM_KOP_FRAG_FILL: return um_interp_subgroups(it, fill);
    case UM_KOP_FRAG_LOAD:
    case UM_KOP_FRAG_STORE: return um_interp_subgroups(it, move_matrix);
    case UM_KOP_FRAG_MMA: return um_interp_subgroups(it, multiply);
    case UM_KOP_FRAG_COUNT: return um_interp_subgroups(it, count);
    default: break;
    }
    for (int32_t i = it->first; i < it->last; i++)
        if (it->mask[i]) UM_TRY(use_item(it, inst, i));
    return UM_OK;
}
