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
};
@group(0) @binding(1) var<uniform> um_scalars: um_scalar_words;
@group(0) @binding(0) var<storage, read_write> x_: array<f32>;
var<workgroup> group_f32_: array<f32, 24>;

@compute @workgroup_size(24, 1, 1)
fn um_sums(@builtin(workgroup_id) um_group: vec3<u32>, @builtin(num_workgroups) um_groups: vec3<u32>, @builtin(local_invocation_id) um_local: vec3<u32>, @builtin(local_invocation_index) um_index: u32)
{
    let v1: u32 = um_index;
    let v2: f32 = x_[um_scalars.x_base + v1];
    group_f32_[v1] = v2;
    storageBarrier(); workgroupBarrier();
    let v7: bool = (v1 < 12u);
    if (v7) {
        let v9: u32 = (v1 + 12u);
        let v10: f32 = group_f32_[v9];
        let v11: f32 = group_f32_[v1];
        let v12: f32 = (v11 + v10);
        group_f32_[v1] = v12;
    }
    storageBarrier(); workgroupBarrier();
    let v17: bool = (v1 < 6u);
    if (v17) {
        let v19: u32 = (v1 + 6u);
        let v20: f32 = group_f32_[v19];
        let v21: f32 = group_f32_[v1];
        let v22: f32 = (v21 + v20);
        group_f32_[v1] = v22;
    }
    storageBarrier(); workgroupBarrier();
    let v27: bool = (v1 < 3u);
    if (v27) {
        let v29: u32 = (v1 + 3u);
        let v30: f32 = group_f32_[v29];
        let v31: f32 = group_f32_[v1];
        let v32: f32 = (v31 + v30);
        group_f32_[v1] = v32;
    }
    storageBarrier(); workgroupBarrier();
    let v37: bool = (v1 < 1u);
    if (v37) {
        let v40: u32 = (v1 + 2u);
        let v41: f32 = group_f32_[v40];
        let v42: f32 = group_f32_[v1];
        let v43: f32 = (v42 + v41);
        group_f32_[v1] = v43;
    }
    storageBarrier(); workgroupBarrier();
    if (v37) {
        let v48: u32 = (v1 + 1u);
        let v49: f32 = group_f32_[v48];
        let v50: f32 = group_f32_[v1];
        let v51: f32 = (v50 + v49);
        group_f32_[v1] = v51;
    }
    storageBarrier(); workgroupBarrier();
    let v54: f32 = workgroupUniformLoad(&group_f32_[0u]);
    let v56: bool = (v54 > 1.0f);
    if (v56) {
        let v58: f32 = (v2 / v54);
        group_f32_[v1] = v58;
        storageBarrier(); workgroupBarrier();
        let v62: bool = (v1 >= 1u);
        let v63: u32 = (v1 - 1u);
        var v64: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v62) {
            v64 = group_f32_[v63];
        }
        let v65: f32 = max(v64, v58);
        let v66: f32 = select(v58, v65, v62);
        storageBarrier(); workgroupBarrier();
        group_f32_[v1] = v66;
        storageBarrier(); workgroupBarrier();
        let v71: bool = (v1 >= 2u);
        let v72: u32 = (v1 - 2u);
        var v73: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v71) {
            v73 = group_f32_[v72];
        }
        let v74: f32 = max(v73, v66);
        let v75: f32 = select(v66, v74, v71);
        storageBarrier(); workgroupBarrier();
        group_f32_[v1] = v75;
        storageBarrier(); workgroupBarrier();
        let v80: bool = (v1 >= 4u);
        let v81: u32 = (v1 - 4u);
        var v82: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v80) {
            v82 = group_f32_[v81];
        }
        let v83: f32 = max(v82, v75);
        let v84: f32 = select(v75, v83, v80);
        storageBarrier(); workgroupBarrier();
        group_f32_[v1] = v84;
        storageBarrier(); workgroupBarrier();
        let v89: bool = (v1 >= 8u);
        let v90: u32 = (v1 - 8u);
        var v91: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v89) {
            v91 = group_f32_[v90];
        }
        let v92: f32 = max(v91, v84);
        let v93: f32 = select(v84, v92, v89);
        storageBarrier(); workgroupBarrier();
        group_f32_[v1] = v93;
        storageBarrier(); workgroupBarrier();
        let v98: bool = (v1 >= 16u);
        let v99: u32 = (v1 - 16u);
        var v100: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v98) {
            v100 = group_f32_[v99];
        }
        let v101: f32 = max(v100, v93);
        let v102: f32 = select(v93, v101, v98);
        storageBarrier(); workgroupBarrier();
        group_f32_[v1] = v102;
        storageBarrier(); workgroupBarrier();
        var v106: f32 = bitcast<f32>(4286578688u | um_zero);
        if (v62) {
            v106 = group_f32_[v63];
        }
        storageBarrier(); workgroupBarrier();
        x_[um_scalars.x_base + v1] = v106;
    }
}
