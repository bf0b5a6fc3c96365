/* base/dtype.c: the facts about dtypes, and um_convert over um_load and um_store (dtype_load.c). */
#include "base/dtype.h"

static const struct {
    const char *name;
    int32_t bits;
    um_dtype_kind kind;
} rows[] = {
    {"none", 0, UM_KIND_NONE},
#define UM_DTYPE(id, NAME, name, bits, kind) [id] = {#name, bits, UM_KIND_##kind},
#include <umbel/dtype.def>
#undef UM_DTYPE
};

bool um_dtype_valid(um_dtype dtype)
{
    return dtype > UM_DTYPE_NONE && (size_t)dtype < UM_COUNT_OF(rows);
}

const char *um_dtype_name(um_dtype dtype) { return rows[um_dtype_valid(dtype) ? dtype : 0].name; }

int32_t um_dtype_bits(um_dtype dtype) { return rows[um_dtype_valid(dtype) ? dtype : 0].bits; }

um_dtype_kind um_dtype_get_kind(um_dtype dtype)
{
    return rows[um_dtype_valid(dtype) ? dtype : 0].kind;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_name(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) a++, b++;
    return lower(*a) == lower(*b);
}

um_dtype um_dtype_find(const char *name)
{
    if (!name) return UM_DTYPE_NONE;
    for (um_dtype dtype = 1; um_dtype_valid(dtype); dtype++)
        if (same_name(name, rows[dtype].name)) return dtype;
    return UM_DTYPE_NONE;
}

um_status um_dtype_size(um_dtype dtype, int64_t count, size_t *size_bytes)
{
    if (!size_bytes) return UM_FAIL(UM_INVALID_ARGUMENT, "dtype_size: size_bytes is NULL");
    *size_bytes = 0;
    if (!um_dtype_valid(dtype))
        return UM_FAIL(UM_INVALID_ARGUMENT, "dtype_size: no dtype has number %d", dtype);
    if (count < 0)
        return UM_FAIL(UM_INVALID_ARGUMENT, "dtype_size: count is %lld, wanted at least 0",
                       (long long)count);
    int64_t bits = rows[dtype].bits;
    int64_t bytes = bits < 8 ? um_ceil_div(count, 8 / bits) : count;
    if ((bits > 8 && !um_mul_i64(count, bits / 8, &bytes)) || (uint64_t)bytes > SIZE_MAX)
        return UM_FAIL(UM_INVALID_ARGUMENT, "dtype_size: %lld elements of %s do not fit in memory",
                       (long long)count, rows[dtype].name);
    *size_bytes = (size_t)bytes;
    return UM_OK;
}

um_class um_dtype_class(um_dtype dtype)
{
    if (dtype == UM_F64) return UM_CLASS_F64;
    if (um_dtype_is_float(dtype)) return UM_CLASS_F32;
    return dtype == UM_U64 ? UM_CLASS_U64 : UM_CLASS_I64;
}

static void convert(um_dtype dst_dtype, void *dst, um_dtype src_dtype, const void *src,
                    int64_t count)
{
    um_class c = um_dtype_class(src_dtype);
    um_class_chunk chunk;
    for (int64_t i = 0; i < count; i += UM_DTYPE_CHUNK) {
        int64_t n = UM_MIN(count - i, UM_DTYPE_CHUNK);
        um_load(c, &chunk, src_dtype, src, i, 1, n);
        um_store(dst_dtype, dst, i, 1, c, &chunk, n);
    }
}

um_status um_convert(um_dtype dst_dtype, void *dst, um_dtype src_dtype, const void *src,
                     int64_t count)
{
    size_t dst_bytes, src_bytes;
    UM_TRY(um_dtype_size(dst_dtype, count, &dst_bytes));
    UM_TRY(um_dtype_size(src_dtype, count, &src_bytes));
    if (count == 0) return UM_OK;
    if (!dst || !src)
        return UM_FAIL(UM_INVALID_ARGUMENT, "convert: %s is NULL for %lld elements",
                       dst ? "src" : "dst", (long long)count);
    /* bool, because its bytes may be other than 0 and 1; 4 bits, because the other half of the last
     * byte is not ours. */
    if (dst_dtype == src_dtype && dst_dtype != UM_BOOL && rows[dst_dtype].bits >= 8)
        memmove(dst, src, dst_bytes);
    else
        convert(dst_dtype, dst, src_dtype, src, count);
    return UM_OK;
}
