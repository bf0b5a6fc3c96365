// test/shim/cuda.hpp: the words of CUDA C++ and HIP C++ that src/render/dialect_cuda.c uses, on the
// host. Each word is said in one place; a subgroup is spoken of by both dialects' words.
#include "common.hpp"

using namespace shim;

#define __global__
#define __device__
#define __launch_bounds__(n)
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (shim_self()->local)
#define blockIdx  (shim_self()->group)
#define blockDim  (shim_self()->size)
#define gridDim   (shim_self()->groups)
#define warpSize  ((int)shim_self()->width)

#define __syncthreads() shim_barrier(__LINE__)

// cuda: the mask has to name who takes part. All of a subgroup that are there do.
#define __activemask()                (~0u)
#define __shfl_sync(mask, v, from)    __shfl(v, from)
#define __shfl_xor_sync(mask, v, by)  __shfl_xor(v, by)
#define __shfl_up_sync(mask, v, by)   __shfl_up(v, by)
#define __shfl_down_sync(mask, v, by) __shfl_down(v, by)

#define __shfl(v, from)    shim_exchange(v, (unsigned int)(from) % shim_self()->width, __LINE__)
#define __shfl_xor(v, by)  shim_exchange(v, shim_self()->lane ^ (unsigned int)(by), __LINE__)
#define __shfl_up(v, by)   shim_exchange(v, shim_self()->lane - (unsigned int)(by), __LINE__)
#define __shfl_down(v, by) shim_exchange(v, shim_self()->lane + (unsigned int)(by), __LINE__)

inline int __mulhi(int a, int b) { return mul_high(a, b); }
inline unsigned int __umulhi(unsigned int a, unsigned int b) { return mul_high(a, b); }
inline int __popc(unsigned int x) { return (int)popcount(x); }
inline int __clz(int x) { return (int)clz((unsigned int)x); }

#define SHIM_VECTORS(name, T)                                                                      \
    typedef shim_vec2<T> name##2;                                                                  \
    typedef shim_vec4<T> name##4;                                                                  \
    inline name##2 make_##name##2(T x, T y) { return name##2(x, y); }                              \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return name##4(x, y, z, w); }
SHIM_VECTORS(float, float)
SHIM_VECTORS(int, int)
SHIM_VECTORS(uint, unsigned int)
SHIM_VECTORS(ushort, unsigned short)
SHIM_VECTORS(uchar, unsigned char)
SHIM_VECTORS(char, signed char)

template <class T> struct shim_same {
    typedef T type;
};
#define SHIM_ATOMIC(name, e)                                                                       \
    template <class T> inline T name(T *at, typename shim_same<T>::type b)                         \
    {                                                                                              \
        return shim_atomic(at, [b](T a) -> T { return e; });                                       \
    }
SHIM_ATOMIC(atomicAdd, (T)((unsigned int)a + (unsigned int)b))
SHIM_ATOMIC(atomicMin, a < b ? a : b)
SHIM_ATOMIC(atomicMax, a < b ? b : a)
SHIM_ATOMIC(atomicAnd, a &b)
SHIM_ATOMIC(atomicOr, a | b)
SHIM_ATOMIC(atomicXor, a ^ b)
SHIM_ATOMIC(atomicExch, b)
template <class T>
inline T atomicCAS(T *at, typename shim_same<T>::type expected, typename shim_same<T>::type b)
{
    return shim_atomic(at, [expected, b](T a) -> T { return a == expected ? b : a; });
}
