#include <metal_stdlib>
using namespace metal;

struct um_medley_scalars {
    uint n_;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void um_medley(device const float *x_ [[buffer(0)]], device int *float_ [[buffer(1)]], device uint *hist_ [[buffer(2)]], constant um_medley_scalars &um_scalars [[buffer(3)]], uint3 um_group [[threadgroup_position_in_grid]], uint3 um_groups [[threadgroups_per_grid]], uint3 um_local [[thread_position_in_threadgroup]], uint um_index [[thread_index_in_threadgroup]], uint um_simd_size [[threads_per_simdgroup]], uint um_simd [[simdgroup_index_in_threadgroup]], uint um_lane [[thread_index_in_simdgroup]])
{
    alignas(16) threadgroup float tile_[64];
    alignas(16) int own_[4];
    float acc_0_;
    float acc_1_;
    float acc_2_;
    float acc_3_;
    const uint v2 = um_index;
    const uint v6 = (uint)(v2 * 4u);
    const float4 v7 = *(const device float4 *)(x_ + v6);
    const float v7_0 = v7.x;
    const float v7_1 = v7.y;
    const float v7_2 = v7.z;
    const float v7_3 = v7.w;
    const bool v8 = (v2 < um_scalars.n_);
    float v9_0 = v7_0;
    float v9_1 = v7_1;
    float v9_2 = v7_2;
    float v9_3 = v7_3;
    if (v8) {
        const float4 v9 = *(const device float4 *)(x_ + v6);
        v9_0 = v9.x;
        v9_1 = v9.y;
        v9_2 = v9.z;
        v9_3 = v9.w;
    }
    acc_0_ = v9_0;
    acc_1_ = v9_1;
    acc_2_ = v9_2;
    acc_3_ = v9_3;
    const float v11 = v7_2;
    tile_[v2] = v11;
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    for (uint v15 = 0u; v15 < 4u; v15 += 1u) {
        const uint v18 = (uint)(v2 + v15);
        const bool v19 = (v18 < 32u);
        const uint v20 = (uint)(v2 + v15);
        float v21 = as_type<float>(2147483648u);
        if (v19) {
            v21 = tile_[v20];
        }
        const float v22_0 = acc_0_;
        const float v22_1 = acc_1_;
        const float v22_2 = acc_2_;
        const float v22_3 = acc_3_;
        const float v23_0 = v21;
        const float v23_1 = v21;
        const float v23_2 = v21;
        const float v23_3 = v21;
        const float v24_0 = fma(v23_0, v22_0, v7_0);
        const float v24_1 = fma(v23_1, v22_1, v7_1);
        const float v24_2 = fma(v23_2, v22_2, v7_2);
        const float v24_3 = fma(v23_3, v22_3, v7_3);
        acc_0_ = v24_0;
        acc_1_ = v24_1;
        acc_2_ = v24_2;
        acc_3_ = v24_3;
        const float v27 = fmax(v21, (-1.5f));
        const int v28 = (int)v27;
        own_[v15] = v28;
    }
    for (;;) {
        const int v33 = own_[1u];
        const bool v34 = (v33 >= (-2147483647 - 1));
        if (v34) {
            break;
        }
    }
    const int v39 = own_[0u];
    const float v40 = tile_[v2];
    const bool v42 = (v40 == as_type<float>(2139095040u));
    const float v44 = (v42 ? 1.0f : v40);
    const uint v45 = as_type<uint>(v44);
    const uint v46 = mulhi(v45, um_scalars.n_);
    const uint v48 = (v45 << (35u & 31));
    const uint v49 = (v48 ^ v46);
    const uint v51 = (v49 & 7u);
    const uint v52 = atomic_fetch_add_explicit((device atomic_uint *)&hist_[v51], 1u, memory_order_relaxed);
    const uint v53 = hist_[0u];
    const bool v54 = (v53 == 1u);
    const bool v55 = (!v54);
    if (v55) {
        const int v59 = ((-3) < 0 ? (int)(0 - (uint)(-3)) : (-3));
        const int v60 = (int)((uint)v39 + (uint)v59);
        const int v61 = (int)(0 - (uint)v60);
        if (true) {
            float_[v2] = v61;
        }
    } else {
        const int v65 = (int)((uint)v39 * (uint)v39);
        const int v66_0 = 7;
        const int v66_1 = v65;
        const uint v68 = (uint)(v2 * 2u);
        *(device int2 *)(float_ + v68) = int2(v66_0, v66_1);
    }
}
