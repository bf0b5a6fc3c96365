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
    x_base: u32,
    float_base: u32,
    hist_base: u32,
    n_: u32,
};
@group(0) @binding(3) var<uniform> um_scalars: um_scalar_words;
@group(0) @binding(0) var<storage, read> x_: array<f32>;
@group(0) @binding(1) var<storage, read_write> float_: array<i32>;
@group(0) @binding(2) var<storage, read_write> hist_: array<atomic<u32>>;
var<workgroup> tile_: array<f32, 64>;

@compute @workgroup_size(8, 4, 1)
fn um_medley(@builtin(workgroup_id) um_group: vec3<u32>, @builtin(num_workgroups) um_groups: vec3<u32>, @builtin(local_invocation_id) um_local: vec3<u32>, @builtin(local_invocation_index) um_index: u32)
{
    var own_: array<i32, 4>;
    var acc_0_: f32;
    var acc_1_: f32;
    var acc_2_: f32;
    var acc_3_: f32;
    let v2: u32 = um_index;
    let v6: u32 = (v2 * 4u);
    let v7_0: f32 = x_[um_scalars.x_base + v6];
    let v7_1: f32 = x_[um_scalars.x_base + v6 + 1u];
    let v7_2: f32 = x_[um_scalars.x_base + v6 + 2u];
    let v7_3: f32 = x_[um_scalars.x_base + v6 + 3u];
    let v8: bool = (v2 < um_scalars.n_);
    var v9_0: f32 = v7_0;
    var v9_1: f32 = v7_1;
    var v9_2: f32 = v7_2;
    var v9_3: f32 = v7_3;
    if (v8) {
        v9_0 = x_[um_scalars.x_base + v6];
        v9_1 = x_[um_scalars.x_base + v6 + 1u];
        v9_2 = x_[um_scalars.x_base + v6 + 2u];
        v9_3 = x_[um_scalars.x_base + v6 + 3u];
    }
    acc_0_ = v9_0;
    acc_1_ = v9_1;
    acc_2_ = v9_2;
    acc_3_ = v9_3;
    let v11: f32 = v7_2;
    tile_[v2] = v11;
    storageBarrier(); workgroupBarrier();
    for (var v15: u32 = 0u; v15 < 4u; v15 += 1u) {
        let v18: u32 = (v2 + v15);
        let v19: bool = (v18 < 32u);
        let v20: u32 = (v2 + v15);
        var v21: f32 = bitcast<f32>(2147483648u | um_zero);
        if (v19) {
            v21 = tile_[v20];
        }
        let v22_0: f32 = acc_0_;
        let v22_1: f32 = acc_1_;
        let v22_2: f32 = acc_2_;
        let v22_3: f32 = acc_3_;
        let v23_0: f32 = v21;
        let v23_1: f32 = v21;
        let v23_2: f32 = v21;
        let v23_3: f32 = v21;
        let v24_0: f32 = fma(v23_0, v22_0, v7_0);
        let v24_1: f32 = fma(v23_1, v22_1, v7_1);
        let v24_2: f32 = fma(v23_2, v22_2, v7_2);
        let v24_3: f32 = fma(v23_3, v22_3, v7_3);
        acc_0_ = v24_0;
        acc_1_ = v24_1;
        acc_2_ = v24_2;
        acc_3_ = v24_3;
        let v27: f32 = max(v21, (-1.5f));
        let v28: i32 = i32(v27);
        own_[v15] = v28;
    }
    loop {
        let v33: i32 = own_[1u];
        let v34: bool = (v33 >= (-2147483647 - 1));
        if (v34) {
            break;
        }
    }
    let v39: i32 = own_[0u];
    let v40: f32 = tile_[v2];
    let v42: bool = (v40 == bitcast<f32>(2139095040u | um_zero));
    let v44: f32 = select(v40, 1.0f, v42);
    let v45: u32 = bitcast<u32>(v44);
    let v46: u32 = um_mul_high_u32(v45, um_scalars.n_);
    let v48: u32 = (v45 << (bitcast<u32>(35u) & 31u));
    let v49: u32 = (v48 ^ v46);
    let v51: u32 = (v49 & 7u);
    let v52: u32 = atomicAdd(&hist_[um_scalars.hist_base + v51], 1u);
    let v53: u32 = atomicLoad(&hist_[um_scalars.hist_base + 0u]);
    let v54: bool = (v53 == 1u);
    let v55: bool = (!v54);
    if (v55) {
        let v59: i32 = abs((-3));
        let v60: i32 = (v39 + v59);
        let v61: i32 = (-v60);
        if (true) {
            float_[um_scalars.float_base + v2] = v61;
        }
    } else {
        let v65: i32 = (v39 * v39);
        let v66_0: i32 = 7;
        let v66_1: i32 = v65;
        let v68: u32 = (v2 * 2u);
        float_[um_scalars.float_base + v68] = v66_0;
        float_[um_scalars.float_base + v68 + 1u] = v66_1;
    }
}
