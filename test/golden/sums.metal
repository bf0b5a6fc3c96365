#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(24)]]
kernel void um_sums(device float *x_ [[buffer(0)]], uint3 um_group [[threadgroup_position_in_grid]], uint3 um_groups [[threadgroups_per_grid]], uint3 um_local [[thread_position_in_threadgroup]], uint um_index [[thread_index_in_threadgroup]], uint um_simd_size [[threads_per_simdgroup]], uint um_simd [[simdgroup_index_in_threadgroup]], uint um_lane [[thread_index_in_simdgroup]])
{
    alignas(16) threadgroup float group_f32_[24];
    const uint v1 = um_index;
    const float v2 = x_[v1];
    group_f32_[v1] = v2;
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const bool v7 = (v1 < 12u);
    if (v7) {
        const uint v9 = (uint)(v1 + 12u);
        const float v10 = group_f32_[v9];
        const float v11 = group_f32_[v1];
        const float v12 = (v11 + v10);
        group_f32_[v1] = v12;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const bool v17 = (v1 < 6u);
    if (v17) {
        const uint v19 = (uint)(v1 + 6u);
        const float v20 = group_f32_[v19];
        const float v21 = group_f32_[v1];
        const float v22 = (v21 + v20);
        group_f32_[v1] = v22;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const bool v27 = (v1 < 3u);
    if (v27) {
        const uint v29 = (uint)(v1 + 3u);
        const float v30 = group_f32_[v29];
        const float v31 = group_f32_[v1];
        const float v32 = (v31 + v30);
        group_f32_[v1] = v32;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const bool v37 = (v1 < 1u);
    if (v37) {
        const uint v40 = (uint)(v1 + 2u);
        const float v41 = group_f32_[v40];
        const float v42 = group_f32_[v1];
        const float v43 = (v42 + v41);
        group_f32_[v1] = v43;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    if (v37) {
        const uint v48 = (uint)(v1 + 1u);
        const float v49 = group_f32_[v48];
        const float v50 = group_f32_[v1];
        const float v51 = (v50 + v49);
        group_f32_[v1] = v51;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const float v54 = group_f32_[0u];
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    const bool v56 = (v54 > 1.0f);
    if (v56) {
        const float v58 = (v2 / v54);
        group_f32_[v1] = v58;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        const bool v62 = (v1 >= 1u);
        const uint v63 = (uint)(v1 - 1u);
        float v64 = as_type<float>(4286578688u);
        if (v62) {
            v64 = group_f32_[v63];
        }
        const float v65 = fmax(v64, v58);
        const float v66 = (v62 ? v65 : v58);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        group_f32_[v1] = v66;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        const bool v71 = (v1 >= 2u);
        const uint v72 = (uint)(v1 - 2u);
        float v73 = as_type<float>(4286578688u);
        if (v71) {
            v73 = group_f32_[v72];
        }
        const float v74 = fmax(v73, v66);
        const float v75 = (v71 ? v74 : v66);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        group_f32_[v1] = v75;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        const bool v80 = (v1 >= 4u);
        const uint v81 = (uint)(v1 - 4u);
        float v82 = as_type<float>(4286578688u);
        if (v80) {
            v82 = group_f32_[v81];
        }
        const float v83 = fmax(v82, v75);
        const float v84 = (v80 ? v83 : v75);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        group_f32_[v1] = v84;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        const bool v89 = (v1 >= 8u);
        const uint v90 = (uint)(v1 - 8u);
        float v91 = as_type<float>(4286578688u);
        if (v89) {
            v91 = group_f32_[v90];
        }
        const float v92 = fmax(v91, v84);
        const float v93 = (v89 ? v92 : v84);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        group_f32_[v1] = v93;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        const bool v98 = (v1 >= 16u);
        const uint v99 = (uint)(v1 - 16u);
        float v100 = as_type<float>(4286578688u);
        if (v98) {
            v100 = group_f32_[v99];
        }
        const float v101 = fmax(v100, v93);
        const float v102 = (v98 ? v101 : v93);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        group_f32_[v1] = v102;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        float v106 = as_type<float>(4286578688u);
        if (v62) {
            v106 = group_f32_[v63];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        x_[v1] = v106;
    }
}
