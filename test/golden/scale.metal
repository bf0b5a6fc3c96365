#include <metal_stdlib>
using namespace metal;
template <class T, class S> inline T um_whole(S x, S low, S high, T least, T most)
{
    return x != x ? (T)0 : x <= low ? least : x >= high ? most : (T)x;
}
inline int um_i32_of_f32(float x)
{
    return um_whole<int>(x, -2147483648.0f, 2147483648.0f, -2147483647 - 1, 2147483647);
}
inline uint um_u32_of_f32(float x)
{
    return um_whole<uint>(x, 0.0f, 4294967296.0f, 0u, 4294967295u);
}
inline long um_i64_of_f32(float x)
{
    return um_whole<long>(x, -9223372036854775808.0f, 9223372036854775808.0f, -9223372036854775807l - 1, 9223372036854775807l);
}
inline ulong um_u64_of_f32(float x)
{
    return um_whole<ulong>(x, 0.0f, 18446744073709551616.0f, 0ul, 18446744073709551615ul);
}
inline int um_dot4_i8(int a, int b, int c)
{
    uint sum = (uint)c;
    for (int i = 0; i < 32; i += 8) sum += (uint)((int)(char)(a >> i) * (int)(char)(b >> i));
    return (int)sum;
}
inline uint um_dot4_u8(uint a, uint b, uint c)
{
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255u) * (b >> i & 255u);
    return c;
}

struct um_scale_scalars {
    uint n_;
    float s_;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void um_scale(device float *x_ [[buffer(0)]], constant um_scale_scalars &um_scalars [[buffer(1)]], uint3 um_group [[threadgroup_position_in_grid]], uint3 um_groups [[threadgroups_per_grid]], uint3 um_local [[thread_position_in_threadgroup]], uint um_index [[thread_index_in_threadgroup]], uint um_simd_size [[threads_per_simdgroup]], uint um_simd [[simdgroup_index_in_threadgroup]], uint um_lane [[thread_index_in_simdgroup]])
{
    const uint v3 = um_group.x;
    const uint v4 = um_local.x;
    const uint v6 = (uint)(v3 * 64u);
    const uint v7 = (uint)(v6 + v4);
    const bool v8 = (v7 < um_scalars.n_);
    if (v8) {
        const float v10 = x_[v7];
        const float v11 = (v10 * um_scalars.s_);
        x_[v7] = v11;
    }
}
