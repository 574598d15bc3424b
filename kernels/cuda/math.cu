// The functions of math.cuh under plain names, one for float (_f32) and one for double (_f64): the pieces that chains of elementwise operations are
// put together from. y = f(x) or f(x, y); reference: Elem of the op of that name in package kernels.
#include "math.cuh"

// Not inlined and kept although nothing here calls them: this module is a library. ptx.go copies a body to where it is used, so a body must not call.
#define LIBRARY extern "C" __device__ __attribute__((noinline, used))

#define ONE(name, f)                                    \
  LIBRARY float name##_f32(float x) { return f(x); }    \
  LIBRARY double name##_f64(double x) { return f(x); }

ONE(exp, num::exp)
ONE(expm1, num::expm1)
ONE(log, num::log)
ONE(log2, num::log2)
ONE(log1p, num::log1p)
ONE(sin, num::sin)
ONE(cos, num::cos)
ONE(tanh, num::tanh)
ONE(sigmoid, num::sigmoid)
ONE(softplus, num::softplus)
ONE(erf, num::erf)

LIBRARY float pow_f32(float x, float y) { return num::pow(x, y); }
LIBRARY double pow_f64(double x, double y) { return num::pow(x, y); }
