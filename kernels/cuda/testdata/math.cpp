// Prints the worst errors of math.cuh in units in the last place, against long double, and every special value that is not C's.
// math_test.go compiles it for the host, with the few things of cuda.cuh that math.cuh uses.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <random>

#define DEVICE static inline
#define __device__
#define INFINITE __builtin_inff()
typedef unsigned int uint32;
typedef int int32;
typedef long long int64;
typedef unsigned long long uint64;
template <class To, class From> To bits(From x) { return __builtin_bit_cast(To, x); }
static uint64 high(uint64 a, uint64 b) { return (uint64)(((unsigned __int128)a * b) >> 64); }
#include "math.cuh"

typedef long double wide;

template <class T> double ulps(T got, wide want) {
  T w = (T)want;
  if (std::isnan(w) || std::isinf(w) || std::isinf(got)) return got == w || (std::isnan(got) && std::isnan(w)) ? 0 : INFINITY;
  int e;
  std::frexp(want, &e);
  const int digits = sizeof(T) == 4 ? 24 : 53, least = sizeof(T) == 4 ? -149 : -1074;
  return (double)(std::fabs((wide)got - want) / std::ldexp((wide)1, std::max(e - digits, least)));
}

template <class T, class F, class G> void sweep(const char *name, F f, G g, double lo, double hi, bool exponents = false) {
  std::mt19937_64 r(1);
  std::uniform_real_distribution<> u(lo, hi);
  double worst = 0;
  T at = 0;
  for (int i = 0; i < 30000; i++) {
    T x = (T)(exponents ? std::exp2(u(r)) : u(r));
    double e = ulps<T>(f(x), g((wide)x));
    if (!(e <= worst)) worst = e, at = x;
  }
  printf("worst %s%zu %g %.17g\n", name, sizeof(T) * 8, worst, (double)at);
}

template <class T> void special(const char *name, T x, T y, T got, T want) {
  bool same = got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= 1e-6 * std::fabs(want);
  if (!same) printf("special %s%zu(%g, %g) = %g, want %g\n", name, sizeof(T) * 8, (double)x, (double)y, (double)got, (double)want);
}

#define SWEEP(name, reference, ...) sweep<T>(#name, [](T x) { return num::name(x); }, [](wide x) { return (wide)(reference); }, __VA_ARGS__)
#define SPECIAL(name) special<T>(#name, x, 0, num::name(x), std::name(x))

template <class T> void all() {
  const bool f = sizeof(T) == 4;
  const double most = f ? 88 : 709, least = f ? -150 : -1075, top = f ? 127 : 1023;
  SWEEP(exp, std::exp(x), -1, 1), SWEEP(exp, std::exp(x), f ? -104 : -746, most);
  SWEEP(expm1, std::expm1(x), -1, 1), SWEEP(expm1, std::expm1(x), f ? -104 : -746, most), SWEEP(expm1, std::expm1(x), -60, 0, true);
  SWEEP(log, std::log(x), 0.5, 2), SWEEP(log, std::log(x), least, top, true);
  SWEEP(log2, std::log2(x), 0.5, 2), SWEEP(log2, std::log2(x), least, top, true);
  SWEEP(log1p, std::log1p(x), -1, 2), SWEEP(log1p, std::log1p(x), -60, top, true);
  SWEEP(sin, std::sin(x), -4, 4), SWEEP(sin, std::sin(x), -4e4, 4e4), SWEEP(sin, std::sin(x), -20, 0, true);
  SWEEP(cos, std::cos(x), -4, 4), SWEEP(cos, std::cos(x), -4e4, 4e4);
  SWEEP(sin, std::sin(x), 20, 60, true), SWEEP(cos, std::cos(x), 20, 60, true); // x87 reduces what is below 2^63
  SWEEP(tanh, std::tanh(x), -3, 3), SWEEP(tanh, std::tanh(x), -60, 5, true);
  SWEEP(sigmoid, 1 / (1 + std::exp(-x)), -3, 3), SWEEP(sigmoid, 1 / (1 + std::exp(-x)), -most, most);
  SWEEP(softplus, std::log1p(std::exp(x)), -3, 3), SWEEP(softplus, std::log1p(std::exp(x)), -most, most);
  SWEEP(erf, std::erf(x), -3, 3), SWEEP(erf, std::erf(x), -7, 7), SWEEP(erf, std::erf(x), least, 5, true);
  const T values[] = {0, -T(0), 1, -1, INFINITY, -INFINITY, NAN, 2, -2, 3, -3, 0.5, -0.5, T(1e10), T(-1e10)};
  for (T x : values) {
    SPECIAL(exp), SPECIAL(expm1), SPECIAL(log), SPECIAL(log2), SPECIAL(log1p), SPECIAL(sin), SPECIAL(cos), SPECIAL(tanh), SPECIAL(erf);
    for (T y : values) special<T>("pow", x, y, num::pow(x, y), std::pow(x, y));
  }
  std::mt19937_64 r(1);
  double worst = 0;
  T at = 0;
  for (int i = 0; i < 60000; i++) {
    auto u = [&](double lo, double hi) { return std::uniform_real_distribution<>(lo, hi)(r); };
    T x = (T)std::exp2(i & 1 ? u(-3, 3) : u(least, top)), y = (T)(i & 2 ? u(-3, 3) : u(-most / 2, most / 2));
    double e = ulps<T>(num::pow(x, y), std::pow((wide)x, (wide)y));
    if (!(e <= worst)) worst = e, at = x;
  }
  printf("worst pow%zu %g %.17g\n", sizeof(T) * 8, worst, (double)at);
}

int main() { all<float>(), all<double>(); }
