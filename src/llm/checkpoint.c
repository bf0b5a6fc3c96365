/* llm/checkpoint.c: reads A. Karpathy's llama2.c checkpoints, legacy version 0: seven i32 (dim,
 * hidden dim, layers, heads, kv heads, vocabulary, context; a negative vocabulary: the classifier
 * is not the embedding), then f32 arrays, all little-endian as every host we build for. The header
 * is believed only when the file has exactly the size it gives. Called by um_llm_load. */
#include "llm/checkpoint.h"

enum { HEADER_FIELDS = 7, HEADER_BYTES = 4 * HEADER_FIELDS };

/* Largest values taken; every size computed from them fits in an i64: L * F * C * 4 < 2^47. */
static const struct {
    const char *name;
    int32_t limit;
} header_fields[HEADER_FIELDS] = {
    {"dim", 1 << 16},
    {"hidden_dim", 1 << 18},
    {"layer_count", 1 << 10},
    {"head_count", 1 << 12},
    {"kv_head_count", 1 << 12},
    {"vocab_size", 1 << 20},
    {"context_length", 1 << 20},
};

static um_status check_header(const char *path, const um_llm_info *info)
{
    int32_t dim = info->dim, heads = info->head_count, kv_heads = info->kv_head_count;
    if (dim % heads != 0 || dim / heads % 2 != 0)
        return UM_FAIL(UM_CORRUPT_DATA,
                       "checkpoint: %s: dim %d over %d heads, wanted an even size a head", path,
                       dim, heads);
    if (heads % kv_heads != 0)
        return UM_FAIL(UM_CORRUPT_DATA,
                       "checkpoint: %s: %d heads over %d kv heads, wanted a multiple", path, heads,
                       kv_heads);
    return UM_OK;
}

static um_status read_header(const char *path, const um_file *file, um_llm_info *info)
{
    if (file->size_bytes < HEADER_BYTES)
        return UM_FAIL(UM_CORRUPT_DATA, "checkpoint: %s: got %llu bytes, wanted a header of %d",
                       path, (unsigned long long)file->size_bytes, (int)HEADER_BYTES);
    int32_t field[HEADER_FIELDS];
    for (int i = 0; i < HEADER_FIELDS; i++) field[i] = um_le_i32(file->data + 4 * i);
    bool tied = field[5] > 0;
    if (field[5] < 0 && field[5] != INT32_MIN) field[5] = -field[5];
    for (int i = 0; i < HEADER_FIELDS; i++)
        if (field[i] < 1 || field[i] > header_fields[i].limit)
            return UM_FAIL(UM_CORRUPT_DATA, "checkpoint: %s: %s is %d, wanted 1 to %d", path,
                           header_fields[i].name, field[i], header_fields[i].limit);
    *info = (um_llm_info){.dim = field[0],
                          .hidden_dim = field[1],
                          .layer_count = field[2],
                          .head_count = field[3],
                          .kv_head_count = field[4],
                          .vocab_size = field[5],
                          .context_length = field[6],
                          .tied_classifier = tied};
    return check_header(path, info);
}

/* Points every array into the file, which must end where the last one does. */
static um_status map_weights(const char *path, um_checkpoint *c)
{
    um_llm_info *info = &c->info;
    int64_t layers = info->layer_count, dim = info->dim, hidden = info->hidden_dim;
    int64_t vocab = info->vocab_size, head_dim = dim / info->head_count;
    int64_t kv_dim = head_dim * info->kv_head_count;
    int64_t angles = info->context_length * head_dim; /* cosines and sines; ours are computed */
    const float *unused;
    const struct {
        const float **array;
        int64_t count;
    } sections[] = {
        {&c->embedding, vocab * dim},
        {&c->norm_attention, layers * dim},
        {&c->query, layers * dim * dim},
        {&c->key, layers * kv_dim * dim},
        {&c->value, layers * kv_dim * dim},
        {&c->output, layers * dim * dim},
        {&c->norm_ffn, layers * dim},
        {&c->gate, layers * hidden * dim},
        {&c->down, layers * dim * hidden},
        {&c->up, layers * hidden * dim},
        {&c->norm_final, dim},
        {&unused, angles},
        {&c->classifier, info->tied_classifier ? 0 : vocab * dim},
    };
    int64_t total = 0;
    for (size_t i = 0; i < UM_COUNT_OF(sections); i++) total += sections[i].count;
    int64_t wanted_bytes = HEADER_BYTES + total * (int64_t)sizeof(float);
    if (c->file.size_bytes != (uint64_t)wanted_bytes)
        return UM_FAIL(UM_CORRUPT_DATA, "checkpoint: %s: got %llu bytes, wanted %lld by its header",
                       path, (unsigned long long)c->file.size_bytes, (long long)wanted_bytes);
    const float *at = (const float *)(const void *)(c->file.data + HEADER_BYTES);
    for (size_t i = 0; i < UM_COUNT_OF(sections); i++) {
        *sections[i].array = at;
        at += sections[i].count;
    }
    if (info->tied_classifier) c->classifier = c->embedding;
    info->parameter_count = total - angles;
    return UM_OK;
}

um_status um_checkpoint_open(const char *path, um_checkpoint *out)
{
    *out = (um_checkpoint){0};
    um_checkpoint checkpoint = {0};
    if (!path) return UM_FAIL(UM_INVALID_ARGUMENT, "checkpoint: path is NULL");
    UM_TRY(um_file_open(path, &checkpoint.file));
    UM_TRY_OR(read_header(path, &checkpoint.file, &checkpoint.info), fail);
    UM_TRY_OR(map_weights(path, &checkpoint), fail);
    *out = checkpoint;
    return UM_OK;
fail:
    um_file_close(&checkpoint.file);
    return um_status_last();
}

void um_checkpoint_close(um_checkpoint *checkpoint)
{
    if (checkpoint->file.data) um_file_close(&checkpoint->file);
    *checkpoint = (um_checkpoint){0};
}
