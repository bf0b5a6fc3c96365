#include <metal_stdlib>
using namespace metal;
enum um_role { um_a, um_b, um_c };
enum um_type { um_f32, um_f16, um_bf16 };
template <int T> struct um_held { typedef float item; };
template <> struct um_held<um_f16> { typedef half item; };
#if __METAL_VERSION__ >= 310
template <> struct um_held<um_bf16> { typedef bfloat item; };
#endif
template <int R, int T, int M, int N, int K> struct um_frag {
    typedef typename um_held<T>::item item;
    simdgroup_matrix<item, 8, 8> x;
    static constant constexpr uint count = 2;
};
#define UM_FRAG_MOVE(space) \
    template <bool C, bool S, class F, class P> \
    inline void um_frag_load(thread F &f, const space P *from, uint stride) \
    { \
        simdgroup_load(f.x, (const space typename F::item *)from, stride, ulong2(0), C); \
    } \
    template <bool C, class F, class P> \
    inline void um_frag_store(thread F &f, space P *to, uint stride) \
    { \
        simdgroup_store(f.x, (space typename F::item *)to, stride, ulong2(0), C); \
    }
UM_FRAG_MOVE(device)
#ifndef UMBEL_SHIM
UM_FRAG_MOVE(threadgroup)
#endif
template <class F> inline void um_frag_fill(thread F &f, typename F::item v)
{
    f.x = make_filled_simdgroup_matrix<typename F::item, 8, 8>(v);
}
template <class F> inline typename F::item um_frag_get(thread F &f, uint i)
{
    return f.x.thread_elements()[i];
}
template <class F> inline void um_frag_set(thread F &f, uint i, typename F::item v)
{
    f.x.thread_elements()[i] = v;
}
template <class D, class A, class B>
inline void um_frag_mma(thread D &d, thread A &a, thread B &b, thread D &c)
{
    simdgroup_multiply_accumulate(d.x, a.x, b.x, c.x);
}

[[max_total_threads_per_threadgroup(32)]]
kernel void um_product(device const half *a_ [[buffer(0)]], device const half *b_ [[buffer(1)]], device float *c_ [[buffer(2)]], uint3 um_group [[threadgroup_position_in_grid]], uint3 um_groups [[threadgroups_per_grid]], uint3 um_local [[thread_position_in_threadgroup]], uint um_index [[thread_index_in_threadgroup]], uint um_simd_size [[threads_per_simdgroup]], uint um_simd [[simdgroup_index_in_threadgroup]], uint um_lane [[thread_index_in_simdgroup]])
{
    alignas(16) threadgroup half part_[64];
    um_frag<um_a, um_f16, 8, 8, 8> fa_;
    um_frag<um_b, um_f16, 8, 8, 8> fb_;
    um_frag<um_c, um_f32, 8, 8, 8> fc_;
    const uint v1 = um_index;
    const uint v4 = (uint)(v1 * 8u);
    for (uint v7 = v4; v7 < 64u; v7 += 256u) {
        const half4 v8 = *(const device half4 *)(a_ + v7);
        const half v8_0 = v8.x;
        const half v8_1 = v8.y;
        const half v8_2 = v8.z;
        const half v8_3 = v8.w;
        *(threadgroup half4 *)(part_ + v7) = half4(v8_0, v8_1, v8_2, v8_3);
        const uint v11 = (uint)(v7 + 4u);
        const half4 v12 = *(const device half4 *)(a_ + v11);
        const half v12_0 = v12.x;
        const half v12_1 = v12.y;
        const half v12_2 = v12.z;
        const half v12_3 = v12.w;
        *(threadgroup half4 *)(part_ + v11) = half4(v12_0, v12_1, v12_2, v12_3);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    um_frag_fill(fc_, 0.0f);
    um_frag_load<false, true>(fa_, part_ + 0u, 8u);
    um_frag_load<true, false>(fb_, b_ + 0u, 8u);
    um_frag_mma(fc_, fa_, fb_, fc_);
    const uint v22 = fc_.count;
    for (uint v23 = 0u; v23 < v22; v23 += 1u) {
        const float v25 = um_frag_get(fc_, v23);
        const float v26 = (v25 + 2.0f);
        um_frag_set(fc_, v23, v26);
    }
    um_frag_store<false>(fc_, c_ + 0u, 8u);
}
