/* bench/llama_plain.c: the same Llama model as one plain C file: the baseline that the speed of
 * `umbel generate` is compared with. One thread, no library, no intrinsics; the compiler may
 * vectorise what strict f32 arithmetic allows (-O3 -march=native, no fast-math).
 *
 *     llama_plain MODEL TOKENIZER [STEPS [ROUNDS]]
 *
 * decodes greedily from BOS. The text of the first round goes to stdout, tokens/s over all rounds
 * to stderr. It trusts its files: it is for measuring, not for use. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BOS = 1, EOS = 2 };

typedef struct model {
    int32_t dim, hidden, layers, heads, kv_heads, vocab, context;
    int32_t head_dim, kv_dim;
    const float *embedding, *norm_attention, *query, *key, *value, *output;
    const float *norm_ffn, *gate, *down, *up, *norm_final, *classifier;
} model;

typedef struct state {
    float *x, *normed, *mixed;      /* [dim] */
    float *query, *scores;          /* [dim], [context] */
    float *gate, *up;               /* [hidden] */
    float *logits;                  /* [vocab] */
    float *key_cache, *value_cache; /* [layers, context, kv_dim] */
} state;

static void stop(const char *what)
{
    fprintf(stderr, "llama_plain: %s\n", what);
    exit(1);
}

static void *take_memory(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (!memory) stop("no memory");
    return memory;
}

static uint8_t *read_file(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) stop("cannot read a file");
    long size = ftell(file);
    rewind(file);
    uint8_t *data = take_memory((size_t)size + 1);
    if (fread(data, 1, (size_t)size, file) != (size_t)size) stop("cannot read a file");
    fclose(file);
    *size_bytes = (size_t)size;
    return data;
}

static const float *skip(const float **at, size_t count)
{
    const float *here = *at;
    *at += count;
    return here;
}

static void load_model(const char *path, model *m)
{
    size_t size_bytes;
    uint8_t *data = read_file(path, &size_bytes);
    if (size_bytes < 28) stop("the model is too short");
    memcpy(m, data, 28);
    int tied = m->vocab > 0;
    m->vocab = abs(m->vocab);
    m->head_dim = m->dim / m->heads;
    m->kv_dim = m->head_dim * m->kv_heads;
    size_t layers = (size_t)m->layers, dim = (size_t)m->dim, hidden = (size_t)m->hidden;
    size_t vocab = (size_t)m->vocab, kv_dim = (size_t)m->kv_dim;
    const float *at = (const float *)(void *)(data + 28), *start = at;
    m->embedding = skip(&at, vocab * dim);
    m->norm_attention = skip(&at, layers * dim);
    m->query = skip(&at, layers * dim * dim);
    m->key = skip(&at, layers * kv_dim * dim);
    m->value = skip(&at, layers * kv_dim * dim);
    m->output = skip(&at, layers * dim * dim);
    m->norm_ffn = skip(&at, layers * dim);
    m->gate = skip(&at, layers * hidden * dim);
    m->down = skip(&at, layers * dim * hidden);
    m->up = skip(&at, layers * hidden * dim);
    m->norm_final = skip(&at, dim);
    skip(&at, (size_t)m->context * (size_t)m->head_dim); /* rotary tables */
    m->classifier = tied ? m->embedding : skip(&at, vocab * dim);
    if ((size_t)(at - start) * sizeof(float) + 28 != size_bytes) stop("the model's size is wrong");
}

static void make_state(const model *m, state *s)
{
    size_t dim = (size_t)m->dim, hidden = (size_t)m->hidden, context = (size_t)m->context;
    size_t cache = (size_t)m->layers * context * (size_t)m->kv_dim;
    s->x = take_memory(dim * sizeof(float));
    s->normed = take_memory(dim * sizeof(float));
    s->mixed = take_memory(dim * sizeof(float));
    s->query = take_memory(dim * sizeof(float));
    s->scores = take_memory(context * sizeof(float));
    s->gate = take_memory(hidden * sizeof(float));
    s->up = take_memory(hidden * sizeof(float));
    s->logits = take_memory((size_t)m->vocab * sizeof(float));
    s->key_cache = take_memory(cache * sizeof(float));
    s->value_cache = take_memory(cache * sizeof(float));
}

/* ---- the layers --------------------------------------------------------------------------- */

static void rms_norm(float *restrict out, const float *restrict x, const float *restrict w, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + 1e-5f);
    for (int i = 0; i < n; i++) out[i] = x[i] * scale * w[i];
}

/* out [rows] = w [rows, n] times x [n] */
static void linear(float *restrict out, const float *restrict w, const float *restrict x, int rows,
                   int n)
{
    for (int r = 0; r < rows; r++) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += w[(size_t)r * (size_t)n + (size_t)i] * x[i];
        out[r] = sum;
    }
}

static void rotate(float *x, int n, int head_dim, int position)
{
    for (int i = 0; i < n; i += 2) {
        float frequency = 1 / powf(10000, (float)(i % head_dim) / (float)head_dim);
        float c = cosf((float)position * frequency), s = sinf((float)position * frequency);
        float a = x[i], b = x[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}

static void softmax(float *x, int n)
{
    float largest = x[0], sum = 0;
    for (int i = 1; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < n; i++) sum += x[i] = expf(x[i] - largest);
    for (int i = 0; i < n; i++) x[i] /= sum;
}

/* One head: out [head_dim] = softmax(query keys^T / sqrt(head_dim)) values */
static void attend(const model *m, state *s, const float *query, const float *keys,
                   const float *values, int position, float *out)
{
    size_t stride = (size_t)m->kv_dim;
    for (int t = 0; t <= position; t++) {
        float sum = 0;
        for (int i = 0; i < m->head_dim; i++)
            sum += query[i] * keys[(size_t)t * stride + (size_t)i];
        s->scores[t] = sum / sqrtf((float)m->head_dim);
    }
    softmax(s->scores, position + 1);
    for (int i = 0; i < m->head_dim; i++) out[i] = 0;
    for (int t = 0; t <= position; t++)
        for (int i = 0; i < m->head_dim; i++)
            out[i] += s->scores[t] * values[(size_t)t * stride + (size_t)i];
}

static void run_attention(const model *m, state *s, int layer, int position)
{
    size_t l = (size_t)layer, dim = (size_t)m->dim, kv_dim = (size_t)m->kv_dim;
    float *keys = s->key_cache + l * (size_t)m->context * kv_dim;
    float *values = s->value_cache + l * (size_t)m->context * kv_dim;
    float *key = keys + (size_t)position * kv_dim, *value = values + (size_t)position * kv_dim;
    rms_norm(s->normed, s->x, m->norm_attention + l * dim, m->dim);
    linear(s->query, m->query + l * dim * dim, s->normed, m->dim, m->dim);
    linear(key, m->key + l * kv_dim * dim, s->normed, m->kv_dim, m->dim);
    linear(value, m->value + l * kv_dim * dim, s->normed, m->kv_dim, m->dim);
    rotate(s->query, m->dim, m->head_dim, position);
    rotate(key, m->kv_dim, m->head_dim, position);
    for (int h = 0; h < m->heads; h++) {
        int from = h / (m->heads / m->kv_heads) * m->head_dim;
        attend(m, s, s->query + h * m->head_dim, keys + from, values + from, position,
               s->mixed + h * m->head_dim);
    }
    linear(s->normed, m->output + l * dim * dim, s->mixed, m->dim, m->dim);
    for (int i = 0; i < m->dim; i++) s->x[i] += s->normed[i];
}

static void run_ffn(const model *m, state *s, int layer)
{
    size_t l = (size_t)layer, dim = (size_t)m->dim, hidden = (size_t)m->hidden;
    rms_norm(s->normed, s->x, m->norm_ffn + l * dim, m->dim);
    linear(s->gate, m->gate + l * hidden * dim, s->normed, m->hidden, m->dim);
    linear(s->up, m->up + l * hidden * dim, s->normed, m->hidden, m->dim);
    for (int i = 0; i < m->hidden; i++)
        s->gate[i] = s->gate[i] / (1 + expf(-s->gate[i])) * s->up[i];
    linear(s->normed, m->down + l * dim * hidden, s->gate, m->dim, m->hidden);
    for (int i = 0; i < m->dim; i++) s->x[i] += s->normed[i];
}

static int next_token(const model *m, state *s, int token, int position)
{
    memcpy(s->x, m->embedding + (size_t)token * (size_t)m->dim, (size_t)m->dim * sizeof(float));
    for (int layer = 0; layer < m->layers; layer++) {
        run_attention(m, s, layer, position);
        run_ffn(m, s, layer);
    }
    rms_norm(s->normed, s->x, m->norm_final, m->dim);
    linear(s->logits, m->classifier, s->normed, m->vocab, m->dim);
    int best = 0;
    for (int i = 1; i < m->vocab; i++)
        if (s->logits[i] > s->logits[best]) best = i;
    return best;
}

/* ---- text --------------------------------------------------------------------------------- */

/* pieces[token] points at: score, length, bytes */
static const uint8_t **load_pieces(const char *path, int vocab)
{
    size_t size_bytes;
    const uint8_t *at = read_file(path, &size_bytes), *end = at + size_bytes;
    const uint8_t **pieces = take_memory((size_t)vocab * sizeof *pieces);
    at += 4;
    for (int token = 0; token < vocab; token++) {
        int32_t length;
        if (end - at < 8) stop("the tokenizer is too short");
        memcpy(&length, at + 4, 4);
        if (length < 0 || length > end - at - 8) stop("the tokenizer is damaged");
        pieces[token] = at;
        at += 8 + length;
    }
    return pieces;
}

static void print_piece(const uint8_t *piece, int after_bos)
{
    int32_t length;
    unsigned byte;
    memcpy(&length, piece + 4, 4);
    const char *text = (const char *)piece + 8;
    if (length == 6 && sscanf(text, "<0x%02X>", &byte) == 1) {
        putchar((int)byte);
        return;
    }
    int skipped = after_bos && length > 0 && text[0] == ' ';
    fwrite(text + skipped, 1, (size_t)(length - skipped), stdout);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns how many tokens were computed. pieces NULL: silent. */
static int tell_story(const model *m, state *s, const uint8_t **pieces, int steps)
{
    int token = BOS, position = 0;
    while (position < steps) {
        int next = next_token(m, s, token, position++);
        if (next == BOS || next == EOS) break;
        if (pieces) print_piece(pieces[next], token == BOS);
        token = next;
    }
    if (pieces) putchar('\n');
    return position;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) stop("usage: llama_plain MODEL TOKENIZER [STEPS [ROUNDS]]");
    model m;
    state s;
    load_model(argv[1], &m);
    make_state(&m, &s);
    const uint8_t **pieces = load_pieces(argv[2], m.vocab);
    int steps = argc > 3 ? atoi(argv[3]) : 256, rounds = argc > 4 ? atoi(argv[4]) : 1;
    if (steps < 1 || steps > m.context) steps = m.context;
    long tokens = 0;
    double start = now();
    for (int round = 0; round < rounds; round++)
        tokens += tell_story(&m, &s, round == 0 ? pieces : NULL, steps);
    fprintf(stderr, "%.1f tokens/s\n", (double)tokens / (now() - start));
    return 0;
}
