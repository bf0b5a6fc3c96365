#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void um_product(__global const ushort *a_, ulong a_base, __global const ushort *b_, ulong b_base, __global float *c_, ulong c_base)
{
    a_ += a_base;
    b_ += b_base;
    c_ += c_base;
    __local uint part_[256];
    uint items_f16_[256];
    uint items_f16_2_[128];
    float items_f32_[128];
    float product_f32_;
    const uint v1 = (uint)(get_local_id(0) + get_local_size(0) * (get_local_id(1) + get_local_size(1) * get_local_id(2)));
    const uint v4 = (uint)(v1 * 8u);
    for (uint v7 = v4; v7 < 256u; v7 += 8u) {
        const ushort4 v8 = vload4(0, a_ + v7);
        const ushort v8_0 = v8.x;
        const ushort v8_1 = v8.y;
        const ushort v8_2 = v8.z;
        const ushort v8_3 = v8.w;
        const uint v9_0 = (uint)v8_0;
        const uint v9_1 = (uint)v8_1;
        const uint v9_2 = (uint)v8_2;
        const uint v9_3 = (uint)v8_3;
        vstore4((uint4)(v9_0, v9_1, v9_2, v9_3), 0, part_ + v7);
        const uint v12 = (uint)(v7 + 4u);
        const ushort4 v13 = vload4(0, a_ + v12);
        const ushort v13_0 = v13.x;
        const ushort v13_1 = v13.y;
        const ushort v13_2 = v13.z;
        const ushort v13_3 = v13.w;
        const uint v14_0 = (uint)v13_0;
        const uint v14_1 = (uint)v13_1;
        const uint v14_2 = (uint)v13_2;
        const uint v14_3 = (uint)v13_3;
        vstore4((uint4)(v14_0, v14_1, v14_2, v14_3), 0, part_ + v12);
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint v22 = (uint)(1u - v1);
    const uint v23 = (1u < v22 ? 1u : v22);
    const uint v24 = (127u / v23);
    const uint v25 = (uint)(v24 + 1u);
    for (uint v26 = 0u; v26 < v25; v26 += 1u) {
        items_f32_[v26] = 0.0f;
    }
    for (uint v29 = 0u; v29 < 256u; v29 += 1u) {
        const uint v30 = (v29 / 16u);
        const uint v31 = (v29 % 16u);
        const uint v32 = (uint)(v30 * 16u);
        const uint v33 = (uint)(v32 + v31);
        const uint v34 = part_[v33];
        items_f16_[v29] = v34;
    }
    for (uint v37 = 0u; v37 < 128u; v37 += 1u) {
        const uint v38 = (v37 / 8u);
        const uint v39 = (v37 % 8u);
        const uint v40 = (uint)(v39 * 16u);
        const uint v41 = (uint)(v40 + v38);
        const ushort v42 = b_[v41];
        const uint v43 = (uint)v42;
        items_f16_2_[v37] = v43;
    }
    for (uint v46 = 0u; v46 < v25; v46 += 1u) {
        const uint v47 = (uint)(v46 * v23);
        const uint v48 = (v47 % 8u);
        const uint v49 = (v47 / 8u);
        const float v50 = items_f32_[v46];
        product_f32_ = v50;
        for (uint v52 = 0u; v52 < 16u; v52 += 1u) {
            const uint v53 = (uint)(v49 * 16u);
            const uint v54 = (uint)(v53 + v52);
            const uint v55 = items_f16_[v54];
            const uint v57 = (v55 & 32767u);
            const uint v59 = (v55 << (16u & 31));
            const uint v60 = (v59 & 2147483648u);
            const uint v63 = (v57 << (13u & 31));
            const uint v64 = (uint)(v63 + 939524096u);
            const float v66 = (float)v57;
            const float v67 = (v66 * 5.96046448e-08f);
            const uint v68 = as_uint(v67);
            const bool v70 = (v57 < 1024u);
            const uint v71 = (v70 ? v68 : v64);
            const bool v75 = (v57 == 31744u);
            const uint v76 = (v75 ? 2139095040u : 2143289344u);
            const bool v78 = (v57 > 31743u);
            const uint v79 = (v78 ? v76 : v71);
            const uint v80 = (v79 | v60);
            const float v81 = as_float(v80);
            const uint v82 = (uint)(v52 * 8u);
            const uint v83 = (uint)(v82 + v48);
            const uint v84 = items_f16_2_[v83];
            const uint v85 = (v84 & 32767u);
            const uint v86 = (v84 << (16u & 31));
            const uint v87 = (v86 & 2147483648u);
            const uint v88 = (v85 << (13u & 31));
            const uint v89 = (uint)(v88 + 939524096u);
            const float v90 = (float)v85;
            const float v91 = (v90 * 5.96046448e-08f);
            const uint v92 = as_uint(v91);
            const bool v93 = (v85 < 1024u);
            const uint v94 = (v93 ? v92 : v89);
            const bool v95 = (v85 == 31744u);
            const uint v96 = (v95 ? 2139095040u : 2143289344u);
            const bool v97 = (v85 > 31743u);
            const uint v98 = (v97 ? v96 : v94);
            const uint v99 = (v98 | v87);
            const float v100 = as_float(v99);
            const float v101 = (v81 * v100);
            const float v102 = product_f32_;
            const float v103 = (v102 + v101);
            product_f32_ = v103;
        }
        const float v106 = product_f32_;
        items_f32_[v46] = v106;
    }
    for (uint v109 = 0u; v109 < v25; v109 += 1u) {
        const uint v110 = (uint)(v109 * v23);
        const uint v111 = (v110 % 8u);
        const uint v112 = (v110 / 8u);
        const float v113 = (float)v112;
        const float v114 = (float)v111;
        const float v115 = (v113 + v114);
        const float v116 = items_f32_[v109];
        const float v117 = (v116 + v115);
        items_f32_[v109] = v117;
    }
    for (uint v120 = 0u; v120 < v25; v120 += 1u) {
        const uint v121 = (uint)(v120 * v23);
        const uint v122 = (v121 % 8u);
        const uint v123 = (v121 / 8u);
        const uint v124 = (uint)(v123 * 8u);
        const uint v125 = (uint)(v124 + v122);
        const float v126 = items_f32_[v120];
        c_[v125] = v126;
    }
}
