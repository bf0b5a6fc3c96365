/* llm/tokenizer.c: llama2.c tokenizer files (a longest length, then score, length and bytes of
 * each token) and byte-pair encoding as llama2.c does it: of all neighbours that together are a
 * token, the best-scoring pair is merged first, of equal scores the leftmost. */
#include "base/base.h"
#include "base/os.h"
#include "llm/checkpoint.h"
#include "llm/heap.h"

#include <umbel/llm.h>

enum { FILE_HEADER_BYTES = 4, TOKEN_HEADER_BYTES = 8, FIRST_BYTE_TOKEN = 3 };

typedef struct token_entry {
    const uint8_t *bytes; /* in the tokenizer's text */
    int32_t size_bytes;
    float score;
} token_entry;

struct um_tokenizer {
    int32_t vocab_size, longest_bytes;
    token_entry *tokens; /* [vocab_size] */
    uint8_t *text;       /* the file's content */
    uint8_t *pair;       /* [2 * longest_bytes], two tokens side by side */
    int32_t *slots;      /* open addressing: token or -1 */
    uint32_t slot_mask;
    char byte_text[256]; /* what the tokens <0x00> to <0xFF> stand for */
};

/* ---- vocabulary --------------------------------------------------------------------------- */

static bool token_equals(const token_entry *token, const uint8_t *bytes, int64_t size_bytes)
{
    return token->size_bytes == size_bytes && memcmp(token->bytes, bytes, (size_t)size_bytes) == 0;
}

/* The slot that holds the token with these bytes, or the free one where it would go. */
static uint32_t find_slot(const um_tokenizer *t, const uint8_t *bytes, int64_t size_bytes)
{
    uint32_t slot = (uint32_t)um_hash(bytes, (size_t)size_bytes, 0) & t->slot_mask;
    while (t->slots[slot] >= 0 && !token_equals(&t->tokens[t->slots[slot]], bytes, size_bytes))
        slot = (slot + 1) & t->slot_mask;
    return slot;
}

/* The lowest token with these bytes, or -1. */
static int32_t find_token(const um_tokenizer *t, const uint8_t *bytes, int64_t size_bytes)
{
    return t->slots[find_slot(t, bytes, size_bytes)];
}

static void index_tokens(um_tokenizer *t)
{
    for (uint32_t slot = 0; slot <= t->slot_mask; slot++) t->slots[slot] = -1;
    for (int32_t token = 0; token < t->vocab_size; token++) {
        const token_entry *entry = &t->tokens[token];
        if (entry->size_bytes == 0) continue;
        uint32_t slot = find_slot(t, entry->bytes, entry->size_bytes);
        if (t->slots[slot] < 0) t->slots[slot] = token;
    }
}

static um_status parse_tokens(um_tokenizer *t, const char *path, uint64_t size_bytes)
{
    uint64_t at = FILE_HEADER_BYTES;
    for (int32_t token = 0; token < t->vocab_size; token++) {
        if (size_bytes - at < TOKEN_HEADER_BYTES)
            return UM_FAIL(UM_CORRUPT_DATA, "tokenizer: %s: ends after %d tokens, wanted %d", path,
                           token, t->vocab_size);
        int32_t score_bits = um_le_i32(t->text + at), length = um_le_i32(t->text + at + 4);
        at += TOKEN_HEADER_BYTES;
        if (length < 0 || length > t->longest_bytes || (uint64_t)length > size_bytes - at)
            return UM_FAIL(
                UM_CORRUPT_DATA,
                "tokenizer: %s: token %d has length %d, wanted at most %d and the file's "
                "%llu bytes",
                path, token, length, t->longest_bytes, (unsigned long long)(size_bytes - at));
        t->tokens[token] = (token_entry){.bytes = t->text + at, .size_bytes = length};
        memcpy(&t->tokens[token].score, &score_bits, sizeof score_bits);
        at += (uint64_t)length;
    }
    if (at != size_bytes)
        return UM_FAIL(UM_CORRUPT_DATA, "tokenizer: %s: got %llu bytes after token %d, wanted none",
                       path, (unsigned long long)(size_bytes - at), t->vocab_size - 1);
    return UM_OK;
}

/* Everything the file's size does not bound is refused before memory is asked for. */
static um_status check_file(const char *path, const um_file *file, int32_t vocab_size)
{
    uint64_t least = FILE_HEADER_BYTES + (uint64_t)vocab_size * TOKEN_HEADER_BYTES;
    if (file->size_bytes < least)
        return UM_FAIL(UM_CORRUPT_DATA,
                       "tokenizer: %s: got %llu bytes, wanted at least %llu for %d tokens", path,
                       (unsigned long long)file->size_bytes, (unsigned long long)least, vocab_size);
    int32_t longest = um_le_i32(file->data);
    if (longest < 1 || (uint64_t)longest > file->size_bytes)
        return UM_FAIL(UM_CORRUPT_DATA,
                       "tokenizer: %s: longest token is %d bytes, wanted 1 to the file's %llu",
                       path, longest, (unsigned long long)file->size_bytes);
    return UM_OK;
}

static um_status fill_tokenizer(um_tokenizer *t, const char *path, const um_file *file)
{
    size_t vocab = (size_t)t->vocab_size, slot_count = 4;
    while (slot_count < 2 * vocab) slot_count *= 2;
    t->slot_mask = (uint32_t)(slot_count - 1);
    t->longest_bytes = um_le_i32(file->data);
    t->tokens = um_mem_alloc(vocab * sizeof *t->tokens);
    t->text = um_mem_alloc(file->size_bytes);
    t->pair = um_mem_alloc(2 * (size_t)t->longest_bytes);
    t->slots = um_mem_alloc(slot_count * sizeof *t->slots);
    if (!t->tokens || !t->text || !t->pair || !t->slots)
        return UM_FAIL(UM_OUT_OF_MEMORY, "tokenizer: no memory for %zu tokens", vocab);
    memcpy(t->text, file->data, file->size_bytes);
    for (int i = 0; i < 256; i++) t->byte_text[i] = (char)i;
    UM_TRY(parse_tokens(t, path, file->size_bytes));
    index_tokens(t);
    return UM_OK;
}

um_status um_tokenizer_load(const char *path, int32_t vocab_size, um_tokenizer **out)
{
    if (!out) return UM_FAIL(UM_INVALID_ARGUMENT, "tokenizer: out is NULL");
    *out = NULL;
    if (!path || vocab_size < 1)
        return UM_FAIL(UM_INVALID_ARGUMENT, "tokenizer: path %s, vocab_size %d, wanted 1 or more",
                       path ? path : "is NULL", vocab_size);
    um_file file;
    UM_TRY(um_file_open(path, &file));
    um_tokenizer *t = NULL;
    um_status status = check_file(path, &file, vocab_size);
    if (status != UM_OK) goto done;
    t = um_mem_zalloc(sizeof *t);
    if (!t) {
        status = UM_FAIL(UM_OUT_OF_MEMORY, "tokenizer: no memory");
        goto done;
    }
    t->vocab_size = vocab_size;
    status = fill_tokenizer(t, path, &file);
    if (status == UM_OK) *out = t;
done:
    um_file_close(&file);
    if (status != UM_OK) um_tokenizer_release(t);
    return status;
}

void um_tokenizer_release(um_tokenizer *t)
{
    if (!t) return;
    um_mem_free(t->tokens);
    um_mem_free(t->text);
    um_mem_free(t->pair);
    um_mem_free(t->slots);
    um_mem_free(t);
}

/* ---- encode ------------------------------------------------------------------------------- */

/* A linked list of tokens, in text order. merge is the token that this one and the next make, or
 * -1. */
typedef struct symbol {
    int32_t token, previous, next, merge;
} symbol;

typedef struct merge_list {
    symbol *symbols;
    um_heap_item *heap; /* (score of the merge, left symbol); out of date where merge has changed */
    int64_t symbol_count, heap_count;
} merge_list;

static void push_symbol(merge_list *list, int32_t token)
{
    int32_t at = (int32_t)list->symbol_count++;
    list->symbols[at] = (symbol){token, at - 1, -1, -1};
    if (at > 0) list->symbols[at - 1].next = at;
}

/* One character as a token, or as one token a byte. */
static void push_character(const um_tokenizer *t, merge_list *list, const uint8_t *bytes,
                           int64_t size_bytes)
{
    int32_t token = find_token(t, bytes, size_bytes);
    if (token >= 0) {
        push_symbol(list, token);
        return;
    }
    for (int64_t i = 0; i < size_bytes; i++) {
        token = bytes[i] + FIRST_BYTE_TOKEN;
        push_symbol(list, token < t->vocab_size ? token : 0);
    }
}

/* A character is a byte and up to three continuation bytes (10xxxxxx), valid UTF-8 or not. */
static void push_text(const um_tokenizer *t, merge_list *list, const uint8_t *text, int64_t size)
{
    for (int64_t start = 0, end; start < size; start = end) {
        end = start + 1;
        while (end < size && end - start < 4 && (text[end] & 0xC0) == 0x80) end++;
        push_character(t, list, text + start, end - start);
    }
}

/* Looks up what symbol `at` and the next make, and queues it. */
static void queue_merge(const um_tokenizer *t, merge_list *list, int32_t at)
{
    symbol *left = &list->symbols[at];
    left->merge = -1;
    if (left->next < 0) return;
    const token_entry *a = &t->tokens[left->token];
    const token_entry *b = &t->tokens[list->symbols[left->next].token];
    memcpy(t->pair, a->bytes, (size_t)a->size_bytes);
    memcpy(t->pair + a->size_bytes, b->bytes, (size_t)b->size_bytes);
    int32_t merge = find_token(t, t->pair, (int64_t)a->size_bytes + b->size_bytes);
    if (merge < 0 || !(t->tokens[merge].score > -1e10f)) return; /* llama2.c's worst score */
    left->merge = merge;
    um_heap_push(list->heap, list->heap_count++, (um_heap_item){t->tokens[merge].score, at});
}

static void merge_pairs(const um_tokenizer *t, merge_list *list)
{
    for (int32_t at = 0; at < list->symbol_count; at++) queue_merge(t, list, at);
    while (list->heap_count > 0) {
        um_heap_item best = um_heap_pop(list->heap, list->heap_count--);
        symbol *left = &list->symbols[best.index];
        if (left->merge < 0 || t->tokens[left->merge].score != best.score) continue;
        symbol *right = &list->symbols[left->next];
        left->token = left->merge;
        left->next = right->next;
        right->merge = -1;
        if (right->next >= 0) list->symbols[right->next].previous = best.index;
        queue_merge(t, list, best.index);
        if (left->previous >= 0) queue_merge(t, list, left->previous);
    }
}

/* BOS and the list's tokens, as far as there is room; returns how many there are. */
static int32_t write_tokens(const merge_list *list, int32_t room, int32_t *tokens)
{
    int32_t count = 0;
    if (room > 0) tokens[0] = UM_TOKEN_BOS;
    for (int32_t at = list->symbol_count > 0 ? 0 : -1; at >= 0; at = list->symbols[at].next)
        if (++count < room) tokens[count] = list->symbols[at].token;
    return count + 1;
}

um_status um_tokenizer_encode(um_tokenizer *t, const char *text, int32_t *count, int32_t *tokens)
{
    if (!t || !text || !count || (*count > 0 && !tokens))
        return UM_FAIL(UM_INVALID_ARGUMENT, "tokenizer: %s is NULL",
                       !t       ? "tokenizer"
                       : !text  ? "text"
                       : !count ? "count"
                                : "tokens");
    int32_t room = *count;
    *count = 0;
    size_t size = strlen(text), most = INT32_MAX / 4;
    if (size > most)
        return UM_FAIL(UM_INVALID_ARGUMENT, "tokenizer: text of %zu bytes, wanted at most %zu",
                       size, most);
    /* A blank and one symbol a byte at most; each merge takes one item from the heap at least and
     * adds two, so it never holds more than twice the symbols. */
    merge_list list = {.symbols = um_mem_alloc((size + 1) * sizeof *list.symbols),
                       .heap = um_mem_alloc((size + 1) * 2 * sizeof *list.heap)};
    um_status status = UM_OK;
    if (!list.symbols || !list.heap) {
        status = UM_FAIL(UM_OUT_OF_MEMORY, "tokenizer: no memory for %zu bytes of text", size);
        goto done;
    }
    if (size > 0) push_character(t, &list, (const uint8_t *)" ", 1);
    push_text(t, &list, (const uint8_t *)text, (int64_t)size);
    merge_pairs(t, &list);
    *count = write_tokens(&list, room, tokens);
    if (*count > room)
        status = UM_FAIL(UM_OUT_OF_RANGE, "tokenizer: text makes %d tokens, wanted at most %d",
                         *count, room);
done:
    um_mem_free(list.symbols);
    um_mem_free(list.heap);
    return status;
}

/* ---- decode ------------------------------------------------------------------------------- */

static int32_t hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* The byte that "<0xNN>" stands for, or -1. */
static int32_t parse_byte_token(const token_entry *token)
{
    const uint8_t *b = token->bytes;
    if (token->size_bytes != 6 || memcmp(b, "<0x", 3) != 0 || b[5] != '>') return -1;
    int32_t high = hex_digit(b[3]), low = hex_digit(b[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

um_status um_tokenizer_decode(const um_tokenizer *t, int32_t previous, int32_t token,
                              const char **bytes, size_t *size_bytes)
{
    if (!t || !bytes || !size_bytes)
        return UM_FAIL(UM_INVALID_ARGUMENT, "tokenizer: %s is NULL",
                       !t       ? "tokenizer"
                       : !bytes ? "bytes"
                                : "size_bytes");
    *bytes = "";
    *size_bytes = 0;
    if (token < 0 || token >= t->vocab_size)
        return UM_FAIL(UM_OUT_OF_RANGE, "tokenizer: token %d, wanted 0 to %d", token,
                       t->vocab_size - 1);
    const token_entry *entry = &t->tokens[token];
    int32_t byte = parse_byte_token(entry);
    if (byte >= 0) {
        *bytes = &t->byte_text[byte];
        *size_bytes = 1;
        return UM_OK;
    }
    size_t skip = previous == UM_TOKEN_BOS && entry->size_bytes > 0 && entry->bytes[0] == ' ';
    *bytes = (const char *)entry->bytes + skip;
    *size_bytes = (size_t)entry->size_bytes - skip;
    return UM_OK;
}
