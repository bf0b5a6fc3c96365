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
__device__ inline int um_i32_of_f32(float x)
{
    return x != x ? 0 : x <= -2147483648.0f ? -2147483647 - 1
                      : x >= 2147483648.0f ? 2147483647 : (int)x;
}
__device__ inline unsigned int um_u32_of_f32(float x)
{
    return !(x > 0.0f) ? 0u : x >= 4294967296.0f ? 4294967295u : (unsigned int)x;
}
__device__ inline int um_dot4_i8(int a, int b, int c)
{
    unsigned int sum = (unsigned int)c;
    for (int i = 0; i < 32; i += 8)
        sum += (unsigned int)((int)(signed char)(a >> i) * (int)(signed char)(b >> i));
    return (int)sum;
}
__device__ inline unsigned int um_dot4_u8(unsigned int a, unsigned int b, unsigned int c)
{
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
    return c;
}

extern "C" __global__ void __launch_bounds__(32)
um_medley(const float *x_, int *float_, unsigned int *hist_, unsigned int n_)
{
    __shared__ float tile_[64];
    int own_[4];
    float acc_0_;
    float acc_1_;
    float acc_2_;
    float acc_3_;
    const unsigned int v2 = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const unsigned int v6 = (unsigned int)(v2 * 4u);
    const float4 v7 = *reinterpret_cast<const float4 *>(x_ + v6);
    const float v7_0 = v7.x;
    const float v7_1 = v7.y;
    const float v7_2 = v7.z;
    const float v7_3 = v7.w;
    acc_0_ = v7_0;
    acc_1_ = v7_1;
    acc_2_ = v7_2;
    acc_3_ = v7_3;
    const float v9 = v7_2;
    tile_[v2] = v9;
    __syncthreads();
    for (unsigned int v13 = 0u; v13 < 4u; v13 += 1u) {
        const unsigned int v16 = (unsigned int)(v2 + v13);
        const bool v17 = (v16 < 32u);
        const unsigned int v18 = (unsigned int)(v2 + v13);
        float v19 = um_bits<float>(2147483648u);
        if (v17) {
            v19 = tile_[v18];
        }
        const float v20_0 = acc_0_;
        const float v20_1 = acc_1_;
        const float v20_2 = acc_2_;
        const float v20_3 = acc_3_;
        const float v21_0 = v19;
        const float v21_1 = v19;
        const float v21_2 = v19;
        const float v21_3 = v19;
        const float v22_0 = fma(v21_0, v20_0, v7_0);
        const float v22_1 = fma(v21_1, v20_1, v7_1);
        const float v22_2 = fma(v21_2, v20_2, v7_2);
        const float v22_3 = fma(v21_3, v20_3, v7_3);
        acc_0_ = v22_0;
        acc_1_ = v22_1;
        acc_2_ = v22_2;
        acc_3_ = v22_3;
        const float v25 = fmax(v19, (-1.5f));
        const int v26 = um_i32_of_f32(v25);
        own_[v13] = v26;
    }
    for (;;) {
        const int v31 = own_[1u];
        const bool v32 = (v31 >= (-2147483647 - 1));
        if (v32) {
            break;
        }
    }
    const int v37 = own_[0u];
    const float v38 = tile_[v2];
    const bool v40 = (v38 == um_bits<float>(2139095040u));
    const float v42 = (v40 ? 1.0f : v38);
    const unsigned int v43 = um_bits<unsigned int>(v42);
    const unsigned int v44 = __umulhi(v43, n_);
    const unsigned int v46 = (v43 << (35u & 31));
    const unsigned int v47 = (v46 ^ v44);
    const unsigned int v49 = (v47 & 7u);
    const unsigned int v50 = atomicAdd(&hist_[v49], 1u);
    const unsigned int v51 = hist_[0u];
    const bool v52 = (v51 == 1u);
    const bool v53 = (!v52);
    if (v53) {
        const int v57 = ((-3) < 0 ? (int)(0 - (unsigned int)(-3)) : (-3));
        const int v58 = (int)((unsigned int)v37 + (unsigned int)v57);
        const int v59 = (int)(0 - (unsigned int)v58);
        if (true) {
            float_[v2] = v59;
        }
    } else {
        const int v63 = um_dot4_i8(v37, v37, v37);
        const int v64_0 = 7;
        const int v64_1 = v63;
        const unsigned int v66 = (unsigned int)(v2 * 2u);
        *reinterpret_cast<int2 *>(float_ + v66) = make_int2(v64_0, v64_1);
    }
}
