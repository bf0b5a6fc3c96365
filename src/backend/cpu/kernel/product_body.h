/* backend/cpu/kernel/product_body.h: operands of a product as they are read, and results as they
 * are put in their place, epilogue and all, for one REAL type (real.h). Included by matmul.c. */

UM_INLINE bool REAL_FN(operand_is_direct)(const product *p, const matrix *x, int64_t stride,
                                          int64_t n)
{
    return !p->round_to && REAL_FN(line_is_direct)(x->dtype, stride, n);
}

static void REAL_FN(operand_load)(const product *p, const matrix *x, int64_t first, int64_t stride,
                                  int64_t n, REAL *dst)
{
    REAL_FN(line_read)(dst, x->dtype, x->data, first, stride, n);
    if (p->round_to) round_line(p->round_to, REAL_CLASS, dst, n);
}

/* pack_body.h's pack of a piece of x; k: where its elements begin. */
static void REAL_FN(pack_operand)(const product *p, const matrix *x, int64_t k, REAL *dst,
                                  int64_t width, int64_t first, int64_t line_stride,
                                  int64_t elem_stride, int64_t lines, int64_t len, REAL *buffer)
{
    (void)k;
    REAL_FN(pack)
    (dst, width, x->dtype, x->data, first, line_stride, elem_stride, lines, len, buffer);
    if (p->round_to) round_line(p->round_to, REAL_CLASS, dst, width * len);
}

/* scale * (act(x + bias) + residual) */
static void REAL_FN(epilogue)(const product_line *line, REAL *x)
{
    const product *p = line->p;
    REAL buffer[64];
    int64_t n = line->n;
    if (p->bias.data) {
        int64_t first = product_line_at(line, &p->bias, line->at->bias);
        const REAL *bias = REAL_FN(line_load)(p->bias.dtype, p->bias.data, first,
                                              product_line_step(line, &p->bias), n, buffer);
        for (int64_t i = 0; i < n; i++) x[i] += bias[i];
    }
    if (p->activation != UM_OP_NONE) UM_ISA_FN(REAL_FN(um_map))
    (p->activation, x, (const void *const[3]){x}, p->slope, n);
    if (p->residual.data) {
        int64_t first = product_line_at(line, &p->residual, line->at->residual);
        const REAL *residual = REAL_FN(line_load)(p->residual.dtype, p->residual.data, first,
                                                  product_line_step(line, &p->residual), n, buffer);
        for (int64_t i = 0; i < n; i++) x[i] += residual[i];
    }
    for (int64_t i = 0; i < n; i++) x[i] *= (REAL)p->scale;
}

/* The line's elements of out from their sums; at most 64. c and residual may be out itself, so with
 * an epilogue nothing is written before everything is read. */
static void REAL_FN(finish)(const product_line *line, const REAL *acc)
{
    const product *p = line->p;
    int64_t n = line->n, step = product_line_step(line, &p->out);
    int64_t first = product_line_at(line, &p->out, line->at->out);
    REAL value[64], alpha = (REAL)p->alpha, beta = (REAL)p->beta;
    REAL *out = value;
    if (!p->has_epilogue)
        out = REAL_FN(line_open)(p->out.dtype, p->out.data, first, step, n, value);
    if (p->beta != 0) {
        REAL buffer[64];
        const REAL *c =
            REAL_FN(line_load)(p->c.dtype, p->c.data, product_line_at(line, &p->c, line->at->c),
                               product_line_step(line, &p->c), n, buffer);
        for (int64_t i = 0; i < n; i++) out[i] = REAL_FN(fma1)(beta, c[i], alpha * acc[i]);
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = alpha * acc[i];
    }
    if (p->has_epilogue) {
        REAL_FN(epilogue)(line, out);
        um_store(p->out.dtype, p->out.data, first, step, REAL_CLASS, out, n);
    } else {
        REAL_FN(line_store)(p->out.dtype, p->out.data, first, step, n, out);
    }
}
