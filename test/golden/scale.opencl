#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void um_scale(__global float *x_, ulong x_base, uint n_, float s_)
{
    x_ += x_base;
    const uint v3 = (uint)get_group_id(0);
    const uint v4 = (uint)get_local_id(0);
    const uint v6 = (uint)(v3 * 64u);
    const uint v7 = (uint)(v6 + v4);
    const bool v8 = (v7 < n_);
    if (v8) {
        const float v10 = x_[v7];
        const float v11 = (v10 * s_);
        x_[v7] = v11;
    }
}
