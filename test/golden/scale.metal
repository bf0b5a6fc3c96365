#include <metal_stdlib>
using namespace metal;

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
