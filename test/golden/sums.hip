template <class T, class S> __device__ inline T um_bits(S from)
{
    union { S from; T to; } bits;
    bits.from = from;
    return bits.to;
}
__device__ inline unsigned int um_local_index()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

extern "C" __global__ void __launch_bounds__(24)
um_sums(float *x_)
{
    __shared__ __align__(16) float group_f32_[24];
    const unsigned int v1 = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const float v2 = x_[v1];
    group_f32_[v1] = v2;
    __syncthreads();
    const bool v7 = (v1 < 12u);
    if (v7) {
        const unsigned int v9 = (unsigned int)(v1 + 12u);
        const float v10 = group_f32_[v9];
        const float v11 = group_f32_[v1];
        const float v12 = (v11 + v10);
        group_f32_[v1] = v12;
    }
    __syncthreads();
    const bool v17 = (v1 < 6u);
    if (v17) {
        const unsigned int v19 = (unsigned int)(v1 + 6u);
        const float v20 = group_f32_[v19];
        const float v21 = group_f32_[v1];
        const float v22 = (v21 + v20);
        group_f32_[v1] = v22;
    }
    __syncthreads();
    const bool v27 = (v1 < 3u);
    if (v27) {
        const unsigned int v29 = (unsigned int)(v1 + 3u);
        const float v30 = group_f32_[v29];
        const float v31 = group_f32_[v1];
        const float v32 = (v31 + v30);
        group_f32_[v1] = v32;
    }
    __syncthreads();
    const bool v37 = (v1 < 1u);
    if (v37) {
        const unsigned int v40 = (unsigned int)(v1 + 2u);
        const float v41 = group_f32_[v40];
        const float v42 = group_f32_[v1];
        const float v43 = (v42 + v41);
        group_f32_[v1] = v43;
    }
    __syncthreads();
    if (v37) {
        const unsigned int v48 = (unsigned int)(v1 + 1u);
        const float v49 = group_f32_[v48];
        const float v50 = group_f32_[v1];
        const float v51 = (v50 + v49);
        group_f32_[v1] = v51;
    }
    __syncthreads();
    const float v54 = group_f32_[0u];
    __syncthreads();
    const bool v56 = (v54 > 1.0f);
    if (v56) {
        const float v58 = (v2 / v54);
        group_f32_[v1] = v58;
        __syncthreads();
        const bool v62 = (v1 >= 1u);
        const unsigned int v63 = (unsigned int)(v1 - 1u);
        float v64 = um_bits<float>(4286578688u);
        if (v62) {
            v64 = group_f32_[v63];
        }
        const float v65 = fmax(v64, v58);
        const float v66 = (v62 ? v65 : v58);
        __syncthreads();
        group_f32_[v1] = v66;
        __syncthreads();
        const bool v71 = (v1 >= 2u);
        const unsigned int v72 = (unsigned int)(v1 - 2u);
        float v73 = um_bits<float>(4286578688u);
        if (v71) {
            v73 = group_f32_[v72];
        }
        const float v74 = fmax(v73, v66);
        const float v75 = (v71 ? v74 : v66);
        __syncthreads();
        group_f32_[v1] = v75;
        __syncthreads();
        const bool v80 = (v1 >= 4u);
        const unsigned int v81 = (unsigned int)(v1 - 4u);
        float v82 = um_bits<float>(4286578688u);
        if (v80) {
            v82 = group_f32_[v81];
        }
        const float v83 = fmax(v82, v75);
        const float v84 = (v80 ? v83 : v75);
        __syncthreads();
        group_f32_[v1] = v84;
        __syncthreads();
        const bool v89 = (v1 >= 8u);
        const unsigned int v90 = (unsigned int)(v1 - 8u);
        float v91 = um_bits<float>(4286578688u);
        if (v89) {
            v91 = group_f32_[v90];
        }
        const float v92 = fmax(v91, v84);
        const float v93 = (v89 ? v92 : v84);
        __syncthreads();
        group_f32_[v1] = v93;
        __syncthreads();
        const bool v98 = (v1 >= 16u);
        const unsigned int v99 = (unsigned int)(v1 - 16u);
        float v100 = um_bits<float>(4286578688u);
        if (v98) {
            v100 = group_f32_[v99];
        }
        const float v101 = fmax(v100, v93);
        const float v102 = (v98 ? v101 : v93);
        __syncthreads();
        group_f32_[v1] = v102;
        __syncthreads();
        float v106 = um_bits<float>(4286578688u);
        if (v62) {
            v106 = group_f32_[v63];
        }
        __syncthreads();
        x_[v1] = v106;
    }
}
