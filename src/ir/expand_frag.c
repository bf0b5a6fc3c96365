/* ir/expand_frag.c: fragments of tiles that the target has not, as private arrays. Of a matrix C a
 * lane has its part, laid out as the interpreter has it: element f is item f / L of lane f % L.
 * Matrices A and B it has whole, since it multiplies by all of them: it loads what the others load,
 * and nothing goes across lanes. */
#include "ir/expand.h"

#include <umbel/device.h>

bool um_ktiles_hold(const um_matrix_tile *tiles, int32_t count, const um_kfrag *f)
{
    for (const um_matrix_tile *t = tiles; t < tiles + count; t++) {
        um_dtype want = f->role == UM_K_FRAG_C ? t->accumulator : t->input;
        if (t->m == (int64_t)f->m && t->n == (int64_t)f->n && t->k == (int64_t)f->k &&
            (!want || want == f->dtype))
            return true;
    }
    return false;
}

/* The least lanes that a subgroup can have. */
static uint32_t lanes_least(const um_expand *e, const um_kernel *k)
{
    uint32_t size = e->lacks->shuffles ? e->lacks->shuffles : UM_MAX(k->subgroup_size, 1), n;
    if (e->lacks->subgroups) return 1;
    n = um_kernel_invocations(k) % size;
    return n ? n : size;
}

void um_expand_fragments_begin(um_rewrite *r)
{
    um_expand *e = r->pass;
    um_kernel *k = r->to;
    for (int64_t i = 0; i < k->frag_count; i++) {
        const um_kfrag *f = &k->frag[i];
        char name[32];
        if (um_ktiles_hold(e->lacks->tiles, e->lacks->tile_count, f)) continue;
        uint32_t count = um_kfrag_count(f), least = lanes_least(e, k);
        if (f->role == UM_K_FRAG_C) count = (count + least - 1) / least;
        um_expand_name(k, "items", f->dtype, name);
        e->items[i] = um_k_private(k, name, f->dtype, count);
    }
}

/* An instruction's fragment, and this lane's part of it. */
typedef struct part {
    um_kernel *k;
    const um_kfrag *f;
    um_mem items;
    bool shared_out;           /* among the lanes */
    um_val lane, lanes, count; /* count: of the elements that it is asked for */
} part;

static part part_of(const um_rewrite *r, um_frag frag)
{
    um_kernel *k = r->to;
    const um_expand *e = r->pass;
    part p = {.k = k, .f = &k->frag[frag - 1], .items = e->items[frag - 1]};
    um_val n = um_k_u32(k, um_kernel_invocations(k)), one = um_k_u32(k, 1);
    um_val size = um_k_builtin(k, UM_KOP_SUBGROUP_SIZE, 0);
    um_val before = um_k_mul(k, um_k_builtin(k, UM_KOP_SUBGROUP_ID, 0), size);
    um_val rest = um_k_sub(k, um_k_u32(k, um_kfrag_count(p.f)), one);
    p.shared_out = p.f->role == UM_K_FRAG_C;
    p.lane = um_k_builtin(k, UM_KOP_SUBGROUP_LANE, 0);
    p.lanes = um_k_min(k, size, um_k_sub(k, n, before));
    um_val has = um_k_le(k, p.lane, rest), last = um_k_div(k, um_k_sub(k, rest, p.lane), p.lanes);
    p.count = um_k_select(k, has, um_k_add(k, last, one), um_k_u32(k, 0));
    return p;
}

/* Row and column of the element that is item `item` of the lane: FRAG_ROW and FRAG_COLUMN. */
static void place_of_item(const part *p, um_val item, um_val *row, um_val *column)
{
    um_kernel *k = p->k;
    bool by_columns = p->f->role == UM_K_FRAG_B;
    um_val fast = um_k_u32(k, by_columns ? um_kfrag_rows(p->f) : um_kfrag_columns(p->f));
    um_val f = um_k_add(k, um_k_mul(k, item, p->lanes), p->lane);
    um_val low = um_k_rem(k, f, fast), high = um_k_div(k, f, fast);
    *row = by_columns ? low : high;
    *column = by_columns ? high : low;
}

static um_val whole_index(const part *p, um_val row, um_val column)
{
    um_val columns = um_k_u32(p->k, um_kfrag_columns(p->f));
    return um_k_add(p->k, um_k_mul(p->k, row, columns), column);
}

/* A loop over what the lane has in its array, whose index it gives. */
static um_val each_begin(const part *p, um_val *row, um_val *column)
{
    um_kernel *k = p->k;
    um_val all = um_k_u32(k, um_kfrag_count(p->f)), columns = um_k_u32(k, um_kfrag_columns(p->f));
    um_val i = um_k_for(k, um_k_u32(k, 0), p->shared_out ? p->count : all, um_k_u32(k, 1));
    *row = um_k_div(k, i, columns);
    *column = um_k_rem(k, i, columns);
    if (p->shared_out) place_of_item(p, i, row, column);
    return i;
}

static void move(const um_rewrite *r, const part *p, const um_kinst *inst)
{
    um_kernel *k = p->k;
    const um_expand *e = r->pass;
    um_mem mem = (um_mem)(inst->imm >> 32);
    bool by_columns = inst->imm >> 31 & 1, is_load = inst->op == UM_KOP_FRAG_LOAD;
    if (!is_load && p->shared_out && um_dtype_bits(p->f->dtype) < 32 && !e->lacks->subgroups)
        um_kernel_mistake(k, UM_UNSUPPORTED,
                          "instruction %u, frag_store of %s, a sum of %s: no lane has whole words",
                          r->at, p->f->name, um_dtype_name(p->f->dtype));
    um_val row, column, i = each_begin(p, &row, &column), stride = inst->arg[1];
    um_val far = um_k_mul(k, by_columns ? column : row, stride);
    um_val at = um_k_add(k, inst->arg[0], um_k_add(k, far, by_columns ? row : column));
    if (is_load)
        um_k_store(k, p->items, i, um_k_load(k, mem, at));
    else if (p->shared_out)
        um_k_store(k, mem, at, um_k_load(k, p->items, i));
    else
        um_k_store_if(k, mem, at, um_k_load(k, p->items, i), um_k_eq(k, p->lane, um_k_u32(k, 0)));
    um_k_end(k);
}

/* In the order of the interpreter, and as exact: products added in f32, f64 or i32. */
static void multiply(um_rewrite *r, uint64_t imm)
{
    um_kernel *k = r->to;
    part d = part_of(r, imm & UINT16_MAX), a = part_of(r, imm >> 16 & UINT16_MAX);
    part b = part_of(r, imm >> 32 & UINT16_MAX), c = part_of(r, (um_frag)(imm >> 48));
    um_expand *e = r->pass;
    bool is_float = um_dtype_is_float(c.f->dtype);
    um_dtype dtype = c.f->dtype == UM_F64 ? UM_F64 : is_float ? UM_F32 : c.f->dtype;
    if (!e->product[dtype]) {
        char name[32];
        um_expand_name(k, "product", dtype, name);
        e->product[dtype] = um_k_var(k, name, dtype, 1);
    }
    um_mem sum = e->product[dtype];
    um_val row, column, i = each_begin(&d, &row, &column);
    um_k_set(k, sum, um_k_convert(k, dtype, um_k_load(k, c.items, i)));
    um_val p = um_k_for(k, um_k_u32(k, 0), um_k_u32(k, d.f->k), um_k_u32(k, 1));
    um_val x = um_k_convert(k, dtype, um_k_load(k, a.items, whole_index(&a, row, p)));
    um_val y = um_k_convert(k, dtype, um_k_load(k, b.items, whole_index(&b, p, column)));
    um_k_set(k, sum, um_k_add(k, um_k_get(k, sum), um_k_mul(k, x, y)));
    um_k_end(k);
    um_k_store(k, d.items, i, um_k_convert(k, d.f->dtype, um_k_get(k, sum)));
    um_k_end(k);
}

static um_val element_of(const part *p, um_val item)
{
    um_val row, column;
    if (p->shared_out) return item;
    place_of_item(p, item, &row, &column);
    return whole_index(p, row, column);
}

um_val um_expand_fragments(um_rewrite *r, um_kinst inst)
{
    um_kernel *k = r->to;
    const um_expand *e = r->pass;
    bool is_mma = inst.op == UM_KOP_FRAG_MMA;
    um_val row = 0, column = 0;
    if (inst.op < UM_KOP_FRAG_FILL || inst.op > UM_KOP_FRAG_COLUMN ||
        !e->items[(inst.imm & (is_mma ? UINT16_MAX : INT32_MAX)) - 1])
        return um_kernel_append(k, &inst);
    if (is_mma) {
        multiply(r, inst.imm);
        return 0;
    }
    part p = part_of(r, (um_frag)(inst.imm & INT32_MAX));
    switch (inst.op) {
    case UM_KOP_FRAG_FILL:
        um_k_store(k, p.items, each_begin(&p, &row, &column), inst.arg[0]);
        um_k_end(k);
        return 0;
    case UM_KOP_FRAG_LOAD:
    case UM_KOP_FRAG_STORE: move(r, &p, &inst); return 0;
    case UM_KOP_FRAG_COUNT: return p.count;
    case UM_KOP_FRAG_GET: return um_k_load(k, p.items, element_of(&p, inst.arg[0]));
    case UM_KOP_FRAG_SET:
        if (!p.shared_out)
            um_kernel_mistake(k, UM_UNSUPPORTED,
                              "instruction %u, frag_set of %s, a factor: the target has no matrix "
                              "tile of %ux%ux%u",
                              r->at, p.f->name, p.f->m, p.f->n, p.f->k);
        um_k_store(k, p.items, inst.arg[0], inst.arg[1]);
        return 0;
    default: place_of_item(&p, inst.arg[0], &row, &column);
    }
    return inst.op == UM_KOP_FRAG_ROW ? row : column;
}
