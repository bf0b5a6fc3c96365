/* device/pieces.h: pieces of a stretch of memory, for drivers that take memory in large blocks and
 * give it out in pieces. No lock of its own. */
#ifndef UM_DEVICE_PIECES_H
#define UM_DEVICE_PIECES_H

#include "base/base.h"

/* From there to where the next one begins. */
typedef struct um_piece {
    uint64_t offset;
    bool used;
} um_piece;

/* Invariant: offsets ascend from 0, no two neighbours are unused, and behind the last one a used
 * one begins at the end. */
typedef struct um_pieces {
    um_piece *at;
    int64_t count, capacity;
} um_pieces;

/* One, unused. OUT_OF_MEMORY. */
um_status um_pieces_create(uint64_t size_bytes, um_pieces *out);
void um_pieces_release(um_pieces *pieces); /* of one that is all 0, too */
/* The first that is large enough, or of it as much. false: none is, or there is no memory to note
 * it; the first time there is. */
bool um_pieces_take(um_pieces *pieces, uint64_t size_bytes, uint64_t *offset);
/* What was taken at that offset. */
void um_pieces_give(um_pieces *pieces, uint64_t offset);
bool um_pieces_unused(const um_pieces *pieces);

#endif
