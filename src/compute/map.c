/* compute/map.c: the elementwise ops of umbel/compute.h. Views broadcast by strides of 0. Numbers
 * become constants of a fused program, so no device memory holds them. */
#include "compute/compute.h"

/* ---- numbers ------------------------------------------------------------------------------------
 */

typedef struct map_call {
    um_op op; /* as if every number were a view */
    const um_operand *operand;
    int32_t numbers;
} map_call;

static uint8_t append(um_map_program *program, const um_op *op, um_op_id id, uint8_t a, uint8_t b,
                      double value)
{
    um_map_inst *inst = &program->inst[program->inst_count++];
    *inst = (um_map_inst){.op = (uint16_t)id, .src = {a, b}, .value = value};
    return (uint8_t)(op->in_count + program->inst_count - 1);
}

/* A double does not hold every 64-bit integer: larger ones are made of two halves. */
static uint8_t append_number(um_map_program *program, const um_op *op, um_number number)
{
    const int64_t exact = (int64_t)1 << 53;
    if (um_dtype_is_float(program->dtype)) return append(program, op, UM_OP_FILL, 0, 0, number.f);
    bool is_small = number.i >= -exact && number.i <= exact;
    if (is_small && (number.i >= 0 || program->dtype != UM_U64))
        return append(program, op, UM_OP_FILL, 0, 0, (double)number.i);
    double high =
        program->dtype == UM_U64 ? (double)((uint64_t)number.i >> 32) : (double)(number.i >> 32);
    uint8_t top = append(program, op, UM_OP_FILL, 0, 0, high);
    uint8_t scale = append(program, op, UM_OP_FILL, 0, 0, 0x1p32);
    uint8_t product = append(program, op, UM_OP_MUL, top, scale, 0);
    uint8_t low = append(program, op, UM_OP_FILL, 0, 0, (double)(uint32_t)number.i);
    return append(program, op, UM_OP_ADD, product, low, 0);
}

static um_status check_number(const um_op *op, um_dtype dtype, um_number number)
{
    int64_t back = 0;
    unsigned char stored[8];
    if (um_dtype_is_float(dtype) || dtype == UM_U64) return UM_OK;
    UM_TRY(um_convert(dtype, stored, UM_I64, &number.i, 1));
    UM_TRY(um_convert(UM_I64, &back, dtype, stored, 1));
    if (back == number.i) return UM_OK;
    return UM_FAIL(UM_INVALID_ARGUMENT, "%s: %s does not hold the number %lld", um_op_name(op->id),
                   um_dtype_name(dtype), (long long)number.i);
}

/* The op over views and numbers as a program over the views. */
static um_status run_program(um_stream *stream, const map_call *call)
{
    um_map_program program = {.dtype = call->op.in[um_op_main_input(call->op.id)].dtype};
    um_op op = {.id = UM_OP_MAP, .out_count = 1, .out = {call->op.out[0]}};
    um_map_inst last = {.op = (uint16_t)call->op.id};
    int32_t count = UM_MIN(call->op.in_count, (int32_t)UM_COUNT_OF(last.src));
    for (int32_t i = 0; i < count; i++)
        if (call->operand[i].view) {
            last.src[i] = (uint8_t)op.in_count;
            op.in[op.in_count++] = call->op.in[i];
        }
    for (int32_t i = 0; i < count; i++)
        if (!call->operand[i].view) {
            UM_TRY(check_number(&call->op, call->op.in[i].dtype, call->operand[i].number));
            last.src[i] = append_number(&program, &op, call->operand[i].number);
        }
    program.inst[program.inst_count++] = last;
    op.attrs.program = &program;
    return um_enqueue(stream, &op);
}

/* ---- calls --------------------------------------------------------------------------------------
 */

/* What a number is converted to: the dtype of the first view that is no condition, else y's. */
static um_dtype number_dtype(const um_op_row *row, const um_operand *operands, const um_view *y)
{
    for (int32_t i = um_op_main_input(row->id); i < row->in_max; i++)
        if (operands[i].view) return operands[i].view->dtype;
    return y->dtype;
}

/* Inputs as views of y's shape; a number's lies nowhere. */
static um_status take_operands(map_call *call, const um_op_row *row, const um_view *y)
{
    um_dtype dtype = number_dtype(row, call->operand, y);
    for (int32_t i = 0; i < row->in_max; i++) {
        um_view *in = &call->op.in[call->op.in_count++], number = {.dtype = dtype};
        const um_view *view = call->operand[i].view;
        if (!view && i < um_op_main_input(row->id)) number.dtype = UM_BOOL;
        call->numbers += !view;
        UM_TRY(um_view_broadcast(view ? view : &number, y->rank, y->shape, in));
    }
    if (call->numbers == 0) return UM_OK;
    /* A program takes any dtypes: what the plain op would refuse is refused here. */
    um_op plain = call->op;
    UM_TRY(um_op_infer(&plain));
    if (plain.out[0].dtype != y->dtype)
        return UM_FAIL(UM_INVALID_ARGUMENT, "%s: y is %s, wants %s", row->name,
                       um_dtype_name(y->dtype), um_dtype_name(plain.out[0].dtype));
    return UM_OK;
}

static um_status call_map(um_stream *stream, um_op_id id, double a, int32_t count,
                          const um_operand *operands, const um_view *y)
{
    const um_op_row *row = um_op_get_row(id);
    if (!row || row->family != UM_FAMILY_MAP || row->id == UM_OP_MAP || row->in_max != count)
        return UM_FAIL(UM_INVALID_ARGUMENT, "map_view: %s is no elementwise op of %d inputs",
                       um_op_name(id), (int)count);
    if (!y) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: y is NULL", row->name);
    map_call call = {.op = {.id = id, .out_count = 1, .out = {*y}}, .operand = operands};
    call.op.attrs.map.a = a;
    UM_TRY(take_operands(&call, row, y));
    if (call.numbers > 0) return run_program(stream, &call);
    return um_enqueue(stream, &call.op);
}

/* Views alone: NULL is no number then. */
static um_status call_views(um_stream *stream, um_op_id id, double a, int32_t count,
                            const um_view *const *views, const um_view *y)
{
    um_operand operands[3] = {{0}};
    for (int32_t i = 0; i < count; i++) {
        if (!views[i])
            return UM_FAIL(UM_INVALID_ARGUMENT, "%s: input %d is NULL", um_op_name(id), (int)i);
        operands[i].view = views[i];
    }
    return call_map(stream, id, a, count, operands, y);
}

um_status um_unary_view(um_stream *stream, um_op_id op, double a, const um_view *x,
                        const um_view *y)
{
    return call_views(stream, op, a, 1, (const um_view *[]){x}, y);
}

um_status um_binary_view(um_stream *stream, um_op_id op, const um_view *a, const um_view *b,
                         const um_view *y)
{
    return call_views(stream, op, 0, 2, (const um_view *[]){a, b}, y);
}

um_status um_ternary_view(um_stream *stream, um_op_id op, const um_view *a, const um_view *b,
                          const um_view *c, const um_view *y)
{
    return call_views(stream, op, 0, 3, (const um_view *[]){a, b, c}, y);
}

um_status um_map_view(um_stream *stream, um_op_id op, int32_t count, const um_operand *operands,
                      const um_view *y)
{
    if (!operands) return UM_FAIL(UM_INVALID_ARGUMENT, "%s: operands is NULL", um_op_name(op));
    return call_map(stream, op, 0, count, operands, y);
}
