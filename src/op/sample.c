/* op/sample.c: what the sample_ functions of the family files build their test inputs with. Called
 * by them only; the conformance driver reaches samples through um_op_row. */
#include "op/rule.h"

#include <math.h>
#include <stdio.h>

/* value, moved to the nearest finite one that dtype holds. */
static double cut_to(um_dtype dtype, double value)
{
    double cut = value;
    unsigned char stored[8];
    for (;;) {
        if (um_convert(dtype, stored, UM_F64, &value, 1) != UM_OK ||
            um_convert(UM_F64, &cut, dtype, stored, 1) != UM_OK)
            return value;
        if (isfinite(cut)) break;
        value /= 2;
    }
    /* 2^63 and 2^64, the rounded ends of the 64-bit integers, are beyond them. */
    if (!um_dtype_is_float(dtype) && um_dtype_bits(dtype) == 64 && cut > 0) cut = nextafter(cut, 0);
    return cut;
}

static void append(um_sample *sample, um_dtype dtype, const um_dims *dims, um_fill_kind fill,
                   double lo, double hi)
{
    int32_t at = sample->op.in_count++;
    um_view *view = &sample->op.in[at];
    view->dtype = dtype;
    view->rank = dims->rank;
    for (int32_t i = 0; i < dims->rank; i++) view->shape[i] = dims->size[i];
    um_view_pack(view);
    sample->fill[at] = fill;
    sample->lo[at] = cut_to(dtype, lo);
    sample->hi[at] = cut_to(dtype, hi);
}

void um_sample_input(um_sample *sample, um_dtype dtype, const um_dims *dims, double lo, double hi)
{
    if (dtype == UM_BOOL)
        append(sample, dtype, dims, UM_FILL_BOOL, 0, 1);
    else
        append(sample, dtype, dims, UM_FILL_VALUES, lo, hi);
}

void um_sample_indices(um_sample *sample, um_dtype dtype, const um_dims *dims, double lo, double hi)
{
    append(sample, dtype, dims, UM_FILL_INDICES, lo, hi);
}

void um_sample_none(um_sample *sample, um_dtype dtype)
{
    static const um_dims none = UM_DIMS(0);
    append(sample, dtype, &none, UM_FILL_BOOL, 0, 1);
}

double um_sample_large(um_dtype dtype)
{
    return cut_to(dtype, um_dtype_class(dtype) == UM_CLASS_F64 ? 1e200 : 1e25);
}

void um_sample_label(um_sample *sample, const char *format, ...)
{
    size_t at = strlen(sample->label);
    va_list args;
    va_start(args, format);
    vsnprintf(sample->label + at, sizeof sample->label - at, format, args);
    va_end(args);
}

void um_sample_label_input(um_sample *sample)
{
    char text[UM_VIEW_TEXT];
    um_sample_label(sample, "%s", um_view_text(&sample->op.in[0], text, sizeof text));
}

bool um_sample_finish(um_sample *sample, um_dtype out_dtype)
{
    um_op *op = &sample->op;
    if (op->out_count == 0) op->out_count = um_op_get_row(op->id)->out_count;
    if (out_dtype != UM_DTYPE_NONE) op->out[0].dtype = out_dtype;
    /* One that breaks its own rule is left without an output, which um_op_check refuses. */
    if (um_op_infer(op) != UM_OK) op->out[0] = (um_view){0};
    return true;
}
