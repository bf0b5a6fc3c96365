/* llm/llm.c: a Llama model on the tensor face: RMS norm, rotary embedding, grouped-query attention
 * over a cache of keys and values, SwiGLU (H. Touvron et al., "LLaMA", 2023). The file's layout is
 * checkpoint.c's business.
 *
 * Letters: S tokens of this call, C dim, F hidden, H heads, K kv heads, D = C / H, T context. */
#include "llm/checkpoint.h"

#include <umbel/llm.h>

#define NORM_EPS 1e-5 /* llama2.c's */

typedef struct llm_layer {
    um_tensor *norm_attention; /* [C] */
    um_tensor *qkv;            /* [(H + 2K) D, C]: query, key and value in one product */
    um_tensor *output;         /* [C, C] */
    um_tensor *norm_ffn;       /* [C] */
    um_tensor *gate_up;        /* [2F, C] */
    um_tensor *down;           /* [C, F] */
    um_tensor *keys, *values;  /* [1, K, T, D], NULL when a failed call has lost them */
} llm_layer;

struct um_llm {
    um_device *device;
    um_llm_info info;
    int64_t head_dim;
    int32_t evaluated;
    /* [T] what was evaluated. A call appends to keys and values in place, so one that fails halfway
     * takes them along; the next call then evaluates these again. */
    int32_t *history;
    um_tensor *embedding, *norm_final, *classifier; /* [V, C], [C], [V, C] */
    llm_layer *layers;
    float *logits; /* [V], for callers that want none */
};

/* ---- loading ------------------------------------------------------------------------------ */

static um_tensor *upload(um_device *device, const float *data, int64_t rows, int64_t columns)
{
    return um_from_host(device, UM_F32, 2, (int64_t[]){rows, columns}, data);
}

static um_tensor *upload_vector(um_device *device, const float *data, int64_t count)
{
    return um_from_host(device, UM_F32, 1, &count, data);
}

static um_status load_layer(um_llm *llm, const um_checkpoint *c, int64_t index)
{
    um_device *device = llm->device;
    llm_layer *layer = &llm->layers[index];
    int64_t dim = llm->info.dim, hidden = llm->info.hidden_dim;
    int64_t kv_dim = llm->head_dim * llm->info.kv_head_count;
    um_tensor *qkv[] = {upload(device, c->query + index * dim * dim, dim, dim),
                        upload(device, c->key + index * kv_dim * dim, kv_dim, dim),
                        upload(device, c->value + index * kv_dim * dim, kv_dim, dim)};
    um_tensor *gate_up[] = {upload(device, c->gate + index * hidden * dim, hidden, dim),
                            upload(device, c->up + index * hidden * dim, hidden, dim)};
    layer->norm_attention = upload_vector(device, c->norm_attention + index * dim, dim);
    layer->qkv = um_concat(3, qkv, 0);
    layer->output = upload(device, c->output + index * dim * dim, dim, dim);
    layer->norm_ffn = upload_vector(device, c->norm_ffn + index * dim, dim);
    layer->gate_up = um_concat(2, gate_up, 0);
    layer->down = upload(device, c->down + index * dim * hidden, dim, hidden);
    um_tensor *const all[] = {layer->norm_attention, layer->qkv,     layer->output,
                              layer->norm_ffn,       layer->gate_up, layer->down};
    return um_realize_all(UM_COUNT_OF(all), all);
}

static void drop_cache(um_llm *llm)
{
    for (int32_t i = 0; i < llm->info.layer_count; i++) {
        um_release(llm->layers[i].keys);
        um_release(llm->layers[i].values);
        llm->layers[i].keys = llm->layers[i].values = NULL;
    }
}

static um_status make_cache(um_llm *llm)
{
    int64_t shape[] = {1, llm->info.kv_head_count, llm->info.context_length, llm->head_dim};
    um_status status = UM_OK;
    for (int32_t i = 0; i < llm->info.layer_count && status == UM_OK; i++) {
        llm_layer *layer = &llm->layers[i];
        layer->keys = um_zeros(llm->device, UM_F32, 4, shape);
        layer->values = um_zeros(llm->device, UM_F32, 4, shape);
        status = um_realize_all(2, (um_tensor *[]){layer->keys, layer->values});
    }
    if (status != UM_OK) drop_cache(llm);
    return status;
}

static um_status load_weights(um_llm *llm, const um_checkpoint *c)
{
    int64_t dim = llm->info.dim, vocab = llm->info.vocab_size;
    llm->embedding = upload(llm->device, c->embedding, vocab, dim);
    llm->norm_final = upload_vector(llm->device, c->norm_final, dim);
    llm->classifier = llm->info.tied_classifier ? um_ref(llm->embedding)
                                                : upload(llm->device, c->classifier, vocab, dim);
    um_tensor *const all[] = {llm->embedding, llm->norm_final, llm->classifier};
    UM_TRY(um_realize_all(UM_COUNT_OF(all), all));
    for (int32_t i = 0; i < llm->info.layer_count; i++) UM_TRY(load_layer(llm, c, i));
    return UM_OK;
}

/* Waits for all the work on tensors, and learns whether it failed. */
static um_status wait_for_work(const um_llm *llm)
{
    float first;
    um_tensor *x = um_slice(um_ref(llm->norm_final), 0, 0, 1, 1);
    um_status status = um_read_f32(x, &first, 1);
    um_release(x);
    return status;
}

static um_status load(um_llm *llm, const um_checkpoint *c)
{
    llm->info = c->info;
    llm->head_dim = c->info.dim / c->info.head_count;
    llm->layers = um_mem_zalloc((size_t)c->info.layer_count * sizeof *llm->layers);
    llm->history = um_mem_alloc((size_t)c->info.context_length * sizeof *llm->history);
    llm->logits = um_mem_alloc((size_t)c->info.vocab_size * sizeof *llm->logits);
    if (!llm->layers || !llm->history || !llm->logits)
        return UM_FAIL(UM_OUT_OF_MEMORY, "llm: no memory for %d layers", c->info.layer_count);
    UM_TRY(load_weights(llm, c));
    UM_TRY(make_cache(llm));
    return wait_for_work(llm);
}

um_status um_llm_load(um_device *device, const char *path, um_llm **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "llm: out is NULL");
    *out = NULL;
    if (!device) return UM_FAIL(UM_INVALID_ARGUMENT, "llm: device is NULL");
    um_checkpoint checkpoint;
    UM_TRY(um_checkpoint_open(path, &checkpoint));
    um_llm *llm = um_mem_zalloc(sizeof *llm);
    um_status status = UM_OK;
    if (!llm) {
        status = UM_FAIL(UM_OUT_OF_MEMORY, "llm: no memory");
        goto done;
    }
    llm->device = um_device_retain(device);
    status = load(llm, &checkpoint);
done:
    um_checkpoint_close(&checkpoint);
    if (status == UM_OK)
        *out = llm;
    else
        um_llm_release(llm);
    return status;
}

static void release_layer(const llm_layer *layer)
{
    um_release(layer->norm_attention);
    um_release(layer->qkv);
    um_release(layer->output);
    um_release(layer->norm_ffn);
    um_release(layer->gate_up);
    um_release(layer->down);
}

void um_llm_release(um_llm *llm)
{
    if (!llm) return;
    if (llm->layers) drop_cache(llm);
    for (int32_t i = 0; llm->layers && i < llm->info.layer_count; i++)
        release_layer(&llm->layers[i]);
    um_release(llm->embedding);
    um_release(llm->norm_final);
    um_release(llm->classifier);
    um_mem_free(llm->layers);
    um_mem_free(llm->history);
    um_mem_free(llm->logits);
    um_device_release(llm->device);
    um_mem_free(llm);
}

void um_llm_get_info(const um_llm *llm, um_llm_info *out)
{
    if (out) *out = llm ? llm->info : (um_llm_info){0};
}

/* ---- forward ------------------------------------------------------------------------------ */

typedef struct forward {
    const um_llm *llm;
    int64_t position, count; /* S = count tokens from position on */
} forward;

static um_tensor *slice(um_tensor *x, int32_t axis, int64_t start, int64_t stop)
{
    return um_slice(x, axis, start, stop, 1);
}

/* Appends the block [1, K, S, D] to *cache, in place; returns all of it that is filled. */
static um_tensor *append(const forward *f, um_tensor **cache, um_tensor *block)
{
    *cache = um_update(*cache, block, (int64_t[]){0, 0, f->position, 0});
    return slice(um_ref(*cache), 2, 0, f->position + f->count);
}

/* x [S, C], normed -> [S, C] */
static um_tensor *attend(const forward *f, llm_layer *layer, um_tensor *x)
{
    int64_t heads = f->llm->info.head_count, kv_heads = f->llm->info.kv_head_count;
    int64_t dim = f->llm->info.dim, rotated = heads + kv_heads, all = rotated + kv_heads;
    um_tensor *qkv = um_linear(x, um_ref(layer->qkv), NULL);
    qkv = um_reshape(qkv, 4, (int64_t[]){1, f->count, all, f->llm->head_dim});
    qkv = um_transpose(qkv, 1, 2); /* [1, H + 2K, S, D] */
    um_rope_desc rope = {.offset = f->position, .layout = UM_ROPE_INTERLEAVED};
    um_tensor *qk = um_rope(slice(um_ref(qkv), 1, 0, rotated), NULL, &rope);
    um_tensor *keys = append(f, &layer->keys, slice(um_ref(qk), 1, heads, rotated));
    um_tensor *values = append(f, &layer->values, slice(qkv, 1, rotated, all));
    um_attention_desc causal = {.causal = UM_CAUSAL_BOTTOM_RIGHT};
    um_tensor *y = um_attention(slice(qk, 1, 0, heads), keys, values, NULL, &causal);
    y = um_reshape(um_transpose(y, 1, 2), 2, (int64_t[]){f->count, dim});
    return um_linear(y, um_ref(layer->output), NULL);
}

/* x [S, C], normed -> [S, C]: down(silu(gate x) * up x) */
static um_tensor *feed_forward(const forward *f, const llm_layer *layer, um_tensor *x)
{
    int64_t hidden = f->llm->info.hidden_dim;
    um_tensor *both = um_linear(x, um_ref(layer->gate_up), NULL); /* [S, 2F] */
    um_tensor *gate = um_silu(slice(um_ref(both), 1, 0, hidden));
    um_tensor *y = um_mul(gate, slice(both, 1, hidden, 2 * hidden));
    return um_linear(y, um_ref(layer->down), NULL);
}

/* Logits [1, V] after the last token. */
static um_tensor *run_layers(const forward *f, const int32_t *tokens)
{
    const um_llm *llm = f->llm;
    um_tensor *ids = um_from_host(llm->device, UM_I32, 1, &f->count, tokens);
    um_tensor *x = um_embedding(um_ref(llm->embedding), ids);
    for (int32_t i = 0; i < llm->info.layer_count; i++) {
        llm_layer *layer = &llm->layers[i];
        um_tensor *normed = um_rms_norm(um_ref(x), um_ref(layer->norm_attention), NORM_EPS);
        x = um_add(x, attend(f, layer, normed));
        normed = um_rms_norm(um_ref(x), um_ref(layer->norm_ffn), NORM_EPS);
        x = um_add(x, feed_forward(f, layer, normed));
    }
    x = slice(x, 0, f->count - 1, f->count);
    x = um_rms_norm(x, um_ref(llm->norm_final), NORM_EPS);
    return um_linear(x, um_ref(llm->classifier), NULL);
}

static um_status check_eval(const um_llm *llm, int32_t count, const int32_t *tokens,
                            int32_t position)
{
    if (!llm) return UM_FAIL(UM_INVALID_ARGUMENT, "llm_eval: llm is NULL");
    const um_llm_info *info = &llm->info;
    if (count < 1 || !tokens)
        return UM_FAIL(UM_INVALID_ARGUMENT, "llm_eval: got %d tokens%s, wanted at least 1", count,
                       tokens ? "" : " at NULL");
    if (position < 0 || position > llm->evaluated)
        return UM_FAIL(UM_INVALID_ARGUMENT, "llm_eval: position is %d, wanted 0 to %d", position,
                       llm->evaluated);
    if (count > info->context_length - position)
        return UM_FAIL(UM_OUT_OF_RANGE,
                       "llm_eval: %d tokens from position %d on, wanted at most %d in all", count,
                       position, info->context_length);
    for (int32_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= info->vocab_size)
            return UM_FAIL(UM_OUT_OF_RANGE, "llm_eval: token %d is %d, wanted 0 to %d", i,
                           tokens[i], info->vocab_size - 1);
    return UM_OK;
}

um_status um_llm_eval(um_llm *llm, int32_t count, const int32_t *tokens, int32_t position,
                      float *logits)
{
    UM_TRY(check_eval(llm, count, tokens, position));
    llm->evaluated = position;
    memcpy(llm->history + position, tokens, (size_t)count * sizeof *tokens);
    int32_t end = position + count, start = position;
    if (!llm->layers[0].keys) {
        UM_TRY(make_cache(llm));
        start = 0;
    }
    forward f = {.llm = llm, .position = start, .count = end - start};
    um_tensor *y = run_layers(&f, llm->history + start);
    um_status status = um_read_f32(y, logits ? logits : llm->logits, llm->info.vocab_size);
    um_release(y);
    if (status == UM_OK)
        llm->evaluated = end;
    else
        drop_cache(llm);
    return status;
}
