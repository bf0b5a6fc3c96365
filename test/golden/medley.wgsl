var<private> um_zero: u32 = 0u;
fn um_i32_of_f32(x: f32) -> i32
{
    if (x != x) { return 0; }
    if (x >= 2147483648.0f) { return 2147483647; }
    if (x <= -2147483648.0f) { return bitcast<i32>(0x80000000u); }
    return i32(x);
}
fn um_u32_of_f32(x: f32) -> u32
{
    if (!(x > 0.0f)) { return 0u; }
    if (x >= 4294967296.0f) { return 4294967295u; }
    return u32(x);
}
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
fn um_dot4_i8(a: i32, b: i32, c: i32) -> i32
{
    var sum = c;
    for (var i = 0u; i < 32u; i += 8u) {
        sum += extractBits(a, i, 8u) * extractBits(b, i, 8u);
    }
    return sum;
}
fn um_dot4_u8(a: u32, b: u32, c: u32) -> u32
{
    var sum = c;
    for (var i = 0u; i < 32u; i += 8u) {
        sum += extractBits(a, i, 8u) * extractBits(b, i, 8u);
    }
    return sum;
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
    acc_0_ = v7_0;
    acc_1_ = v7_1;
    acc_2_ = v7_2;
    acc_3_ = v7_3;
    let v9: f32 = v7_2;
    tile_[v2] = v9;
    storageBarrier(); workgroupBarrier();
    for (var v13: u32 = 0u; v13 < 4u; v13 += 1u) {
        let v16: u32 = (v2 + v13);
        let v17: bool = (v16 < 32u);
        let v18: u32 = (v2 + v13);
        var v19: f32 = bitcast<f32>(2147483648u | um_zero);
        if (v17) {
            v19 = tile_[v18];
        }
        let v20_0: f32 = acc_0_;
        let v20_1: f32 = acc_1_;
        let v20_2: f32 = acc_2_;
        let v20_3: f32 = acc_3_;
        let v21_0: f32 = v19;
        let v21_1: f32 = v19;
        let v21_2: f32 = v19;
        let v21_3: f32 = v19;
        let v22_0: f32 = fma(v21_0, v20_0, v7_0);
        let v22_1: f32 = fma(v21_1, v20_1, v7_1);
        let v22_2: f32 = fma(v21_2, v20_2, v7_2);
        let v22_3: f32 = fma(v21_3, v20_3, v7_3);
        acc_0_ = v22_0;
        acc_1_ = v22_1;
        acc_2_ = v22_2;
        acc_3_ = v22_3;
        let v25: f32 = max(v19, (-1.5f));
        let v26: i32 = um_i32_of_f32(v25);
        own_[v13] = v26;
    }
    loop {
        let v31: i32 = own_[1u];
        let v32: bool = (v31 >= (-2147483647 - 1));
        if (v32) {
            break;
        }
    }
    let v37: i32 = own_[0u];
    let v38: f32 = tile_[v2];
    let v40: bool = (v38 == bitcast<f32>(2139095040u | um_zero));
    let v42: f32 = select(v38, 1.0f, v40);
    let v43: u32 = bitcast<u32>(v42);
    let v44: u32 = um_mul_high_u32(v43, um_scalars.n_);
    let v46: u32 = (v43 << (bitcast<u32>(35u) & 31u));
    let v47: u32 = (v46 ^ v44);
    let v49: u32 = (v47 & 7u);
    let v50: u32 = atomicAdd(&hist_[um_scalars.hist_base + v49], 1u);
    let v51: u32 = atomicLoad(&hist_[um_scalars.hist_base + 0u]);
    let v52: bool = (v51 == 1u);
    let v53: bool = (!v52);
    if (v53) {
        let v57: i32 = abs((-3));
        let v58: i32 = (v37 + v57);
        let v59: i32 = (-v58);
        if (true) {
            float_[um_scalars.float_base + v2] = v59;
        }
    } else {
        let v63: i32 = um_dot4_i8(v37, v37, v37);
        let v64_0: i32 = 7;
        let v64_1: i32 = v63;
        let v66: u32 = (v2 * 2u);
        float_[um_scalars.float_base + v66] = v64_0;
        float_[um_scalars.float_base + v66 + 1u] = v64_1;
    }
}
