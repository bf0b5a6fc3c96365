template <class T, class S> __device__ inline T um_bits(S from)
{
    union { S from; T to; } bits;
    bits.from = from;
    return bits.to;
}
__device__ inline unsigned int um_local_index()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
#if defined(__GFX11__) || defined(__GFX12__)
enum { um_lanes = 32, um_wmma = 1 };
#else
enum { um_lanes = 64, um_wmma = 0 };
#endif
#ifdef __GFX11__
enum { um_twice = 1 };
#else
enum { um_twice = 0 };
#endif
template <int R, int T> struct um_place {
    static constexpr unsigned int copies = um_twice && R != 2 ? 2 : 1;
    __device__ static unsigned int depth(unsigned int l, unsigned int i, unsigned int n)
    {
        return um_twice ? i : l / 16 * n + i;
    }
    __device__ static unsigned int row(unsigned int l, unsigned int i, unsigned int, unsigned int n)
    {
        if (R == 0) return l % 16;
        if (R == 1) return depth(l, i, n);
        return um_twice ? 2 * i + l / 16 : T == 0 ? 4 * i + l / 16 : l / 16 * n + i;
    }
    __device__ static unsigned int column(unsigned int l, unsigned int i, unsigned int, unsigned int n)
    {
        return R == 0 ? depth(l, i, n) : l % 16;
    }
};
enum um_role { um_a, um_b, um_c };
enum um_type { um_f64, um_f32, um_f16, um_bf16, um_i32, um_i8 };
template <int T> struct um_held {
    typedef unsigned int word;
    typedef unsigned short item;
};
template <> struct um_held<um_f64> { typedef double word, item; };
template <> struct um_held<um_f32> { typedef float word, item; };
template <> struct um_held<um_i32> { typedef int word, item; };
template <> struct um_held<um_i8> {
    typedef unsigned int word;
    typedef unsigned char item;
};
template <int R, int T, unsigned int M, unsigned int N, unsigned int K> struct um_frag {
    typedef typename um_held<T>::word word;
    typedef typename um_held<T>::item item;
    static constexpr int role = R;
    static constexpr unsigned int each = sizeof(word) / sizeof(item);
    static constexpr unsigned int elements = R == um_a ? M * K : R == um_b ? K * N : M * N;
    static constexpr unsigned int count = elements * um_place<R, T>::copies / um_lanes;
    word x[count / each];
};
template <int R, int T, unsigned int M, unsigned int N, unsigned int K>
__device__ inline unsigned int um_frag_row(const um_frag<R, T, M, N, K> &f, unsigned int i)
{
    return um_place<R, T>::row(um_local_index() % um_lanes, i, f.each, f.count);
}
template <int R, int T, unsigned int M, unsigned int N, unsigned int K>
__device__ inline unsigned int um_frag_column(const um_frag<R, T, M, N, K> &f, unsigned int i)
{
    return um_place<R, T>::column(um_local_index() % um_lanes, i, f.each, f.count);
}
template <class F>
__device__ inline typename F::word um_frag_get(const F &f, unsigned int i) { return f.x[i]; }
template <class F>
__device__ inline void um_frag_set(F &f, unsigned int i, typename F::word v) { f.x[i] = v; }
template <class F> __device__ inline void um_frag_fill(F &f, typename F::word v)
{
    for (unsigned int i = 0; i < F::count; i++) f.x[i] = v;
}
template <class F> union um_part {
    typename F::word word;
    typename F::item item[F::each];
};
template <bool C, class F, class P>
__device__ inline void um_frag_gather(F &f, const P *from, unsigned int stride)
{
    for (unsigned int j = 0; j < F::count / F::each; j++) {
        um_part<F> part;
        for (unsigned int i = 0; i < F::each; i++) {
            unsigned int r = um_frag_row(f, j * F::each + i);
            unsigned int c = um_frag_column(f, j * F::each + i);
            const P *at = from + (C ? c * stride + r : r * stride + c);
            if ((F::role == um_b) != C)
                part.item[i] = (typename F::item)*at;
            else if (i == 0)
                part.word = *(const typename F::word *)at;
        }
        f.x[j] = part.word;
    }
}
template <bool C, class F, class P>
__device__ inline void um_frag_store(const F &f, P *to, unsigned int stride)
{
    for (unsigned int i = 0; i < F::count; i++) {
        um_part<F> part;
        part.word = f.x[i / F::each];
        unsigned int r = um_frag_row(f, i), c = um_frag_column(f, i);
        to[C ? c * stride + r : r * stride + c] = (P)part.item[i % F::each];
    }
}
template <bool C, bool S, class F, class P>
__device__ inline void um_frag_load(F &f, const P *from, unsigned int stride)
{
    if (F::role == um_c || (F::role == um_b) != C) {
        um_frag_gather<C>(f, from, stride);
        return;
    }
    from += um_local_index() % 16 * stride + (C ? um_frag_row(f, 0) : um_frag_column(f, 0));
    const unsigned int bytes = sizeof f.x < 16 ? sizeof f.x : 16;
    __builtin_memcpy(f.x, __builtin_assume_aligned(from, bytes), sizeof f.x);
}
#ifdef UMBEL_SHIM
UM_SHIM_FRAG_MMA
#else
#define UM_FRAG_MMA(type, sum, k, V, W, product) \
    __device__ inline void um_frag_mma( \
        um_frag<um_c, um_##sum, 16, 16, k> &d, const um_frag<um_a, um_##type, 16, 16, k> &a, \
        const um_frag<um_b, um_##type, 16, 16, k> &b, const um_frag<um_c, um_##sum, 16, 16, k> &c) \
    { \
        V x, y; \
        W z; \
        __builtin_memcpy(&x, a.x, sizeof x); \
        __builtin_memcpy(&y, b.x, sizeof y); \
        __builtin_memcpy(&z, c.x, sizeof z); \
        z = product; \
        __builtin_memcpy(d.x, &z, sizeof z); \
    }
#define UM_VECTOR(name, T, n) typedef T name __attribute__((ext_vector_type(n)))
UM_VECTOR(um_float4, float, 4);
UM_VECTOR(um_float8, float, 8);
UM_VECTOR(um_double4, double, 4);
UM_VECTOR(um_half4, _Float16, 4);
UM_VECTOR(um_half8, _Float16, 8);
UM_VECTOR(um_half16, _Float16, 16);
UM_VECTOR(um_short4, short, 4);
UM_VECTOR(um_short8, short, 8);
UM_VECTOR(um_short16, short, 16);
UM_VECTOR(um_int2, int, 2);
UM_VECTOR(um_int4, int, 4);
UM_VECTOR(um_int8, int, 8);
#if defined(__GFX12__)
UM_FRAG_MMA(f16, f32, 16, um_half8, um_float8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, z))
UM_FRAG_MMA(bf16, f32, 16, um_short8, um_float8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, z))
UM_FRAG_MMA(i8, i32, 16, um_int2, um_int8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, x, true, y, z, false))
#elif defined(__GFX11__)
UM_FRAG_MMA(f16, f32, 16, um_half16, um_float8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, z))
UM_FRAG_MMA(bf16, f32, 16, um_short16, um_float8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, z))
UM_FRAG_MMA(i8, i32, 16, um_int4, um_int8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, x, true, y, z, false))
#elif defined(__GFX9__)
UM_FRAG_MMA(f16, f32, 16, um_half4, um_float4, __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, z, 0, 0, 0))
UM_FRAG_MMA(bf16, f32, 16, um_short4, um_float4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0))
UM_FRAG_MMA(f32, f32, 4, float, um_float4, __builtin_amdgcn_mfma_f32_16x16x4f32(x, y, z, 0, 0, 0))
UM_FRAG_MMA(f64, f64, 4, double, um_double4, __builtin_amdgcn_mfma_f64_16x16x4f64(x, y, z, 0, 0, 0))
#ifdef __gfx942__
UM_FRAG_MMA(i8, i32, 32, long, um_int4, __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, z, 0, 0, 0))
#else
UM_FRAG_MMA(i8, i32, 16, int, um_int4, __builtin_amdgcn_mfma_i32_16x16x16i8(x, y, z, 0, 0, 0))
#endif
#endif
#endif

extern "C" __global__ void __launch_bounds__(32)
um_product(const unsigned short *a_, const unsigned short *b_, float *c_)
{
    __shared__ __align__(16) unsigned short part_[256];
    um_frag<um_a, um_f16, 16, 16, 16> fa_;
    um_frag<um_b, um_f16, 16, 16, 16> fb_;
    um_frag<um_c, um_f32, 16, 16, 16> fc_;
    const unsigned int v1 = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const unsigned int v4 = (unsigned int)(v1 * 8u);
    for (unsigned int v7 = v4; v7 < 256u; v7 += 256u) {
        const ushort4 v8 = *reinterpret_cast<const ushort4 *>(a_ + v7);
        const unsigned short v8_0 = v8.x;
        const unsigned short v8_1 = v8.y;
        const unsigned short v8_2 = v8.z;
        const unsigned short v8_3 = v8.w;
        const unsigned int v9_0 = (unsigned int)v8_0;
        const unsigned int v9_1 = (unsigned int)v8_1;
        const unsigned int v9_2 = (unsigned int)v8_2;
        const unsigned int v9_3 = (unsigned int)v8_3;
        const unsigned short v10_0 = (unsigned short)v9_0;
        const unsigned short v10_1 = (unsigned short)v9_1;
        const unsigned short v10_2 = (unsigned short)v9_2;
        const unsigned short v10_3 = (unsigned short)v9_3;
        *reinterpret_cast<ushort4 *>(part_ + v7) = make_ushort4(v10_0, v10_1, v10_2, v10_3);
        const unsigned int v13 = (unsigned int)(v7 + 4u);
        const ushort4 v14 = *reinterpret_cast<const ushort4 *>(a_ + v13);
        const unsigned short v14_0 = v14.x;
        const unsigned short v14_1 = v14.y;
        const unsigned short v14_2 = v14.z;
        const unsigned short v14_3 = v14.w;
        const unsigned int v15_0 = (unsigned int)v14_0;
        const unsigned int v15_1 = (unsigned int)v14_1;
        const unsigned int v15_2 = (unsigned int)v14_2;
        const unsigned int v15_3 = (unsigned int)v14_3;
        const unsigned short v16_0 = (unsigned short)v15_0;
        const unsigned short v16_1 = (unsigned short)v15_1;
        const unsigned short v16_2 = (unsigned short)v15_2;
        const unsigned short v16_3 = (unsigned short)v15_3;
        *reinterpret_cast<ushort4 *>(part_ + v13) = make_ushort4(v16_0, v16_1, v16_2, v16_3);
    }
    __syncthreads();
    um_frag_fill(fc_, 0.0f);
    um_frag_load<false, true>(fa_, part_ + 0u, 16u);
    um_frag_load<true, false>(fb_, b_ + 0u, 16u);
    um_frag_mma(fc_, fa_, fb_, fc_);
    const unsigned int v26 = fc_.count;
    for (unsigned int v27 = 0u; v27 < v26; v27 += 1u) {
        const unsigned int v28 = um_frag_row(fc_, v27);
        const float v29 = (float)v28;
        const unsigned int v30 = um_frag_column(fc_, v27);
        const float v31 = (float)v30;
        const float v32 = (v29 + v31);
        const float v33 = um_frag_get(fc_, v27);
        const float v34 = (v33 + v32);
        um_frag_set(fc_, v27, v34);
    }
    um_frag_store<false>(fc_, c_ + 0u, 16u);
}
