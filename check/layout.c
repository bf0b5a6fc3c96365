/* check/layout.c: strided views over blocks of memory, and the bytes of those blocks on the host.
 */
#include "check/inside.h"

#include <stdlib.h>

/* How a block is laid out, from the innermost axis outwards. */
typedef struct plan {
    int32_t order[UM_MAX_RANK]; /* axes */
    int64_t gap[UM_MAX_RANK];   /* free slots after each axis's run, by axis */
    bool backwards[UM_MAX_RANK], repeats[UM_MAX_RANK];
    int64_t step, lead;
} plan;

static plan plain_plan(int32_t rank)
{
    plan p = {.step = 1};
    for (int32_t i = 0; i < rank; i++) p.order[i] = rank - 1 - i;
    return p;
}

static void shuffle(int32_t *order, int32_t n, um_rng *rng)
{
    for (int32_t i = n - 1; i > 0; i--) {
        int64_t j = um_rng_below(rng, i + 1);
        int32_t held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

static plan mixed_plan(int32_t rank, bool may_repeat, um_rng *rng)
{
    plan p = plain_plan(rank);
    if (um_rng_below(rng, 2)) shuffle(p.order, rank, rng);
    p.step = 1 + um_rng_below(rng, 3);
    p.lead = um_rng_below(rng, 5);
    for (int32_t i = 0; i < rank; i++) {
        p.gap[i] = um_rng_below(rng, 2) ? 0 : um_rng_below(rng, 4);
        p.backwards[i] = um_rng_below(rng, 3) == 0;
        p.repeats[i] = may_repeat && um_rng_below(rng, 4) == 0;
    }
    return p;
}

static plan make_plan(um_layout_kind kind, const um_view *view, um_rng *rng)
{
    plan p = plain_plan(view->rank);
    switch (kind) {
    case UM_LAYOUT_PACKED: break;
    case UM_LAYOUT_TRANSPOSED:
        for (int32_t i = 0; i < view->rank; i++) p.order[i] = i;
        break;
    case UM_LAYOUT_SLICED:
        p.step = 2;
        p.lead = 3;
        for (int32_t i = 0; i < view->rank; i++) p.gap[i] = 1;
        break;
    case UM_LAYOUT_NEGATIVE:
        for (int32_t i = 0; i < view->rank; i++) p.backwards[i] = true;
        break;
    case UM_LAYOUT_BROADCAST:
        for (int32_t i = 0; i < view->rank; i++) {
            p.repeats[i] = view->shape[i] > 1;
            if (p.repeats[i]) break;
        }
        break;
    case UM_LAYOUT_MIXED_IN: return mixed_plan(view->rank, true, rng);
    case UM_LAYOUT_MIXED_OUT: return mixed_plan(view->rank, false, rng);
    }
    return p;
}

void um_layout_make(um_layout_kind kind, const um_view *view, um_rng *rng, um_layout *out)
{
    plan p = make_plan(kind, view, rng);
    int64_t run = p.step, last = 0;
    *out = (um_layout){.first = p.lead};
    for (int32_t i = 0; i < view->rank; i++) {
        int32_t axis = p.order[i];
        int64_t n = view->shape[axis] > 0 ? view->shape[axis] : 1;
        if (p.repeats[axis]) continue;
        out->stride[axis] = p.backwards[axis] ? -run : run;
        if (p.backwards[axis]) out->first += (n - 1) * run;
        last += (n - 1) * run;
        run = run * n + p.gap[axis];
    }
    out->slots = p.lead + last + 1;
    if (um_view_count(view) == 0) out->first = out->slots = 0;
    /* A 4-bit view starts at a whole byte. */
    if (um_oracle_bits(view->dtype) < 8 && out->first % 2 != 0) {
        out->first++;
        out->slots++;
    }
}

void um_layout_slots(const um_layout *layout, const um_view *view, int64_t *slots)
{
    int64_t at[UM_MAX_RANK] = {0}, slot = layout->first, count = um_view_count(view);
    for (int64_t i = 0; i < count; i++) {
        slots[i] = slot;
        for (int32_t axis = view->rank - 1; axis >= 0; axis--) {
            slot += layout->stride[axis];
            if (++at[axis] < view->shape[axis]) break;
            slot -= at[axis] * layout->stride[axis];
            at[axis] = 0;
        }
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

bool um_image_make(um_image *image, int32_t bits, int64_t slots, size_t guard_bytes, uint8_t fill)
{
    size_t inner = ((size_t)slots * (size_t)bits + 7) / 8;
    *image =
        (um_image){.size_bytes = inner + 2 * guard_bytes, .guard_bytes = guard_bytes, .bits = bits};
    image->bytes = malloc(image->size_bytes + 1); /* never of 0 */
    if (image->bytes) memset(image->bytes, fill, image->size_bytes);
    return image->bytes != NULL;
}

void um_image_free(um_image *image) { free(image->bytes); }

uint64_t um_image_get(const um_image *image, int64_t slot)
{
    const uint8_t *inner = image->bytes + image->guard_bytes;
    uint64_t bits = 0;
    if (image->bits < 8) return inner[slot / 2] >> (slot % 2 * 4) & 15u;
    memcpy(&bits, inner + slot * (image->bits / 8), (size_t)image->bits / 8);
    return bits;
}

void um_image_set(um_image *image, int64_t slot, uint64_t bits)
{
    uint8_t *inner = image->bytes + image->guard_bytes;
    if (image->bits < 8) {
        uint8_t *byte = &inner[slot / 2];
        *byte = (uint8_t)((slot % 2 ? *byte & 15u : *byte & 240u) | bits << (slot % 2 * 4));
    } else {
        memcpy(inner + slot * (image->bits / 8), &bits, (size_t)image->bits / 8);
    }
}
