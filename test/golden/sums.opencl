#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(24, 1, 1)))
void um_sums(__global float *x_, ulong x_base)
{
    x_ += x_base;
    __local float group_f32_[24];
    const uint v1 = (uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)));
    const float v2 = x_[v1];
    group_f32_[v1] = v2;
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool v7 = (v1 < 12u);
    if (v7) {
        const uint v9 = (uint)(v1 + 12u);
        const float v10 = group_f32_[v9];
        const float v11 = group_f32_[v1];
        const float v12 = (v11 + v10);
        group_f32_[v1] = v12;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool v17 = (v1 < 6u);
    if (v17) {
        const uint v19 = (uint)(v1 + 6u);
        const float v20 = group_f32_[v19];
        const float v21 = group_f32_[v1];
        const float v22 = (v21 + v20);
        group_f32_[v1] = v22;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool v27 = (v1 < 3u);
    if (v27) {
        const uint v29 = (uint)(v1 + 3u);
        const float v30 = group_f32_[v29];
        const float v31 = group_f32_[v1];
        const float v32 = (v31 + v30);
        group_f32_[v1] = v32;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool v37 = (v1 < 1u);
    if (v37) {
        const uint v40 = (uint)(v1 + 2u);
        const float v41 = group_f32_[v40];
        const float v42 = group_f32_[v1];
        const float v43 = (v42 + v41);
        group_f32_[v1] = v43;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (v37) {
        const uint v48 = (uint)(v1 + 1u);
        const float v49 = group_f32_[v48];
        const float v50 = group_f32_[v1];
        const float v51 = (v50 + v49);
        group_f32_[v1] = v51;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const float v54 = group_f32_[0u];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const bool v56 = (v54 > 1.0f);
    if (v56) {
        const float v58 = (v2 / v54);
        group_f32_[v1] = v58;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool v62 = (v1 >= 1u);
        const uint v63 = (uint)(v1 - 1u);
        float v64 = as_float(4286578688u);
        if (v62) {
            v64 = group_f32_[v63];
        }
        const float v65 = fmax(v64, v58);
        const float v66 = (v62 ? v65 : v58);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        group_f32_[v1] = v66;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool v71 = (v1 >= 2u);
        const uint v72 = (uint)(v1 - 2u);
        float v73 = as_float(4286578688u);
        if (v71) {
            v73 = group_f32_[v72];
        }
        const float v74 = fmax(v73, v66);
        const float v75 = (v71 ? v74 : v66);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        group_f32_[v1] = v75;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool v80 = (v1 >= 4u);
        const uint v81 = (uint)(v1 - 4u);
        float v82 = as_float(4286578688u);
        if (v80) {
            v82 = group_f32_[v81];
        }
        const float v83 = fmax(v82, v75);
        const float v84 = (v80 ? v83 : v75);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        group_f32_[v1] = v84;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool v89 = (v1 >= 8u);
        const uint v90 = (uint)(v1 - 8u);
        float v91 = as_float(4286578688u);
        if (v89) {
            v91 = group_f32_[v90];
        }
        const float v92 = fmax(v91, v84);
        const float v93 = (v89 ? v92 : v84);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        group_f32_[v1] = v93;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        const bool v98 = (v1 >= 16u);
        const uint v99 = (uint)(v1 - 16u);
        float v100 = as_float(4286578688u);
        if (v98) {
            v100 = group_f32_[v99];
        }
        const float v101 = fmax(v100, v93);
        const float v102 = (v98 ? v101 : v93);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        group_f32_[v1] = v102;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        float v106 = as_float(4286578688u);
        if (v62) {
            v106 = group_f32_[v63];
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        x_[v1] = v106;
    }
}
