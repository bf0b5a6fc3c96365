/* Pieces of a stretch of memory; see pieces.h. */
#include "device/pieces.h"

um_status um_pieces_create(uint64_t size_bytes, um_pieces *out)
{
    void *items = NULL;
    *out = (um_pieces){.count = 1};
    UM_TRY(um_vec_reserve(&items, &out->capacity, 0, sizeof *out->at, "pieces of memory"));
    out->at = items;
    out->at[0] = (um_piece){0, false};
    out->at[1] = (um_piece){size_bytes, true};
    return UM_OK;
}

void um_pieces_release(um_pieces *pieces) { um_mem_free(pieces->at); }

bool um_pieces_take(um_pieces *pieces, uint64_t size_bytes, uint64_t *offset)
{
    int64_t i = 0;
    void *items = pieces->at;
    for (um_piece *p = pieces->at; i < pieces->count; i++)
        if (!p[i].used && p[i + 1].offset - p[i].offset >= size_bytes) break;
    if (i == pieces->count || um_vec_reserve(&items, &pieces->capacity, pieces->count + 1,
                                             sizeof *pieces->at, "pieces of memory") != UM_OK)
        return false;
    um_piece *piece = pieces->at = items;
    if (piece[i + 1].offset - piece[i].offset > size_bytes) {
        memmove(piece + i + 2, piece + i + 1, (size_t)(pieces->count++ - i) * sizeof *piece);
        piece[i + 1] = (um_piece){piece[i].offset + size_bytes, false};
    }
    piece[i].used = true;
    *offset = piece[i].offset;
    return true;
}

/* Makes it a part of the one before. */
static void join(um_pieces *pieces, int64_t i)
{
    memmove(pieces->at + i, pieces->at + i + 1, (size_t)(pieces->count-- - i) * sizeof *pieces->at);
}

void um_pieces_give(um_pieces *pieces, uint64_t offset)
{
    int64_t low = 0, high = pieces->count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (pieces->at[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    pieces->at[low].used = false;
    if (!pieces->at[low + 1].used) join(pieces, low + 1);
    if (low > 0 && !pieces->at[low - 1].used) join(pieces, low);
}

bool um_pieces_unused(const um_pieces *pieces) { return pieces->count == 1 && !pieces->at[0].used; }
