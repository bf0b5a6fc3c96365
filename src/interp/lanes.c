/* interp/lanes.c: the instructions that each invocation does on its own and without memory:
 * arithmetic, functions, conversions (all by ir/lanes.c), lanes. */
#include "interp/interp.h"

/* ---- lanes, choice ----------------------------------------------------------------------------
 */

/* The bytes of a value's lanes, one after the other, are those of the result's. */
static void bitcast(const um_interp *it, const um_kinst *inst)
{
    um_ktype from = um_val_type(it->k, inst->arg[0]), to = inst->type;
    size_t from_size = um_element_bytes(from.dtype), to_size = um_element_bytes(to.dtype);
    for (int32_t i = it->first; i < it->last; i++) {
        char bytes[32];
        for (int32_t l = 0; l < from.lanes; l++)
            memcpy(bytes + (size_t)l * from_size,
                   um_interp_lane(it, inst->arg[0], l) + (size_t)i * from_size, from_size);
        for (int32_t l = 0; l < to.lanes; l++)
            memcpy(um_interp_lane(it, it->pc, l) + (size_t)i * to_size, bytes + (size_t)l * to_size,
                   to_size);
    }
}

static void copy_lane(const um_interp *it, int32_t to_lane, um_val from, int32_t from_lane)
{
    size_t size = um_element_bytes(um_val_type(it->k, from).dtype), at = (size_t)it->first * size;
    memcpy(um_interp_lane(it, it->pc, to_lane) + at, um_interp_lane(it, from, from_lane) + at,
           (size_t)(it->last - it->first) * size);
}

static inline void select_size(char *d, const uint8_t *choice, const char *b, const char *c,
                               int32_t first, int32_t last, size_t size)
{
    for (int32_t i = first; i < last; i++)
        memcpy(d + (size_t)i * size, (choice[i] ? b : c) + (size_t)i * size, size);
}

static void select_lanes(const um_interp *it, const um_kinst *inst)
{
    bool by_lane = um_val_type(it->k, inst->arg[0]).lanes > 1;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        const uint8_t *choice = (uint8_t *)um_interp_lane(it, inst->arg[0], by_lane ? l : 0);
        const char *b = um_interp_lane(it, inst->arg[1], l);
        const char *c = um_interp_lane(it, inst->arg[2], l);
        char *d = um_interp_lane(it, it->pc, l);
        switch (um_element_bytes(inst->type.dtype)) {
        case 1: select_size(d, choice, b, c, it->first, it->last, 1); break;
        case 2: select_size(d, choice, b, c, it->first, it->last, 2); break;
        case 4: select_size(d, choice, b, c, it->first, it->last, 4); break;
        case 8: select_size(d, choice, b, c, it->first, it->last, 8); break;
        }
    }
}

/* ---- an instruction ----------------------------------------------------------------------------
 */

static int64_t signed_at(um_dtype dtype, const char *items, int32_t i)
{
    int64_t value;
    um_load(UM_CLASS_I64, &value, dtype, items, i, 1, 1);
    return value;
}

/* Of DIV and REM of integers. */
static um_status check_division(um_interp *it, const um_kinst *inst)
{
    um_dtype dtype = inst->type.dtype;
    if (um_dtype_is_float(dtype)) return UM_OK;
    bool is_signed = um_dtype_get_kind(dtype) == UM_KIND_INT;
    int64_t lowest = dtype == UM_I32 ? INT32_MIN : INT64_MIN;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        const char *a = um_interp_lane(it, inst->arg[0], l);
        const char *b = um_interp_lane(it, inst->arg[1], l);
        for (int32_t i = it->first; i < it->last; i++) {
            if (!it->mask[i]) continue;
            int64_t divisor = signed_at(dtype, b, i);
            if (divisor == 0) return um_interp_fail(it, UM_INVALID_ARGUMENT, i, "a division by 0");
            if (is_signed && divisor == -1 && signed_at(dtype, a, i) == lowest)
                return um_interp_fail(it, UM_INVALID_ARGUMENT, i,
                                      "a division of the lowest value by -1");
        }
    }
    return UM_OK;
}

/* An operand's lane from it->first on, or NULL. */
static const char *operand(const um_interp *it, um_val v, int32_t lane)
{
    if (!v) return NULL;
    size_t size = um_element_bytes(um_val_type(it->k, v).dtype);
    return um_interp_lane(it, v, lane) + (size_t)it->first * size;
}

static void eval_each_lane(const um_interp *it, const um_kinst *inst)
{
    int32_t arity = um_kop_rows[inst->op].arity, n = it->last - it->first;
    um_dtype from = um_val_type(it->k, inst->arg[0]).dtype;
    for (int32_t l = 0; l < inst->type.lanes; l++) {
        char *d =
            um_interp_lane(it, it->pc, l) + (size_t)it->first * um_element_bytes(inst->type.dtype);
        const char *a = operand(it, inst->arg[0], l);
        if (inst->op == UM_KOP_CONVERT)
            um_lanes_convert(inst->type.dtype, d, from, a, n);
        else
            um_lanes_eval(inst->op, from, d, a, operand(it, arity > 1 ? inst->arg[1] : 0, l),
                          operand(it, arity > 2 ? inst->arg[2] : 0, l), n);
    }
}

um_status um_interp_lanes(um_interp *it)
{
    const um_kinst *inst = &it->k->inst[it->pc];
    switch (inst->op) {
    case UM_KOP_SELECT: select_lanes(it, inst); return UM_OK;
    case UM_KOP_BITCAST: bitcast(it, inst); return UM_OK;
    case UM_KOP_EXTRACT: copy_lane(it, 0, inst->arg[0], (int32_t)inst->imm); return UM_OK;
    case UM_KOP_VECTOR:
        for (int32_t l = 0; l < inst->type.lanes; l++) copy_lane(it, l, inst->arg[l], 0);
        return UM_OK;
    case UM_KOP_SPLAT:
        for (int32_t l = 0; l < inst->type.lanes; l++) copy_lane(it, l, inst->arg[0], 0);
        return UM_OK;
    case UM_KOP_DIV:
    case UM_KOP_REM: UM_TRY(check_division(it, inst)); break;
    default: break;
    }
    eval_each_lane(it, inst);
    return UM_OK;
}
