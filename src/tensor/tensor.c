/* tensor/tensor.c: references, error tensors, making nodes. Called by every other file of the
 * tensor face. */
#include "tensor/tensor.h"

/* What an op returns when there is no memory even for an error tensor. Not counted, not freed. */
static um_tensor out_of_memory = {.kind = UM_NODE_ERROR};

static const um_error out_of_memory_error = {
    .code = UM_OUT_OF_MEMORY, .message = "tensor: out of memory for a node of the graph"};

/* ---- references ------------------------------------------------------------------------------ */

um_tensor *um_ref(um_tensor *x)
{
    if (x && x != &out_of_memory) atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
    return x;
}

/* Drops one reference; a node that has none left goes onto the list of the dead. */
static void drop(um_tensor *x, um_tensor **dead)
{
    if (!x || x == &out_of_memory) return;
    /* acq_rel: the thread that frees sees what the others wrote */
    if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) != 1) return;
    x->link = *dead;
    *dead = x;
}

/* A list instead of recursion: a chain may be millions of nodes long. */
static void free_dead(um_tensor *dead)
{
    while (dead) {
        um_tensor *x = dead;
        dead = x->link;
        for (int32_t i = 0; i < x->in_count; i++) drop(x->in[i], &dead);
        um_buffer_release(x->buffer);
        if (x->error && atomic_fetch_sub_explicit(&x->error->refs, 1, memory_order_acq_rel) == 1)
            um_mem_free(x->error);
        um_device *device = x->context ? x->context->device : NULL;
        um_mem_free(x);
        um_device_release(device);
    }
}

void um_release(um_tensor *x)
{
    um_tensor *dead = NULL;
    drop(x, &dead);
    free_dead(dead);
}

static void release_all(int32_t count, um_tensor *const *x)
{
    for (int32_t i = 0; i < count; i++) um_release(x[i]);
}

/* ---- looking --------------------------------------------------------------------------------- */

um_dtype um_tensor_dtype(const um_tensor *x) { return x ? x->dtype : UM_DTYPE_NONE; }
int32_t um_tensor_rank(const um_tensor *x) { return x ? x->rank : 0; }
const int64_t *um_tensor_shape(const um_tensor *x) { return x ? x->shape : out_of_memory.shape; }
um_device *um_tensor_device(const um_tensor *x)
{
    return x && x->context ? x->context->device : NULL;
}

int64_t um_tensor_count(const um_tensor *x)
{
    if (!x || x->kind == UM_NODE_ERROR) return 0;
    int64_t count = 1;
    for (int32_t i = 0; i < x->rank; i++) count *= x->shape[i];
    return count;
}

um_status um_tensor_status(const um_tensor *x)
{
    if (!x) return UM_FAIL(UM_INVALID_ARGUMENT, "tensor: got NULL, wanted a tensor");
    if (x->kind != UM_NODE_ERROR) return UM_OK;
    return um_fail_again(x->error ? &x->error->error : &out_of_memory_error);
}

bool um_node_is_packed(const um_tensor *x)
{
    int64_t next = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        if (x->shape[i] == 0) return true;
        if (x->shape[i] != 1 && x->stride[i] != next) return false;
        next *= x->shape[i];
    }
    return true;
}

void um_node_shape_view(const um_tensor *x, um_view *out)
{
    out->ptr = 0;
    out->dtype = x->dtype;
    out->rank = x->rank;
    for (int32_t i = 0; i < x->rank; i++) {
        out->shape[i] = x->shape[i];
        out->stride[i] = x->stride[i];
    }
}

um_status um_node_memory_view(um_tensor *x, um_view *out)
{
    const um_tensor *base = um_node_base(x);
    um_node_shape_view(x, out);
    int64_t offset_bits = x->offset * um_dtype_bits(x->dtype);
    if (offset_bits % 8 != 0)
        return UM_FAIL(UM_INVALID_ARGUMENT,
                       "tensor: a view of %s must start at an even element, got element %lld",
                       um_dtype_name(x->dtype), (long long)x->offset);
    out->ptr = base->buffer->ptr + (uint64_t)(offset_bits / 8);
    return UM_OK;
}

/* ---- making nodes ---------------------------------------------------------------------------- */

um_tensor *um_node_make(um_context *context, um_node_kind kind, um_dtype dtype, int32_t rank,
                        const int64_t *shape, int32_t in_count, um_tensor *const *in)
{
    size_t size_bytes = sizeof(um_tensor) + (size_t)in_count * sizeof(um_tensor *);
    um_tensor *x = um_mem_alloc(size_bytes);
    if (!x) {
        release_all(in_count, in);
        (void)um_fail_again(&out_of_memory_error);
        return &out_of_memory;
    }
    memset(x, 0, sizeof *x);
    atomic_init(&x->refs, 1);
    x->kind = kind;
    x->dtype = dtype;
    x->rank = rank;
    x->context = context;
    um_device_retain(context->device);
    x->in_count = in_count;
    for (int32_t i = 0; i < in_count; i++) x->in[i] = in[i];
    int64_t next = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        x->shape[i] = shape[i];
        x->stride[i] = next;
        next *= UM_MAX(shape[i], 1);
    }
    return x;
}

um_tensor *um_node_fail(int32_t in_count, um_tensor *const *in)
{
    um_error error = *um_last_error(); /* releasing may fail something else first */
    release_all(in_count, in);
    um_tensor *x = NULL;
    um_error_box *box = NULL;
    if (error.code != UM_OUT_OF_MEMORY) {
        x = um_mem_zalloc(sizeof *x);
        box = um_mem_alloc(sizeof *box);
    }
    if (!x || !box) {
        um_mem_free(x);
        um_mem_free(box);
        (void)um_fail_again(error.code == UM_OUT_OF_MEMORY ? &error : &out_of_memory_error);
        return &out_of_memory;
    }
    atomic_init(&box->refs, 1);
    box->error = error;
    atomic_init(&x->refs, 1);
    x->kind = UM_NODE_ERROR;
    x->error = box;
    return x;
}

um_tensor *um_node_refuse(const char *who, int32_t in_count, um_tensor *const *in)
{
    for (int32_t i = 0; i < in_count; i++) {
        if (!in[i]) {
            (void)UM_FAIL(UM_INVALID_ARGUMENT, "%s: argument %d is NULL, wanted a tensor", who, i);
            return um_node_fail(in_count, in);
        }
        if (in[i]->kind == UM_NODE_ERROR) {
            um_tensor *error = um_ref(in[i]);
            release_all(in_count, in);
            return error;
        }
    }
    for (int32_t i = 1; i < in_count; i++) {
        if (in[i]->context == in[0]->context) continue;
        (void)UM_FAIL(UM_INVALID_ARGUMENT,
                      "%s: operands are on different devices: argument 0 on %s, argument %d on %s",
                      who, um_device_name(in[0]->context->device), i,
                      um_device_name(in[i]->context->device));
        return um_node_fail(in_count, in);
    }
    return NULL;
}

um_tensor *um_node_op(um_op_id id, const um_attrs *attrs, um_dtype result, int32_t in_count,
                      um_tensor *const *in)
{
    um_tensor *error = um_node_refuse(um_op_name(id), in_count, in);
    if (error) return error;
    um_op op; /* what infer does not read stays unset: the struct is 1.5 KiB */
    op.id = id;
    op.in_count = in_count;
    op.out_count = 1;
    op.reserved = 0;
    memset(&op.attrs, 0, sizeof op.attrs);
    if (attrs) op.attrs = *attrs;
    for (int32_t i = 0; i < in_count; i++) um_node_shape_view(in[i], &op.in[i]);
    memset(&op.out[0], 0, sizeof op.out[0]);
    op.out[0].dtype = result;
    if (um_op_infer(&op) != UM_OK) return um_node_fail(in_count, in);
    um_tensor *x = um_node_make(in[0]->context, UM_NODE_OP, op.out[0].dtype, op.out[0].rank,
                                op.out[0].shape, in_count, in);
    if (x->kind == UM_NODE_ERROR) return x;
    x->op = id;
    x->u.attrs = op.attrs;
    return x;
}

um_tensor *um_node_view(um_tensor *x, int32_t rank, const int64_t *shape, const int64_t *stride,
                        int64_t offset)
{
    um_tensor *base = um_ref(um_node_base(x));
    um_tensor *view = um_node_make(base->context, UM_NODE_VIEW, x->dtype, rank, shape, 1, &base);
    if (view->kind != UM_NODE_ERROR) {
        for (int32_t i = 0; i < rank; i++) view->stride[i] = stride[i];
        view->offset = offset;
    }
    um_release(x);
    return view;
}

void um_node_become_leaf(um_tensor *node, um_buffer *buffer, uint64_t sequence)
{
    um_tensor *dead = NULL;
    for (int32_t i = 0; i < node->in_count; i++) drop(node->in[i], &dead);
    node->in_count = 0;
    node->kind = UM_NODE_LEAF;
    node->buffer = buffer;
    node->sequence = sequence;
    free_dead(dead);
}
