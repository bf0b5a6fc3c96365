/* backend/cpu/kernel/rope_body.h: rows of rope for one REAL type (real.h). Included by rope.c. */

static double REAL_FN(rope_position)(const um_op *op, int64_t index)
{
    if (op->in_count < 2) return (double)(op->attrs.rope.offset + index);
    const um_view *ids = &op->in[1];
    int64_t id;
    um_load(UM_CLASS_I64, &id, ids->dtype, (const void *)(uintptr_t)ids->ptr,
            index * ids->stride[0], 1, 1);
    return (double)id;
}

static void REAL_FN(rope_row)(const REAL *x, REAL *y, const REAL *cosine, const REAL *sine,
                              int64_t pairs, int64_t size, bool interleaved)
{
    if (interleaved) {
        for (int64_t i = 0; i < pairs; i++) {
            REAL a = x[2 * i], b = x[2 * i + 1];
            y[2 * i] = a * cosine[i] - b * sine[i];
            y[2 * i + 1] = a * sine[i] + b * cosine[i];
        }
    } else {
        for (int64_t i = 0; i < pairs; i++) {
            REAL a = x[i], b = x[i + pairs];
            y[i] = a * cosine[i] - b * sine[i];
            y[i + pairs] = a * sine[i] + b * cosine[i];
        }
    }
    for (int64_t i = 2 * pairs; i < size; i++) y[i] = x[i];
}

/* scratch: cosines and sines of one position, a row of x, a row of y. */
static void REAL_FN(rope_positions)(const rope_job *job, int64_t first, int64_t end, REAL *scratch)
{
    const um_view *in = &job->op->in[0], *out = &job->op->out[0];
    int32_t axis = in->rank - 1;
    bool interleaved = job->op->attrs.rope.layout == UM_ROPE_INTERLEAVED;
    REAL *cosine = scratch, *sine = cosine + job->pairs, *buffer = sine + job->pairs;
    for (int64_t s = first; s < end; s++) {
        double position = REAL_FN(rope_position)(job->op, s);
        for (int64_t i = 0; i < job->pairs; i++) {
            double angle = position * job->frequency[i];
            cosine[i] = (REAL)cos(angle);
            sine[i] = (REAL)sin(angle);
        }
        um_walk_at at;
        UM_ISA_FN(um_walk_seek)(&job->rows, 0, &at);
        for (int64_t row = 0; row < job->rows.total; row++, um_walk_advance(&job->rows, &at, 1)) {
            int64_t x_at = at.element[0] + s * in->stride[axis - 1];
            int64_t y_at = at.element[1] + s * out->stride[axis - 1];
            void *y_data = (void *)(uintptr_t)out->ptr;
            const REAL *x = REAL_FN(line_load)(in->dtype, (const void *)(uintptr_t)in->ptr, x_at,
                                               in->stride[axis], job->size, buffer);
            REAL *y = REAL_FN(line_open)(out->dtype, y_data, y_at, out->stride[axis], job->size,
                                         buffer + job->size);
            REAL_FN(rope_row)(x, y, cosine, sine, job->pairs, job->size, interleaved);
            REAL_FN(line_store)(out->dtype, y_data, y_at, out->stride[axis], job->size, y);
        }
    }
}
