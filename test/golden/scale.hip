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

extern "C" __global__ void __launch_bounds__(64)
um_scale(float *x_, unsigned int n_, float s_)
{
    const unsigned int v3 = blockIdx.x;
    const unsigned int v4 = threadIdx.x;
    const unsigned int v6 = (unsigned int)(v3 * 64u);
    const unsigned int v7 = (unsigned int)(v6 + v4);
    const bool v8 = (v7 < n_);
    if (v8) {
        const float v10 = x_[v7];
        const float v11 = (v10 * s_);
        x_[v7] = v11;
    }
}
