/* llm/sampler.c: picks the next token from logits: greedy, or top-k, temperature, softmax, top-p.
 * Candidates are ordered by logit, equal ones by index, so the same seed gives the same choices. */
#include "base/base.h"
#include "base/philox.h"
#include "llm/heap.h"

#include <math.h>
#include <umbel/llm.h>

struct um_sampler {
    um_sampler_desc desc;
    uint64_t draw_count; /* Philox counter */
    um_heap_item *items; /* [vocab_size] candidates: a logit and its token */
    float *weights;      /* [vocab_size] by token */
};

static um_status check_desc(const um_sampler_desc *desc)
{
    if (!desc) return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: desc is NULL");
    if (desc->vocab_size < 1)
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: vocab_size is %d, wanted at least 1",
                       desc->vocab_size);
    if (!(desc->temperature >= 0) || isinf(desc->temperature))
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: temperature is %g, wanted 0 or more",
                       (double)desc->temperature);
    if (desc->top_k < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: top_k is %d, wanted 0 or more", desc->top_k);
    if (!(desc->top_p >= 0 && desc->top_p <= 1))
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: top_p is %g, wanted 0 to 1",
                       (double)desc->top_p);
    return UM_OK;
}

um_status um_sampler_create(const um_sampler_desc *desc, um_sampler **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: out is NULL");
    *out = NULL;
    UM_TRY(check_desc(desc));
    um_sampler *sampler = um_mem_zalloc(sizeof *sampler);
    if (!sampler) return UM_FAIL(UM_OUT_OF_MEMORY, "sampler: no memory");
    sampler->desc = *desc;
    sampler->items = um_mem_alloc((size_t)desc->vocab_size * sizeof *sampler->items);
    sampler->weights = um_mem_alloc((size_t)desc->vocab_size * sizeof *sampler->weights);
    if (!sampler->items || !sampler->weights) {
        um_sampler_release(sampler);
        return UM_FAIL(UM_OUT_OF_MEMORY, "sampler: no memory for %d tokens", desc->vocab_size);
    }
    *out = sampler;
    return UM_OK;
}

void um_sampler_release(um_sampler *sampler)
{
    if (!sampler) return;
    um_mem_free(sampler->items);
    um_mem_free(sampler->weights);
    um_mem_free(sampler);
}

/* The first of the largest logits; -1 and the place of it when there is a NaN. */
static int32_t find_largest(const float *logits, int32_t count, int32_t *nan_at)
{
    int32_t best = 0;
    for (int32_t i = 0; i < count; i++) {
        if (isnan(logits[i])) {
            *nan_at = i;
            return -1;
        }
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

/* Moves the top_k best to the end of items; returns where they start. */
static int32_t keep_top_k(um_sampler *sampler)
{
    int32_t vocab = sampler->desc.vocab_size, top_k = sampler->desc.top_k;
    if (top_k == 0 || top_k >= vocab) return 0;
    um_heap_build(sampler->items, vocab);
    for (int32_t i = 0; i < top_k; i++) um_heap_pop(sampler->items, vocab - i);
    return vocab - top_k;
}

/* Unnormalised probabilities of items[first ...]; returns their sum. The largest logit has exactly
 * 1, also when it is infinite. */
static double weigh(um_sampler *sampler, int32_t first, float largest)
{
    double total = 0;
    for (int32_t i = first; i < sampler->desc.vocab_size; i++) {
        um_heap_item item = sampler->items[i];
        double below = ((double)item.score - (double)largest) / (double)sampler->desc.temperature;
        float weight = item.score == largest ? 1 : expf((float)below);
        sampler->weights[item.index] = weight;
        total += (double)weight;
    }
    return total;
}

/* Moves the fewest best whose probability passes top_p to the end of items; returns where they
 * start and makes *total their sum. */
static int32_t keep_top_p(um_sampler *sampler, int32_t first, double *total)
{
    double top_p = (double)sampler->desc.top_p, kept = 0;
    if (top_p == 0 || top_p == 1) return first;
    um_heap_item *items = sampler->items + first;
    int32_t left = sampler->desc.vocab_size - first;
    um_heap_build(items, left);
    do kept += (double)sampler->weights[um_heap_pop(items, left).index];
    while (--left > 0 && kept <= top_p * *total);
    *total = kept;
    return first + left;
}

static int32_t draw(um_sampler *sampler, float largest)
{
    int32_t first = keep_top_k(sampler);
    double total = weigh(sampler, first, largest);
    first = keep_top_p(sampler, first, &total);
    double target = um_philox_uniform(sampler->desc.seed, sampler->draw_count++) * total;
    double reached = 0;
    int32_t chosen = 0;
    for (int32_t i = first; i < sampler->desc.vocab_size && reached <= target; i++) {
        int32_t index = sampler->items[i].index;
        if (sampler->weights[index] > 0) chosen = index;
        reached += (double)sampler->weights[index];
    }
    return chosen;
}

um_status um_sampler_next(um_sampler *sampler, const float *logits, int32_t *token)
{
    if (!sampler || !logits || !token)
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: %s is NULL",
                       !sampler  ? "sampler"
                       : !logits ? "logits"
                                 : "token");
    int32_t nan_at = 0, vocab = sampler->desc.vocab_size;
    int32_t largest = find_largest(logits, vocab, &nan_at);
    *token = UM_MAX(largest, 0);
    if (largest < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "sampler: logit %d of %d is NaN", nan_at, vocab);
    if (sampler->desc.temperature == 0) return UM_OK;
    for (int32_t i = 0; i < vocab; i++) sampler->items[i] = (um_heap_item){logits[i], i};
    *token = draw(sampler, logits[largest]);
    return UM_OK;
}
