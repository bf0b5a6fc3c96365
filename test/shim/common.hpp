// test/shim/common.hpp: what the dialects' words stand on. Includes nothing of the C++ library, so
// that a module of many kernels compiles fast.
#ifndef UM_TEST_SHIM_COMMON_HPP
#define UM_TEST_SHIM_COMMON_HPP

#include "shim.h"

inline shim_lane *shim_self()
{
    return (shim_lane *)((uintptr_t)__builtin_frame_address(0) & ~(SHIM_STACK - 1));
}

// The same bits as another type.
template <class T, class S> inline T shim_bits(S from)
{
    static_assert(sizeof(T) == sizeof(S), "as many bits");
    T to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

// An argument, as whatever the kernel declares.
struct shim_arg {
    shim_word word;
    template <class T> operator T *() const { return (T *)word.pointer; }
    operator unsigned int() const { return word.bits; }
    operator int() const { return (int)word.bits; }
    operator float() const { return shim_bits<float>(word.bits); }
};

// Every lane of the subgroup calls it; `from` of another lane, or this lane's own value where
// there is no such lane.
template <class T> inline T shim_exchange(T value, unsigned int from, int line)
{
    static_assert(sizeof(T) <= SHIM_SLOT, "fits");
    shim_lane *self = shim_self();
    unsigned int turn = self->turn++ % 2;
    __builtin_memcpy(self->slot[turn], &value, sizeof value);
    self->wait(self, SHIM_AT_SUBGROUP, line);
    if (from < self->present) __builtin_memcpy(&value, self->team[from]->slot[turn], sizeof value);
    return value;
}

// Where each lane of the subgroup says that something of its own is; it stays there until the next
// call of shim_show, so that a second one ends the reading.
struct shim_shown {
    shim_lane *self;
    unsigned int turn;
    const void *of(int lane) const
    {
        const void *p;
        __builtin_memcpy(&p, self->team[lane]->slot[turn], sizeof p);
        return p;
    }
};
inline shim_shown shim_show(const void *mine, int line)
{
    shim_lane *self = shim_self();
    unsigned int turn = self->turn++ % 2;
    __builtin_memcpy(self->slot[turn], &mine, sizeof mine);
    self->wait(self, SHIM_AT_SUBGROUP, line);
    return {self, turn};
}

inline void shim_barrier(int line)
{
    shim_lane *self = shim_self();
    self->wait(self, SHIM_AT_BARRIER, line);
}

// Vectors for wide accesses: the address must be a multiple of their size.
inline void shim_aligned(const void *p, unsigned long size)
{
    if ((uintptr_t)p % size != 0) __builtin_trap();
}

template <class T> struct shim_vec2 {
    T x, y;
    shim_vec2(T a, T b) : x(a), y(b) {}
    shim_vec2(const shim_vec2 &o) : x(o.x), y(o.y) { shim_aligned(&o, sizeof o); }
    shim_vec2 &operator=(const shim_vec2 &o)
    {
        shim_aligned(this, sizeof o);
        x = o.x, y = o.y;
        return *this;
    }
};
template <class T> struct shim_vec4 {
    T x, y, z, w;
    shim_vec4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    shim_vec4(const shim_vec4 &o) : x(o.x), y(o.y), z(o.z), w(o.w) { shim_aligned(&o, sizeof o); }
    shim_vec4 &operator=(const shim_vec4 &o)
    {
        shim_aligned(this, sizeof o);
        x = o.x, y = o.y, z = o.z, w = o.w;
        return *this;
    }
};

// Work-groups run one after another and one invocation at a time, so that nothing comes between.
template <class T, class F> inline T shim_atomic(T *at, F what)
{
    T was = *at;
    *at = what(was);
    return was;
}

// Functions of float and double, under the names that all dialects use. What f32 has none of after
// um_kernel_lower is here for double only.
#define SHIM_FN1(name)                                                                             \
    inline float name(float x) { return __builtin_##name##f(x); }                                  \
    inline double name(double x) { return __builtin_##name(x); }
#define SHIM_F64(name)                                                                             \
    inline double name(double x) { return __builtin_##name(x); }
namespace shim
{
SHIM_FN1(fabs)
SHIM_FN1(sqrt)
SHIM_FN1(floor)
SHIM_FN1(ceil)
SHIM_FN1(trunc)
SHIM_FN1(rint)
SHIM_F64(exp)
SHIM_F64(exp2)
SHIM_F64(expm1)
SHIM_F64(log)
SHIM_F64(log2)
SHIM_F64(log10)
SHIM_F64(log1p)
SHIM_F64(sin)
SHIM_F64(cos)
SHIM_F64(tan)
SHIM_F64(asin)
SHIM_F64(acos)
SHIM_F64(atan)
SHIM_F64(sinh)
SHIM_F64(cosh)
SHIM_F64(tanh)
SHIM_F64(asinh)
SHIM_F64(acosh)
SHIM_F64(atanh)
SHIM_F64(erf)
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double atan2(double y, double x) { return __builtin_atan2(y, x); }
// With a NaN, or zeros of both signs, either operand may come out: here that of the interpreter.
inline float fmin(float a, float b) { return a < b ? a : b; }
inline double fmin(double a, double b) { return a < b ? a : b; }
inline float fmax(float a, float b) { return a > b ? a : b; }
inline double fmax(double a, double b) { return a > b ? a : b; }
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float rsqrt(float x) { return (float)(1 / __builtin_sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
inline unsigned int popcount(unsigned int x) { return (unsigned int)__builtin_popcount(x); }
inline unsigned int clz(unsigned int x) { return x ? (unsigned int)__builtin_clz(x) : 32; }
inline int mul_high(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned int mul_high(unsigned int a, unsigned int b)
{
    return (unsigned int)((unsigned long long)a * b >> 32);
}
} // namespace shim

#endif
