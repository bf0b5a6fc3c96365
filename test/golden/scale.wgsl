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
    n_: u32,
    s_: f32,
};
@group(0) @binding(1) var<uniform> um_scalars: um_scalar_words;
@group(0) @binding(0) var<storage, read_write> x_: array<f32>;

@compute @workgroup_size(64, 1, 1)
fn um_scale(@builtin(workgroup_id) um_group: vec3<u32>, @builtin(num_workgroups) um_groups: vec3<u32>, @builtin(local_invocation_id) um_local: vec3<u32>, @builtin(local_invocation_index) um_index: u32)
{
    let v3: u32 = um_group.x;
    let v4: u32 = um_local.x;
    let v6: u32 = (v3 * 64u);
    let v7: u32 = (v6 + v4);
    let v8: bool = (v7 < um_scalars.n_);
    if (v8) {
        let v10: f32 = x_[um_scalars.x_base + v7];
        let v11: f32 = (v10 * um_scalars.s_);
        x_[um_scalars.x_base + v7] = v11;
    }
}
