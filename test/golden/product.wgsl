var<private> um_zero: u32 = 0u;
fn um_mul_high_u32(a: u32, b: u32) -> u32
{
    let low = (a & 65535u) * (b & 65535u);
    let middle = (a >> 16u) * (b & 65535u) + (low >> 16u);
    let other = (a & 65535u) * (b >> 16u) + (middle & 65535u);
    return (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
}
fn um_mul_high_i32(a: i32, b: i32) -> i32
{
    let high = bitcast<i32>(um_mul_high_u32(bitcast<u32>(a), bitcast<u32>(b)));
    return high - select(0, b, a < 0) - select(0, a, b < 0);
}
struct um_scalar_words {
    a_base: u32,
    b_base: u32,
    c_base: u32,
};
@group(0) @binding(3) var<uniform> um_scalars: um_scalar_words;
@group(0) @binding(0) var<storage, read> a_: array<u32>;
@group(0) @binding(1) var<storage, read> b_: array<u32>;
@group(0) @binding(2) var<storage, read_write> c_: array<f32>;
var<workgroup> part_: array<u32, 256>;

@compute @workgroup_size(1, 1, 1)
fn um_product(@builtin(workgroup_id) um_group: vec3<u32>, @builtin(num_workgroups) um_groups: vec3<u32>, @builtin(local_invocation_id) um_local: vec3<u32>, @builtin(local_invocation_index) um_index: u32)
{
    var items_f16_: array<u32, 256>;
    var items_f16_2_: array<u32, 128>;
    var items_f32_: array<f32, 128>;
    var product_f32_: f32;
    let v1: u32 = um_index;
    let v4: u32 = (v1 * 8u);
    for (var v7: u32 = v4; v7 < 256u; v7 += 8u) {
        let v9: u32 = (v7 >> (bitcast<u32>(1u) & 31u));
        let v10_0: u32 = a_[um_scalars.a_base + v9];
        let v10_1: u32 = a_[um_scalars.a_base + v9 + 1u];
        let v12: u32 = v10_0;
        let v13: u32 = (v12 & 65535u);
        let v14: u32 = (v12 >> (bitcast<u32>(16u) & 31u));
        let v15: u32 = (v14 & 65535u);
        let v16: u32 = v10_1;
        let v17: u32 = (v16 & 65535u);
        let v18: u32 = (v16 >> (bitcast<u32>(16u) & 31u));
        let v19: u32 = (v18 & 65535u);
        let v20_0: u32 = v13;
        let v20_1: u32 = v15;
        let v20_2: u32 = v17;
        let v20_3: u32 = v19;
        part_[v7] = v20_0;
        part_[v7 + 1u] = v20_1;
        part_[v7 + 2u] = v20_2;
        part_[v7 + 3u] = v20_3;
        let v23: u32 = (v7 + 4u);
        let v24: u32 = (v23 >> (bitcast<u32>(1u) & 31u));
        let v25_0: u32 = a_[um_scalars.a_base + v24];
        let v25_1: u32 = a_[um_scalars.a_base + v24 + 1u];
        let v26: u32 = v25_0;
        let v27: u32 = (v26 & 65535u);
        let v28: u32 = (v26 >> (bitcast<u32>(16u) & 31u));
        let v29: u32 = (v28 & 65535u);
        let v30: u32 = v25_1;
        let v31: u32 = (v30 & 65535u);
        let v32: u32 = (v30 >> (bitcast<u32>(16u) & 31u));
        let v33: u32 = (v32 & 65535u);
        let v34_0: u32 = v27;
        let v34_1: u32 = v29;
        let v34_2: u32 = v31;
        let v34_3: u32 = v33;
        part_[v23] = v34_0;
        part_[v23 + 1u] = v34_1;
        part_[v23 + 2u] = v34_2;
        part_[v23 + 3u] = v34_3;
    }
    storageBarrier(); workgroupBarrier();
    let v42: u32 = (1u - v1);
    let v43: u32 = min(1u, v42);
    let v44: u32 = (127u / v43);
    let v45: u32 = (v44 + 1u);
    for (var v46: u32 = 0u; v46 < v45; v46 += 1u) {
        items_f32_[v46] = 0.0f;
    }
    for (var v49: u32 = 0u; v49 < 256u; v49 += 1u) {
        let v50: u32 = (v49 / 16u);
        let v51: u32 = (v49 % 16u);
        let v52: u32 = (v50 * 16u);
        let v53: u32 = (v52 + v51);
        let v54: u32 = part_[v53];
        items_f16_[v49] = v54;
    }
    for (var v57: u32 = 0u; v57 < 128u; v57 += 1u) {
        let v58: u32 = (v57 / 8u);
        let v59: u32 = (v57 % 8u);
        let v60: u32 = (v59 * 16u);
        let v61: u32 = (v60 + v58);
        let v62: u32 = (v61 >> (bitcast<u32>(1u) & 31u));
        let v63: u32 = b_[um_scalars.b_base + v62];
        let v65: u32 = (v61 & 1u);
        let v67: u32 = (v65 << (bitcast<u32>(4u) & 31u));
        let v68: u32 = (v63 >> (bitcast<u32>(v67) & 31u));
        let v69: u32 = (v68 & 65535u);
        items_f16_2_[v57] = v69;
    }
    for (var v72: u32 = 0u; v72 < v45; v72 += 1u) {
        let v73: u32 = (v72 * v43);
        let v74: u32 = (v73 % 8u);
        let v75: u32 = (v73 / 8u);
        let v76: f32 = items_f32_[v72];
        product_f32_ = v76;
        for (var v78: u32 = 0u; v78 < 16u; v78 += 1u) {
            let v79: u32 = (v75 * 16u);
            let v80: u32 = (v79 + v78);
            let v81: u32 = items_f16_[v80];
            let v83: u32 = (v81 & 32767u);
            let v85: u32 = (v81 << (bitcast<u32>(16u) & 31u));
            let v86: u32 = (v85 & 2147483648u);
            let v89: u32 = (v83 << (bitcast<u32>(13u) & 31u));
            let v90: u32 = (v89 + 939524096u);
            let v92: f32 = f32(v83);
            let v93: f32 = (v92 * 5.96046448e-08f);
            let v94: u32 = bitcast<u32>(v93);
            let v96: bool = (v83 < 1024u);
            let v97: u32 = select(v90, v94, v96);
            let v101: bool = (v83 == 31744u);
            let v102: u32 = select(2143289344u, 2139095040u, v101);
            let v104: bool = (v83 > 31743u);
            let v105: u32 = select(v97, v102, v104);
            let v106: u32 = (v105 | v86);
            let v107: f32 = bitcast<f32>(v106);
            let v108: u32 = (v78 * 8u);
            let v109: u32 = (v108 + v74);
            let v110: u32 = items_f16_2_[v109];
            let v111: u32 = (v110 & 32767u);
            let v112: u32 = (v110 << (bitcast<u32>(16u) & 31u));
            let v113: u32 = (v112 & 2147483648u);
            let v114: u32 = (v111 << (bitcast<u32>(13u) & 31u));
            let v115: u32 = (v114 + 939524096u);
            let v116: f32 = f32(v111);
            let v117: f32 = (v116 * 5.96046448e-08f);
            let v118: u32 = bitcast<u32>(v117);
            let v119: bool = (v111 < 1024u);
            let v120: u32 = select(v115, v118, v119);
            let v121: bool = (v111 == 31744u);
            let v122: u32 = select(2143289344u, 2139095040u, v121);
            let v123: bool = (v111 > 31743u);
            let v124: u32 = select(v120, v122, v123);
            let v125: u32 = (v124 | v113);
            let v126: f32 = bitcast<f32>(v125);
            let v127: f32 = (v107 * v126);
            let v128: f32 = product_f32_;
            let v129: f32 = (v128 + v127);
            product_f32_ = v129;
        }
        let v132: f32 = product_f32_;
        items_f32_[v72] = v132;
    }
    for (var v135: u32 = 0u; v135 < v45; v135 += 1u) {
        let v136: u32 = (v135 * v43);
        let v137: u32 = (v136 % 8u);
        let v138: u32 = (v136 / 8u);
        let v139: f32 = f32(v138);
        let v140: f32 = f32(v137);
        let v141: f32 = (v139 + v140);
        let v142: f32 = items_f32_[v135];
        let v143: f32 = (v142 + v141);
        items_f32_[v135] = v143;
    }
    for (var v146: u32 = 0u; v146 < v45; v146 += 1u) {
        let v147: u32 = (v146 * v43);
        let v148: u32 = (v147 % 8u);
        let v149: u32 = (v147 / 8u);
        let v150: u32 = (v149 * 8u);
        let v151: u32 = (v150 + v148);
        let v152: f32 = items_f32_[v146];
        c_[um_scalars.c_base + v151] = v152;
    }
}
