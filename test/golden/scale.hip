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
template <class T, class S> __device__ inline T um_whole(S x, S low, S high, T least, T most)
{
    return x != x ? (T)0 : x <= low ? least : x >= high ? most : (T)x;
}
__device__ inline int um_i32_of_f32(float x)
{
    return um_whole<int>(x, -2147483648.0f, 2147483648.0f, -2147483647 - 1, 2147483647);
}
__device__ inline unsigned int um_u32_of_f32(float x)
{
    return um_whole<unsigned int>(x, 0.0f, 4294967296.0f, 0u, 4294967295u);
}
__device__ inline long long um_i64_of_f32(float x)
{
    return um_whole<long long>(x, -9223372036854775808.0f, 9223372036854775808.0f, -9223372036854775807ll - 1, 9223372036854775807ll);
}
__device__ inline unsigned long long um_u64_of_f32(float x)
{
    return um_whole<unsigned long long>(x, 0.0f, 18446744073709551616.0f, 0ull, 18446744073709551615ull);
}
__device__ inline int um_i32_of_f64(double x)
{
    return um_whole<int>(x, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647);
}
__device__ inline unsigned int um_u32_of_f64(double x)
{
    return um_whole<unsigned int>(x, 0.0, 4294967296.0, 0u, 4294967295u);
}
__device__ inline long long um_i64_of_f64(double x)
{
    return um_whole<long long>(x, -9223372036854775808.0, 9223372036854775808.0, -9223372036854775807ll - 1, 9223372036854775807ll);
}
__device__ inline unsigned long long um_u64_of_f64(double x)
{
    return um_whole<unsigned long long>(x, 0.0, 18446744073709551616.0, 0ull, 18446744073709551615ull);
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

extern "C" __global__ void __launch_bounds__(64)
um_scale(float *x_, unsigned int n_, float s_)
{
    const unsigned int v3 = blockIdx.x;
    const unsigned int v4 = threadIdx.x;
    const unsigned int v6 = (unsigned int)(v3 * 64u);
    const unsigned int v7 = (unsigned int)(v6 + v4);
    const bool v8 = (v7 < n_);
    if (v8) {
        const float v10 = x_[v7];
        const float v11 = (v10 * s_);
        x_[v7] = v11;
    }
}
