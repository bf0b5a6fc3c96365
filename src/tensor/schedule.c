/* tensor/schedule.c: puts the nodes that a read needs in order and runs them as ops. Called by
 * read.c, with the context's lock held. */
#include "tensor/tensor.h"

/* ---- order
 * ------------------------------------------------------------------------------------------ */

static bool needs_run(const um_tensor *x)
{
    return x->kind == UM_NODE_OP || x->kind == UM_NODE_ASSEMBLE;
}

/* Appends everything the root needs, inputs before their users. Walks with the nodes' own link and
 * cursor: no recursion, whatever the depth. */
static um_status order_from(um_context *context, um_tensor *root)
{
    um_tensor *node = um_node_base(root);
    if (!needs_run(node) || node->ordered) return UM_OK;
    node->ordered = true;
    node->cursor = 0;
    node->link = NULL;
    while (node) {
        if (node->cursor < node->in_count) {
            int32_t input = node->cursor++;
            if (um_fuse_is_constant(node, input)) continue;
            um_tensor *next = um_node_base(node->in[input]);
            if (!needs_run(next) || next->ordered) continue;
            next->ordered = true;
            next->cursor = 0;
            next->link = node;
            node = next;
            continue;
        }
        void *order = context->order;
        um_status status = um_vec_reserve(&order, &context->order_capacity, context->order_count,
                                          sizeof *context->order, "tensor");
        context->order = order;
        if (status != UM_OK) {
            for (; node; node = node->link) node->ordered = false;
            return status;
        }
        context->order[context->order_count++] = node;
        node = node->link;
    }
    return UM_OK;
}

/* Forgets the marks of a node that will not be run, and of what it would have absorbed. */
static void unmark(um_tensor *node)
{
    node->ordered = false;
    for (int32_t i = 0; i < node->in_count; i++) {
        if (!node->in[i]->absorbed) continue;
        node->in[i]->absorbed = false;
        unmark(node->in[i]); /* at most as deep as a program is long */
    }
}

/* ---- running
 * ---------------------------------------------------------------------------------------- */

static um_status run(um_context *context, const um_op *op)
{
    um_status status = um_enqueue(context->stream, op);
    if (status == UM_OK) {
        context->sequence++;
        return UM_OK;
    }
    return um_context_waited(context, status);
}

/* Memory of an input, unless its value is lost. */
static um_status input_view(um_context *context, um_tensor *x, um_view *out)
{
    UM_TRY(um_context_check(context, um_node_base(x)->sequence));
    return um_node_memory_view(x, out);
}

/* Whether this node's result may take the buffer over: nobody else can see it. */
static bool owns_buffer(um_tensor *x)
{
    return x->kind == UM_NODE_LEAF && x->buffer->is_own &&
           atomic_load_explicit(&x->refs, memory_order_relaxed) == 1 &&
           atomic_load_explicit(&x->buffer->refs, memory_order_relaxed) == 1;
}

static um_buffer *retain(um_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

/* A buffer for the node's result: a dying input's own, from in[first] on, else a new one. */
static um_status output_buffer(um_context *context, um_tensor *node, int32_t first,
                               int32_t in_count, um_tensor **in, um_buffer **out)
{
    for (int32_t i = first; i < in_count; i++) {
        um_tensor *x = in[i];
        if (owns_buffer(x) && um_dtype_bits(x->dtype) == um_dtype_bits(node->dtype) &&
            x->rank == node->rank && um_node_is_packed(x) &&
            memcmp(x->shape, node->shape, (size_t)x->rank * sizeof x->shape[0]) == 0) {
            *out = retain(x->buffer);
            return UM_OK;
        }
    }
    size_t size_bytes;
    UM_TRY(um_dtype_size(node->dtype, um_tensor_count(node), &size_bytes));
    return um_buffer_make(context, size_bytes, out);
}

typedef struct node_op {
    um_op op; /* views beyond the counts stay unset */
    um_map_program program[UM_PROGRAMS];
    um_tensor *memory[UM_OP_MAX_INPUTS];
    int32_t first; /* from that input on the output may lie where the input does */
} node_op;

static um_status make_op(um_context *context, um_tensor *node, node_op *made)
{
    um_op *op = &made->op;
    op->out_count = 1;
    op->reserved = 0;
    made->first = um_fuse_op(node, op, made->program, made->memory);
    um_node_shape_view(node, &op->out[0]);
    for (int32_t i = 0; i < op->in_count; i++) {
        op->in[i] = um_view_none(node->dtype);
        if (made->memory[i]) UM_TRY(input_view(context, made->memory[i], &op->in[i]));
    }
    return UM_OK;
}

static um_status run_op(um_context *context, um_tensor *node)
{
    node_op made;
    um_buffer *buffer;
    UM_TRY(make_op(context, node, &made));
    bool rides = made.op.id != UM_OP_MAP && um_op_program_bytes(&made.op) > 0;
    if (rides && !um_supports(context->device, &made.op, NULL, 0)) {
        um_tensor *part;
        um_fuse_part(node, &part);
        UM_TRY(run_op(context, part)); /* at most a prologue, behind an epilogue */
        return run_op(context, node);
    }
    UM_TRY(output_buffer(context, node, made.first, made.op.in_count, made.memory, &buffer));
    made.op.out[0].ptr = buffer->ptr;
    um_status status = run(context, &made.op);
    if (status == UM_OK)
        um_node_become_leaf(node, buffer, context->sequence);
    else
        um_buffer_release(buffer);
    return status;
}

/* Copies src into the block of dst that starts there and has src's shape. */
static um_status run_copy(um_context *context, const um_view *dst, const int64_t *start,
                          const um_view *src)
{
    um_op op = {.id = UM_OP_COPY, .in_count = 1, .out_count = 1};
    op.in[0] = *src;
    op.out[0] = *dst;
    int64_t offset = 0;
    for (int32_t i = 0; i < dst->rank; i++) {
        op.out[0].shape[i] = src->shape[i];
        offset += start[i] * dst->stride[i];
    }
    int64_t offset_bits = offset * um_dtype_bits(dst->dtype);
    if (offset_bits % 8 != 0)
        return UM_FAIL(UM_UNSUPPORTED, "tensor: a block of %s must start at an even element",
                       um_dtype_name(dst->dtype));
    op.out[0].ptr += (uint64_t)(offset_bits / 8);
    return run(context, &op);
}

static um_status run_fill(um_context *context, const um_view *dst, double value)
{
    um_op op = {.id = UM_OP_FILL, .out_count = 1};
    op.out[0] = *dst;
    UM_TRY(um_fill_attrs(dst->dtype, value, &op.attrs));
    return run(context, &op);
}

/* Fills the blocks of an ASSEMBLE node's output. */
static um_status run_blocks(um_context *context, um_tensor *node, um_view *dst, bool in_place)
{
    const um_place *place = &node->u.place;
    int64_t start[UM_MAX_RANK] = {0};
    um_view src;
    switch (place->mode) {
    case UM_ASSEMBLE_CONCAT:
        for (int32_t i = 0; i < node->in_count; i++) {
            UM_TRY(input_view(context, node->in[i], &src));
            UM_TRY(run_copy(context, dst, start, &src));
            start[place->axis] += src.shape[place->axis];
        }
        return UM_OK;
    case UM_ASSEMBLE_PAD:
        UM_TRY(run_fill(context, dst, place->value));
        UM_TRY(input_view(context, node->in[0], &src));
        return run_copy(context, dst, place->start, &src);
    case UM_ASSEMBLE_UPDATE:
        UM_TRY(input_view(context, node->in[0], &src));
        if (!in_place) UM_TRY(run_copy(context, dst, start, &src));
        UM_TRY(input_view(context, node->in[1], &src));
        return run_copy(context, dst, place->start, &src);
    }
    return UM_FAIL(UM_INTERNAL, "tensor: assemble mode %d", (int)place->mode);
}

static um_status run_assemble(um_context *context, um_tensor *node)
{
    bool in_place = node->u.place.mode == UM_ASSEMBLE_UPDATE && owns_buffer(node->in[0]);
    um_buffer *buffer;
    if (in_place)
        buffer = retain(node->in[0]->buffer);
    else
        UM_TRY(output_buffer(context, node, 0, 0, NULL, &buffer));
    um_view dst;
    um_node_shape_view(node, &dst);
    dst.ptr = buffer->ptr;
    um_status status = run_blocks(context, node, &dst, in_place);
    if (status == UM_OK)
        um_node_become_leaf(node, buffer, context->sequence);
    else
        um_buffer_release(buffer);
    return status;
}

um_status um_schedule(um_context *context, int32_t count, um_tensor *const *x)
{
    context->order_count = 0;
    um_status status = UM_OK;
    for (int32_t i = 0; i < count && status == UM_OK; i++) status = order_from(context, x[i]);
    for (int64_t i = context->order_count - 1; i >= 0 && status == UM_OK; i--) {
        um_tensor *node = context->order[i];
        if (node->kind == UM_NODE_OP) um_fuse_plan(node);
    }
    /* A node that is absorbed goes with its consumer, and a run one may go with its last user: the
     * order is never looked at again behind `i`. */
    int64_t i = 0;
    for (; i < context->order_count && status == UM_OK; i++) {
        um_tensor *node = context->order[i];
        if (node->absorbed) continue;
        node->ordered = false;
        status = node->kind == UM_NODE_OP ? run_op(context, node) : run_assemble(context, node);
        if (status != UM_OK) unmark(node);
    }
    for (; i < context->order_count; i++)
        if (!context->order[i]->absorbed) unmark(context->order[i]);
    context->order_count = 0;
    return status;
}
