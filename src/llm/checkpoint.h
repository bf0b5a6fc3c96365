/* llm/checkpoint.h: the llama2.c checkpoint file (legacy version 0), checked and laid out. */
#ifndef UM_LLM_CHECKPOINT_H
#define UM_LLM_CHECKPOINT_H

#include "base/base.h"
#include "base/os.h"

#include <umbel/llm.h>

/* Weights as they lie in the file, row-major f32; good until um_checkpoint_close. Letters: L
 * layers, C dim, F hidden, V vocabulary, K = kv heads * C / heads. A layer's part of a [L, ...]
 * array is found by counting its elements. */
typedef struct um_checkpoint {
    um_file file;
    um_llm_info info;
    const float *embedding;        /* [V, C] */
    const float *norm_attention;   /* [L, C] */
    const float *query;            /* [L, C, C] */
    const float *key, *value;      /* [L, K, C] */
    const float *output;           /* [L, C, C] */
    const float *norm_ffn;         /* [L, C] */
    const float *gate, *down, *up; /* [L, F, C], [L, C, F], [L, F, C]: w1, w2, w3 */
    const float *norm_final;       /* [C] */
    const float *classifier;       /* [V, C]; the embedding when tied */
} um_checkpoint;

/* NOT_FOUND, IO_ERROR, CORRUPT_DATA. Allocates nothing that grows with what the header says. */
um_status um_checkpoint_open(const char *path, um_checkpoint *out);
void um_checkpoint_close(um_checkpoint *checkpoint); /* all zero is legal */

/* The little-endian i32 at `bytes`. */
static inline int32_t um_le_i32(const uint8_t *bytes)
{
    return (int32_t)((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                     (uint32_t)bytes[3] << 24);
}

#endif
