// test/shim/cuda.hpp: the words of CUDA C++ and HIP C++ that src/render/dialect_cuda.c uses, on the
// host. Each word is said in one place; a subgroup is spoken of by both dialects' words.
#include "common.hpp"

using namespace shim;

#define __global__
#define __device__
#define __launch_bounds__(n)
#define __shared__   static thread_local
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (shim_self()->local)
#define blockIdx  (shim_self()->group)
#define blockDim  (shim_self()->size)
#define gridDim   (shim_self()->groups)
#define warpSize  ((int)shim_self()->width)

#define __syncthreads() shim_barrier(__LINE__)

// cuda: the mask has to name who takes part. All of a subgroup that are there do.
#define __activemask()                (~0u)
#define __shfl_sync(mask, v, from)    __shfl(v, from)
#define __shfl_xor_sync(mask, v, by)  __shfl_xor(v, by)
#define __shfl_up_sync(mask, v, by)   __shfl_up(v, by)
#define __shfl_down_sync(mask, v, by) __shfl_down(v, by)

#define __shfl(v, from)    shim_exchange(v, (unsigned int)(from) % shim_self()->width, __LINE__)
#define __shfl_xor(v, by)  shim_exchange(v, shim_self()->lane ^ (unsigned int)(by), __LINE__)
#define __shfl_up(v, by)   shim_exchange(v, shim_self()->lane - (unsigned int)(by), __LINE__)
#define __shfl_down(v, by) shim_exchange(v, shim_self()->lane + (unsigned int)(by), __LINE__)

inline int __mulhi(int a, int b) { return mul_high(a, b); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return mul_high(a, b); }
inline int __popc(unsigned int x) { return (int)popcount(x); }
inline int __clz(int x) { return (int)clz((unsigned int)x); }

#define SHIM_VECTORS(name, T)                                                                      \
    typedef shim_vec2<T> name##2;                                                                  \
    typedef shim_vec4<T> name##4;                                                                  \
    inline name##2 make_##name##2(T x, T y) { return name##2(x, y); }                              \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4(x, y, z, w); }
SHIM_VECTORS(float, float)
SHIM_VECTORS(int, int)
SHIM_VECTORS(uint, unsigned int)
SHIM_VECTORS(ushort, unsigned short)
SHIM_VECTORS(uchar, unsigned char)
SHIM_VECTORS(char, signed char)

template <class T> struct shim_same {
    typedef T type;
};
#define SHIM_ATOMIC(name, e)                                                                       \
    template <class T> inline T name(T *at, typename shim_same<T>::type b)                         \
    {                                                                                              \
        return shim_atomic(at, [b](T a) -> T { return e; });                                       \
    }
SHIM_ATOMIC(atomicAdd, (T)((unsigned int)a + (unsigned int)b))
SHIM_ATOMIC(atomicMin, a < b ? a : b)
SHIM_ATOMIC(atomicMax, a < b ? b : a)
SHIM_ATOMIC(atomicAnd, a &b)
SHIM_ATOMIC(atomicOr, a | b)
SHIM_ATOMIC(atomicXor, a ^ b)
SHIM_ATOMIC(atomicExch, b)
template <class T>
inline T atomicCAS(T *at, typename shim_same<T>::type expected, typename shim_same<T>::type b)
{
    return shim_atomic(at, [expected, b](T a) -> T { return a == expected ? b : a; });
}

// Matrix fragments and asynchronous copies: the primitives of src/render/frag_cuda.c, by PTX ISA's
// figures: registers hold e elements; row r and depth p of A lie in lane r % 8 * 4 + p % 4e / e,
// register r / 8 + 2 (p / 4e), B's column as A's row. Sums go up by the depth, as interpreted.
#define UMBEL_SHIM

inline float shim_f16(unsigned int bits)
{
    unsigned int exponent = bits >> 10 & 31u, digits = bits & 0x3ffu;
    float value = exponent ? (float)(digits | 0x400u) * shim_bits<float>((exponent + 102) << 23)
                           : (float)digits * 0x1p-24f;
    if (exponent == 31) value = shim_bits<float>(0x7f800000u | digits << 13);
    return bits >> 15 & 1 ? -value : value;
}

struct shim_of_f16 {
    enum { each = 2, depth = 16, rows = 16 };
    static float value(const unsigned int *x, int i) { return shim_f16(x[i / 2] >> i % 2 * 16); }
};
struct shim_of_bf16 {
    enum { each = 2, depth = 16, rows = 16 };
    static float value(const unsigned int *x, int i)
    {
        return shim_bits<float>(x[i / 2] >> i % 2 * 16 << 16);
    }
};
struct shim_of_i8 {
    enum { each = 4, depth = 32, rows = 16 };
    static int value(const unsigned int *x, int i) { return (signed char)(x[i / 4] >> i % 4 * 8); }
};
struct shim_of_f64 {
    enum { each = 1, depth = 4, rows = 8 };
    static double value(const double *x, int i) { return x[i]; }
};

template <class O, class R, class T> inline void shim_mma(T *d, const R *a, const R *b, const T *c)
{
    const int e = O::each, lane = (int)shim_self()->lane, items = O::rows / 4;
    T sum[4];
    shim_shown of_a = shim_show(a, __LINE__), of_b = shim_show(b, __LINE__);
    for (int i = 0; i < items; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        sum[i] = c[i];
        for (int p = 0; p < O::depth; p++) {
            int high = p / (4 * e), from = p % (4 * e) / e, at = p % e;
            const R *x = (const R *)of_a.of(row % 8 * 4 + from);
            const R *y = (const R *)of_b.of(column * 4 + from);
            sum[i] += O::value(x, (row / 8 + 2 * high) * e + at) * O::value(y, high * e + at);
        }
    }
    shim_show(a, __LINE__);
    for (int i = 0; i < items; i++) d[i] = sum[i];
}
#define SHIM_MMA(name, R, T)                                                                       \
    inline void um_mma_##name(T *d, const R *a, const R *b, const T *c)                            \
    {                                                                                              \
        shim_mma<shim_of_##name>(d, a, b, c);                                                      \
    }
SHIM_MMA(f16, unsigned int, float)
SHIM_MMA(bf16, unsigned int, float)
SHIM_MMA(i8, unsigned int, int)
SHIM_MMA(f64, double, double)

// Lanes 8j .. say where the rows of matrix j begin, of 8 elements of 16 bits; a lane gets two of
// row lane / 4, turned: of column lane / 4.
template <bool TURNED, int COUNT> inline void shim_ldmatrix(unsigned int *x, const void *row)
{
    if ((uintptr_t)row % 16 != 0) __builtin_trap();
    unsigned int lane = shim_self()->lane, got[COUNT];
    shim_shown rows = shim_show(row, __LINE__);
    for (unsigned int j = 0; j < COUNT; j++) {
        unsigned short item[2];
        for (unsigned int i = 0; i < 2; i++) {
            unsigned int r = TURNED ? lane % 4 * 2 + i : lane / 4;
            unsigned int c = TURNED ? lane / 4 : lane % 4 * 2 + i;
            item[i] = ((const unsigned short *)rows.of((int)(8 * j + r)))[c];
        }
        got[j] = item[0] | (unsigned int)item[1] << 16;
    }
    shim_show(row, __LINE__);
    for (int j = 0; j < COUNT; j++) x[j] = got[j];
}
template <bool TURNED> inline void um_ldmatrix4(unsigned int *x, const void *row)
{
    shim_ldmatrix<TURNED, 4>(x, row);
}
template <bool TURNED> inline void um_ldmatrix2(unsigned int *x, const void *row)
{
    shim_ldmatrix<TURNED, 2>(x, row);
}

inline void um_async_copy(void *to, const void *from)
{
    if ((uintptr_t)to % 16 != 0 || (uintptr_t)from % 16 != 0) __builtin_trap();
    __builtin_memcpy(to, from, 16);
}
inline void um_async_commit() {}
template <int LEFT> inline void um_async_wait() {}

// HIP's um_frag_mma, for the places that src/render/frag_hip.c gives.
#define UM_SHIM_FRAG_MMA                                                                           \
    template <int T> inline double shim_item(const void *x, unsigned int i)                        \
    {                                                                                              \
        if (T == um_f64) return ((const double *)x)[i];                                            \
        if (T == um_f32) return ((const float *)x)[i];                                             \
        if (T == um_i8) return ((const signed char *)x)[i];                                        \
        unsigned int bits = ((const unsigned short *)x)[i];                                        \
        return T == um_f16 ? shim_f16(bits) : shim_bits<float>(bits << 16);                        \
    }                                                                                              \
    template <int T, int S, unsigned int M, unsigned int N, unsigned int K>                        \
    inline void um_frag_mma(um_frag<um_c, S, M, N, K> &d, const um_frag<um_a, T, M, N, K> &a,      \
                            const um_frag<um_b, T, M, N, K> &b,                                    \
                            const um_frag<um_c, S, M, N, K> &c)                                    \
    {                                                                                              \
        typedef typename um_frag<um_c, S, M, N, K>::word word;                                     \
        word x[M][K], y[K][N], sum[M * N / um_lanes];                                              \
        shim_shown of_a = shim_show(a.x, __LINE__), of_b = shim_show(b.x, __LINE__);               \
        for (unsigned int l = 0; l < um_lanes; l++) {                                              \
            for (unsigned int i = 0; i < a.count; i++)                                             \
                x[um_place<um_a, T>::row(l, i, a.each, a.count)]                                   \
                 [um_place<um_a, T>::column(l, i, a.each, a.count)] =                              \
                     (word)shim_item<T>(of_a.of((int)l), i);                                       \
            for (unsigned int i = 0; i < b.count; i++)                                             \
                y[um_place<um_b, T>::row(l, i, b.each, b.count)]                                   \
                 [um_place<um_b, T>::column(l, i, b.each, b.count)] =                              \
                     (word)shim_item<T>(of_b.of((int)l), i);                                       \
        }                                                                                          \
        for (unsigned int i = 0; i < c.count; i++) {                                               \
            sum[i] = c.x[i];                                                                       \
            for (unsigned int p = 0; p < K; p++)                                                   \
                sum[i] += x[um_frag_row(c, i)][p] * y[p][um_frag_column(c, i)];                    \
        }                                                                                          \
        shim_show(a.x, __LINE__);                                                                  \
        for (unsigned int i = 0; i < c.count; i++) d.x[i] = sum[i];                                \
    }
