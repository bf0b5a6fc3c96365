/* umbel/llm.h: language models: load a checkpoint, evaluate tokens, sample, tokenize.
 *
 * Formats: llama2.c checkpoints (legacy version 0, f32) and their tokenizer files, by A. Karpathy's
 * llama2.c. Every file is checked before anything is believed: sizes against the file's size first,
 * so a damaged header never causes a large allocation. One object from one thread at a time.
 */
#ifndef UMBEL_LLM_H
#define UMBEL_LLM_H

#include <umbel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct um_llm um_llm;
typedef struct um_tokenizer um_tokenizer;
typedef struct um_sampler um_sampler;

/* ---- model -------------------------------------------------------------------------------- */

typedef struct um_llm_info {
    int32_t dim, hidden_dim, layer_count, head_count, kv_head_count, vocab_size, context_length;
    int32_t tied_classifier; /* the output layer shares the embedding's weights */
    int64_t parameter_count;
} um_llm_info;

/* NOT_FOUND, IO_ERROR (the file), CORRUPT_DATA (its content), OUT_OF_MEMORY, or the device's error.
 */
UM_API UM_MUST_CHECK um_status um_llm_load(um_device *device, const char *path,
                                           UM_GIVE um_llm **out);
UM_API void um_llm_release(UM_TAKE um_llm *llm); /* NULL is legal */
UM_API void um_llm_get_info(UM_KEEP const um_llm *llm, um_llm_info *out);

/* Evaluates `count` tokens that follow the `position` tokens evaluated before (position 0 starts
 * anew; a smaller position than before forgets what came after it). logits (may be NULL):
 * vocab_size f32 for the token after the last. Waits. OUT_OF_RANGE: a token outside the vocabulary,
 * or position + count > context_length. INVALID_ARGUMENT: count < 1, position < 0 or beyond what
 * was evaluated. */
UM_API UM_MUST_CHECK um_status um_llm_eval(um_llm *llm, int32_t count, const int32_t *tokens,
                                           int32_t position, float *logits);

/* ---- tokenizer ---------------------------------------------------------------------------- */

enum { UM_TOKEN_BOS = 1, UM_TOKEN_EOS = 2 };

/* vocab_size is the model's. CORRUPT_DATA: the file is damaged, or holds another number of tokens.
 */
UM_API UM_MUST_CHECK um_status um_tokenizer_load(const char *path, int32_t vocab_size,
                                                 UM_GIVE um_tokenizer **out);
UM_API void um_tokenizer_release(UM_TAKE um_tokenizer *tokenizer);
/* UTF-8 text to tokens (BOS first). *count in: room; out: tokens needed. Pieces that the vocabulary
 * lacks become byte tokens. OUT_OF_RANGE: more than the room, tokens then holds the first ones. */
UM_API UM_MUST_CHECK um_status um_tokenizer_encode(um_tokenizer *tokenizer, const char *text,
                                                   int32_t *count, int32_t *tokens);
/* The bytes of `token` when it follows `previous` (a leading blank is dropped after BOS); not
 * 0-terminated. Borrowed. OUT_OF_RANGE: no such token. */
UM_API UM_MUST_CHECK um_status um_tokenizer_decode(const um_tokenizer *tokenizer, int32_t previous,
                                                   int32_t token, const char **bytes,
                                                   size_t *size_bytes);

/* ---- sampler ------------------------------------------------------------------------------ */

typedef struct um_sampler_desc {
    int32_t vocab_size;
    float temperature; /* 0: greedy, the lowest index of equal largest; else > 0 */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 0 or 1: off; else in (0, 1) */
    uint64_t seed;     /* Philox 4x32-10 key; same seed, same choices */
} um_sampler_desc;

/* INVALID_ARGUMENT: a field outside what is said above. OUT_OF_MEMORY. */
UM_API UM_MUST_CHECK um_status um_sampler_create(const um_sampler_desc *desc,
                                                 UM_GIVE um_sampler **out);
UM_API void um_sampler_release(UM_TAKE um_sampler *sampler);
/* Order: top-k, then temperature, softmax, top-p. INVALID_ARGUMENT: a NaN among the logits. */
UM_API UM_MUST_CHECK um_status um_sampler_next(um_sampler *sampler, const float *logits,
                                               int32_t *token);

#ifdef __cplusplus
}
#endif
#endif
