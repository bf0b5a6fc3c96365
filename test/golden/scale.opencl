#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
inline int um_i32_of_f32(float x) { return convert_int_sat_rtz(x); }
inline uint um_u32_of_f32(float x) { return convert_uint_sat_rtz(x); }
inline long um_i64_of_f32(float x) { return convert_long_sat_rtz(x); }
inline ulong um_u64_of_f32(float x) { return convert_ulong_sat_rtz(x); }
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
inline int um_i32_of_f64(double x) { return convert_int_sat_rtz(x); }
inline uint um_u32_of_f64(double x) { return convert_uint_sat_rtz(x); }
inline long um_i64_of_f64(double x) { return convert_long_sat_rtz(x); }
inline ulong um_u64_of_f64(double x) { return convert_ulong_sat_rtz(x); }
#endif
inline int um_dot4_i8(int a, int b, int c)
{
    char4 x = as_char4(a), y = as_char4(b);
    return (int)((uint)c + (uint)(x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w));
}
inline uint um_dot4_u8(uint a, uint b, uint c)
{
    uchar4 x = as_uchar4(a), y = as_uchar4(b);
    return c + (uint)(x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w);
}

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
