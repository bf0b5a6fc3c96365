/* check/case.c: runs one case: lays the inputs out, runs the op on the device, reads everything
 * back and compares each element, and each byte beside the elements.
 */
#include "check/inside.h"

#include <stdio.h>
#include <stdlib.h>

enum { GUARD_BYTES = 64, INPUT_FILL = 0xff, OUTPUT_FILL = 0xa5 };

/* One input or output: the view, its block on the host and on the device. */
typedef struct operand {
    um_view *view;
    um_layout layout;
    int64_t *slot;  /* of each element */
    um_image image; /* what was written to the device */
    um_ptr block;
    um_array array; /* inputs: the values in row-major order */
    um_image got;   /* outputs: the block, read back */
    um_expect *expect;
} operand;

typedef struct bench {
    const um_case *it;
    um_device *device;
    um_op op;
    um_rng rng;
    operand in[UM_OP_MAX_INPUTS], out[UM_OP_MAX_OUTPUTS];
    int32_t in_place; /* the input that lies where output 0 does, or -1 */
    char *detail;
    size_t detail_size;
} bench;

const char *um_variant_name(um_variant variant)
{
    static const char *const names[] = {"packed",   "transposed", "sliced", "strided_out",
                                        "negative", "broadcast",  "mixed",  "in_place"};
    return names[variant];
}

static const struct {
    um_layout_kind in, out;
} variant_layouts[] = {
    [UM_VARIANT_PACKED] = {UM_LAYOUT_PACKED, UM_LAYOUT_PACKED},
    [UM_VARIANT_TRANSPOSED] = {UM_LAYOUT_TRANSPOSED, UM_LAYOUT_TRANSPOSED},
    [UM_VARIANT_SLICED] = {UM_LAYOUT_SLICED, UM_LAYOUT_PACKED},
    [UM_VARIANT_STRIDED_OUT] = {UM_LAYOUT_PACKED, UM_LAYOUT_SLICED},
    [UM_VARIANT_NEGATIVE] = {UM_LAYOUT_NEGATIVE, UM_LAYOUT_NEGATIVE},
    [UM_VARIANT_BROADCAST] = {UM_LAYOUT_BROADCAST, UM_LAYOUT_PACKED},
    [UM_VARIANT_MIXED] = {UM_LAYOUT_MIXED_IN, UM_LAYOUT_MIXED_OUT},
    [UM_VARIANT_IN_PLACE] = {UM_LAYOUT_PACKED, UM_LAYOUT_PACKED},
};

/* ---- in place -------------------------------------------------------------------------------- */

static bool fits_output(const um_op *op, int32_t k)
{
    const um_view *in = &op->in[k], *out = &op->out[0];
    if (!um_op_updates_input(op, k) || in->rank != out->rank || um_view_count(out) == 0)
        return false;
    if (um_oracle_bits(in->dtype) != um_oracle_bits(out->dtype)) return false;
    return memcmp(in->shape, out->shape, sizeof in->shape[0] * (size_t)in->rank) == 0;
}

int32_t um_case_in_place_input(const um_op *op)
{
    for (int32_t k = 0; k < op->in_count; k++)
        if (fits_output(op, k)) return k;
    return -1;
}

static int32_t pick_in_place(bench *b)
{
    int32_t fits[UM_OP_MAX_INPUTS], count = 0;
    for (int32_t k = 0; k < b->op.in_count; k++)
        if (fits_output(&b->op, k)) fits[count++] = k;
    return count ? fits[um_rng_below(&b->rng, count)] : -1;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void lay_out(bench *b, operand *x, um_view *view, um_layout_kind kind)
{
    x->view = view;
    um_layout_make(kind, view, &b->rng, &x->layout);
    memcpy(view->stride, x->layout.stride, sizeof view->stride);
}

/* Decides where everything lies. */
static void lay_out_all(bench *b)
{
    b->in_place = b->it->variant == UM_VARIANT_IN_PLACE ? pick_in_place(b) : -1;
    for (int32_t k = 0; k < b->op.out_count; k++)
        lay_out(b, &b->out[k], &b->op.out[k], variant_layouts[b->it->variant].out);
    for (int32_t k = 0; k < b->op.in_count; k++)
        lay_out(b, &b->in[k], &b->op.in[k], variant_layouts[b->it->variant].in);
}

static um_status make_operand(operand *x, size_t guard_bytes, uint8_t fill)
{
    um_dtype dtype = x->view->dtype;
    int64_t count = um_view_count(x->view);
    x->slot = malloc(((size_t)count + 1) * sizeof *x->slot);
    if (!x->slot) return UM_OUT_OF_MEMORY;
    um_layout_slots(&x->layout, x->view, x->slot);
    bool good = um_image_make(&x->image, um_oracle_bits(dtype), x->layout.slots, guard_bytes, fill);
    return good ? UM_OK : UM_OUT_OF_MEMORY;
}

/* Fills the elements of the view, each slot of `image` once, and notes their values in order. */
static um_status fill_input(bench *b, int32_t k, um_image *image)
{
    operand *x = &b->in[k];
    um_array *array = &x->array;
    array->dtype = x->view->dtype;
    array->rank = x->view->rank;
    memcpy(array->shape, x->view->shape, sizeof array->shape);
    array->count = um_view_count(x->view);
    array->item = malloc(((size_t)array->count + 1) * sizeof *array->item);
    bool *filled = calloc((size_t)x->layout.slots + 1, sizeof *filled);
    for (int64_t i = 0; array->item && filled && i < array->count; i++) {
        int64_t slot = x->slot[i];
        if (!filled[slot]) {
            um_num value = um_value_make(b->it->sample, k, b->it->round, &b->rng);
            if (b->it->flushes)
                value = um_value_flushed(b->it->sample, array->dtype, b->it->round, value);
            um_image_set(image, slot, um_oracle_encode(array->dtype, value));
            filled[slot] = true;
        }
        array->item[i] = um_oracle_decode(array->dtype, um_image_get(image, slot));
    }
    bool good = array->item && filled;
    free(filled);
    return good ? UM_OK : UM_OUT_OF_MEMORY;
}

static um_status make_output(operand *x)
{
    um_status status = make_operand(x, GUARD_BYTES, OUTPUT_FILL);
    x->expect = calloc((size_t)um_view_count(x->view) + 1, sizeof *x->expect);
    bool good = x->expect && status == UM_OK &&
                um_image_make(&x->got, x->image.bits, x->layout.slots, GUARD_BYTES, 0);
    return good ? UM_OK : UM_OUT_OF_MEMORY;
}

static um_status make_operands(bench *b)
{
    um_status status = UM_OK;
    for (int32_t k = 0; status == UM_OK && k < b->op.out_count; k++)
        status = make_output(&b->out[k]);
    for (int32_t k = 0; status == UM_OK && k < b->op.in_count; k++) {
        status = make_operand(&b->in[k], 0, INPUT_FILL);
        if (status == UM_OK)
            status = fill_input(b, k, k == b->in_place ? &b->out[0].image : &b->in[k].image);
    }
    return status;
}

static void free_operand(operand *x)
{
    um_image_free(&x->image);
    um_image_free(&x->got);
    free(x->slot);
    free(x->array.item);
    free(x->expect);
}

static void free_operands(bench *b)
{
    for (int32_t k = 0; k < b->op.in_count; k++) free_operand(&b->in[k]);
    for (int32_t k = 0; k < b->op.out_count; k++) free_operand(&b->out[k]);
}

/* Points the view into its block. */
static void place_view(const operand *x, const operand *block)
{
    x->view->ptr = block->block + block->image.guard_bytes +
                   (uint64_t)(block->layout.first * block->image.bits / 8);
}

static void place_views(bench *b)
{
    for (int32_t k = 0; k < b->op.out_count; k++) place_view(&b->out[k], &b->out[k]);
    for (int32_t k = 0; k < b->op.in_count; k++)
        place_view(&b->in[k], k == b->in_place ? &b->out[0] : &b->in[k]);
}

/* ---- running --------------------------------------------------------------------------------- */

static um_status upload(bench *b, operand *x)
{
    um_status status = um_alloc(b->device, x->image.size_bytes, &x->block);
    if (status != UM_OK) return status;
    return um_write(b->it->stream, x->block, x->image.bytes, x->image.size_bytes);
}

static um_status upload_all(bench *b)
{
    um_status status = UM_OK;
    for (int32_t k = 0; status == UM_OK && k < b->op.out_count; k++) status = upload(b, &b->out[k]);
    for (int32_t k = 0; status == UM_OK && k < b->op.in_count; k++)
        if (k != b->in_place) status = upload(b, &b->in[k]);
    place_views(b);
    return status;
}

/* Whether an index of the op is outside its table, which makes the stream fail. */
static bool has_bad_index(const bench *b)
{
    um_array in[UM_OP_MAX_INPUTS];
    for (int32_t k = 0; k < b->op.in_count; k++) in[k] = b->in[k].array;
    return um_view_count(b->out[0].view) > 0 && um_oracle_has_bad_index(&b->op, in);
}

static um_status run_op(bench *b)
{
    um_status status = um_enqueue(b->it->stream, &b->op);
    if (status != UM_OK) return status;
    status = um_synchronize(b->it->stream);
    if (b->it->options->after_run)
        b->it->options->after_run(b->it->options->user, b->it->stream, &b->op);
    if (!has_bad_index(b)) return status;
    if (um_stream_clear_error(b->it->stream) == UM_OUT_OF_RANGE && status == UM_OUT_OF_RANGE)
        return UM_OK;
    snprintf(b->detail, b->detail_size, "a bad index gave %s, wanted OUT_OF_RANGE",
             um_status_name(status));
    return UM_INTERNAL;
}

static um_status read_back(bench *b)
{
    um_status status = UM_OK;
    for (int32_t k = 0; status == UM_OK && k < b->op.out_count; k++) {
        const operand *x = &b->out[k];
        status = um_read(b->it->stream, x->got.bytes, x->block, x->got.size_bytes);
    }
    return status;
}

static um_status free_blocks(bench *b)
{
    um_status status = UM_OK;
    for (int32_t k = 0; k < b->op.out_count; k++) {
        um_status one = um_free(b->device, b->out[k].block);
        if (status == UM_OK) status = one;
    }
    for (int32_t k = 0; k < b->op.in_count; k++) {
        um_status one = um_free(b->device, b->in[k].block);
        if (status == UM_OK) status = one;
    }
    return status;
}

/* ---- judging --------------------------------------------------------------------------------- */

static uint64_t got_bits(const operand *x, int64_t index)
{
    return um_image_get(&x->got, x->slot[index]);
}

/* "[2,3]" of a row-major index. */
static void index_text(const um_view *view, int64_t index, char *text, size_t size)
{
    int64_t place[UM_MAX_RANK];
    size_t used = 0;
    for (int32_t i = view->rank - 1; i >= 0; i--) {
        place[i] = index % view->shape[i];
        index /= view->shape[i];
    }
    text[0] = 0;
    for (int32_t i = 0; i < view->rank && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "", (long long)place[i]);
}

/* The inputs' values at an element of an elementwise op. */
static void inputs_text(const bench *b, int64_t index, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    if (b->it->row->family != UM_FAMILY_MAP && b->op.id != UM_OP_COPY) return;
    for (int32_t k = 0; k < b->op.in_count && used < size; k++) {
        char value[48];
        const um_array *x = &b->in[k].array;
        if (x->count != um_view_count(b->out[0].view)) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : " of ",
                                 um_num_text(x->dtype, x->item[index], value, sizeof value));
    }
}

static void describe_element(const bench *b, int32_t k, int64_t index, int64_t wrong)
{
    char got[48], want[96], place[96], of[160], out[256], which[24] = "";
    const operand *x = &b->out[k];
    um_dtype dtype = x->view->dtype;
    index_text(x->view, index, place, sizeof place);
    inputs_text(b, index, of, sizeof of);
    if (k > 0) snprintf(which, sizeof which, "output %d ", (int)k);
    um_num value = um_oracle_decode(dtype, got_bits(x, index));
    snprintf(b->detail, b->detail_size,
             "%s -> %s%s: element [%s]%s: got %s, wanted %s; %lld of %lld elements are wrong",
             um_op_name(b->op.id), which, um_view_text(x->view, out, sizeof out), place, of,
             um_num_text(dtype, value, got, sizeof got),
             um_expect_text(&x->expect[index], dtype, want, sizeof want), (long long)wrong,
             (long long)um_view_count(x->view));
}

static bool judge_elements(bench *b, int32_t k)
{
    int64_t wrong = 0, first = 0;
    const operand *x = &b->out[k];
    for (int64_t i = um_view_count(x->view) - 1; i >= 0; i--) {
        um_num value = um_oracle_decode(x->view->dtype, got_bits(x, i));
        if (um_expect_accepts(&x->expect[i], x->view->dtype, value)) continue;
        if (b->it->flushes &&
            um_expect_flushed(b->it->sample, &x->expect[i], x->view->dtype, value))
            continue;
        wrong++;
        first = i;
    }
    if (wrong) describe_element(b, k, first, wrong);
    return wrong == 0;
}

/* What is no element of the output must be as it was. Uses up `got`. */
static bool judge_padding(bench *b, operand *x)
{
    const um_image *was = &x->image;
    for (int64_t i = 0; i < um_view_count(x->view); i++) {
        int64_t slot = x->slot[i];
        um_image_set(&x->got, slot, um_image_get(was, slot));
    }
    for (size_t i = 0; i < was->size_bytes; i++) {
        if (x->got.bytes[i] == was->bytes[i]) continue;
        snprintf(b->detail, b->detail_size,
                 "%s: wrote outside its output: byte %lld from the view's block of %zu",
                 um_op_name(b->op.id), (long long)i - (long long)was->guard_bytes,
                 was->size_bytes - 2 * was->guard_bytes);
        return false;
    }
    return true;
}

static um_status judge_inputs(bench *b, bool *same)
{
    um_status status = UM_OK;
    *same = true;
    for (int32_t k = 0; status == UM_OK && *same && k < b->op.in_count; k++) {
        const um_image *image = &b->in[k].image;
        if (k == b->in_place) continue;
        uint8_t *now = malloc(image->size_bytes + 1);
        status =
            now ? um_read(b->it->stream, now, b->in[k].block, image->size_bytes) : UM_OUT_OF_MEMORY;
        *same = status == UM_OK && memcmp(now, image->bytes, image->size_bytes) == 0;
        if (status == UM_OK && !*same)
            snprintf(b->detail, b->detail_size, "%s: wrote to its input %d", um_op_name(b->op.id),
                     (int)k);
        free(now);
    }
    return status;
}

/* Runs again from the same bytes; the outputs must have the same bits. */
static um_status run_again(bench *b)
{
    um_status status = UM_OK;
    for (int32_t k = 0; status == UM_OK && k < b->op.out_count; k++) {
        const operand *x = &b->out[k];
        status = um_write(b->it->stream, x->block, x->image.bytes, x->image.size_bytes);
    }
    if (status == UM_OK) status = run_op(b);
    return status == UM_OK ? read_back(b) : status;
}

static um_status judge_again(bench *b, bool *same)
{
    um_image first[UM_OP_MAX_OUTPUTS];
    um_status status = UM_OK;
    int32_t count = b->op.out_count;
    for (int32_t k = 0; k < count; k++) {
        first[k] = b->out[k].got;
        b->out[k].got = (um_image){0};
        if (!um_image_make(&b->out[k].got, first[k].bits, b->out[k].layout.slots, GUARD_BYTES, 0))
            status = UM_OUT_OF_MEMORY;
    }
    if (status == UM_OK) status = run_again(b);
    *same = status == UM_OK;
    for (int32_t k = 0; k < count; k++) {
        *same = *same && memcmp(first[k].bytes, b->out[k].got.bytes, first[k].size_bytes) == 0;
        um_image_free(&first[k]);
    }
    if (status == UM_OK && !*same)
        snprintf(b->detail, b->detail_size, "%s: a second run gave other bits",
                 um_op_name(b->op.id));
    return status;
}

static void add_to_digest(const operand *x, uint64_t *digest)
{
    for (int64_t i = 0; i < um_view_count(x->view); i++) {
        um_rng mix = {*digest ^ got_bits(x, i)};
        *digest = um_rng_next(&mix);
    }
}

/* ---- one case -------------------------------------------------------------------------------- */

static um_status ask_oracle(const bench *b)
{
    um_array in[UM_OP_MAX_INPUTS], out[UM_OP_MAX_OUTPUTS] = {{0}};
    um_expect *expect[UM_OP_MAX_OUTPUTS];
    for (int32_t k = 0; k < b->op.in_count; k++) in[k] = b->in[k].array;
    for (int32_t k = 0; k < b->op.out_count; k++) {
        const um_view *view = b->out[k].view;
        out[k].dtype = view->dtype;
        out[k].rank = view->rank;
        memcpy(out[k].shape, view->shape, sizeof view->shape);
        out[k].count = um_view_count(view);
        expect[k] = b->out[k].expect;
    }
    return um_oracle_run(&b->op, in, out, expect);
}

static um_status run_and_judge(bench *b, bool *good, uint64_t *digest)
{
    um_status status = ask_oracle(b);
    *good = false;
    if (status == UM_OK) status = upload_all(b);
    if (status == UM_OK) status = run_op(b);
    if (status == UM_OK) status = read_back(b);
    if (status != UM_OK) return status;
    *good = true;
    for (int32_t k = 0; k < b->op.out_count; k++) {
        *good = *good && judge_elements(b, k);
        add_to_digest(&b->out[k], digest);
    }
    if (*good && b->it->variant == UM_VARIANT_PACKED && b->it->round == UM_ROUND_RANDOM)
        status = judge_again(b, good);
    for (int32_t k = 0; k < b->op.out_count && status == UM_OK; k++)
        *good = *good && judge_padding(b, &b->out[k]);
    return status == UM_OK && *good ? judge_inputs(b, good) : status;
}

/* Runs the case; detail says what was wrong, if anything. */
static um_check_outcome run_case(bench *b, uint64_t *digest)
{
    bool good = false;
    um_status status = run_and_judge(b, &good, digest);
    if (status == UM_OK) status = free_blocks(b);
    if (status == UM_OK) return good ? UM_CHECK_PASSED : UM_CHECK_FAILED;
    if (!b->detail[0])
        snprintf(b->detail, b->detail_size, "%s: %s", um_status_name(status),
                 um_last_error()->message);
    (void)um_stream_clear_error(b->it->stream);
    return UM_CHECK_FAILED;
}

um_status um_case_run(const um_case *it, um_check_outcome *outcome, char *detail,
                      size_t detail_size, uint64_t *digest)
{
    bench b = {.it = it,
               .device = um_stream_device(it->stream),
               .op = it->sample->op,
               .rng = um_rng_make(it->options->seed, it->name),
               .detail = detail,
               .detail_size = detail_size};
    *outcome = UM_CHECK_FAILED;
    if (!b.op.out[0].dtype) {
        snprintf(detail, detail_size, "%s: the sample breaks the op's own rule", it->row->name);
        return UM_OK;
    }
    lay_out_all(&b);
    if (!um_supports(b.device, &b.op, detail, detail_size)) {
        if (detail[0]) *outcome = UM_CHECK_SKIPPED;
        if (!detail[0]) snprintf(detail, detail_size, "refused without a reason");
        return UM_OK;
    }
    detail[0] = 0;
    um_status status = make_operands(&b);
    if (status == UM_OK) *outcome = run_case(&b, digest);
    free_operands(&b);
    return status;
}
