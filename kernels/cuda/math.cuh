// Functions of float and double. They use additions, multiplications, fma, division and roots only, all rounded to nearest, and no approximate
// instruction: so a card, another card and an interpreter of PTX give the same bits. Errors are below 4 ulp.
//
// Sources: polynomials and splits in float are from Cephes (S. Moshier: expf.c, logf.c, sinf.c), as in package cpu; in double from FDLIBM
// (Sun: e_exp.c, e_log.c, k_sin.c, k_cos.c, s_erf.c). Large angles are reduced as Go's math/trig_reduce.go does (M. Payne and R. Hanek). Powers in double
// take their logarithm in two numbers.
#pragma once

#include "cuda.cuh"

namespace num {

DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
DEVICE float sqrt(float x) { return __builtin_sqrtf(x); }
DEVICE double sqrt(double x) { return __builtin_sqrt(x); }
DEVICE float floor(float x) { return __builtin_floorf(x); }
DEVICE double floor(double x) { return __builtin_floor(x); }
DEVICE float ceil(float x) { return __builtin_ceilf(x); }
DEVICE double ceil(double x) { return __builtin_ceil(x); }
DEVICE float abs(float x) { return __builtin_fabsf(x); }
DEVICE double abs(double x) { return __builtin_fabs(x); }
DEVICE float sign(float x) { return x > 0 ? 1.f : x < 0 ? -1.f : x; }
DEVICE double sign(double x) { return x > 0 ? 1. : x < 0 ? -1. : x; }
DEVICE float copysign(float x, float s) { return __builtin_copysignf(x, s); }
DEVICE double copysign(double x, double s) { return __builtin_copysign(x, s); }
DEVICE bool finite(float x) { return (bits<uint32>(x) & 0x7f800000u) != 0x7f800000u; }
DEVICE bool finite(double x) { return (bits<uint64>(x) & 0x7ff0000000000000ull) != 0x7ff0000000000000ull; }

// A split is x = k ln 2 + r, |r| <= ln 2 / 2, and tail = exp(r) - 1.
template <class T> struct split { T tail; int32 k; };

// expSplit first cuts x to where exp is neither 0 nor infinite. NaN goes through.
DEVICE split<float> expSplit(float x) {
  x = x > 89.f ? 89.f : x;
  x = x < -104.f ? -104.f : x;
  const float magic = 12582912.f; // added to a small number it leaves the nearest integer in the low bits
  float t = fma(x, 1.44269504f, magic), f = t - magic;
  float r = fma(f, 1.90465421e-9f, fma(f, -0.693147182f, x));
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  return {fma(p, r * r, r), bits<int32>(t) - bits<int32>(magic)};
}
DEVICE split<double> expSplit(double x) {
  x = x > 710. ? 710. : x;
  x = x < -746. ? -746. : x;
  const double magic = 6755399441055744.;
  double t = fma(x, 1.4426950408889634, magic), f = t - magic;
  double r = fma(f, -2.3190468138462996e-17, fma(f, -0.69314718055994529, x));
  double z = r * r, p = 4.13813679705723846039e-08;
  p = fma(p, z, -1.65339022054652515390e-06);
  p = fma(p, z, 6.61375632143793436117e-05);
  p = fma(p, z, -2.77777777770155933842e-03);
  p = fma(p, z, 1.66666666666666019037e-01);
  double c = fma(-z, p, r);
  return {fma(r / (2. - c), c, r), (int32)(bits<int64>(t) - bits<int64>(magic))};
}

// power2 returns 2 to the k, where that is a normal number.
template <class T> DEVICE T power2(int32 k) {
  if constexpr (sizeof(T) == 4) return bits<T>((k + 127) << 23);
  else return bits<T>((int64)(k + 1023) << 52);
}

template <class T> DEVICE T exp(T x) {
  split<T> s = expSplit(x);
  int32 h = s.k >> 1; // in two factors, so that neither leaves the range
  return (s.tail + 1) * power2<T>(h) * power2<T>(s.k - h);
}

template <class T> DEVICE T expm1(T x) {
  if (x > (sizeof(T) == 4 ? T(80) : T(700))) return exp(x);
  split<T> s = expSplit(x < T(-50) ? T(-50) : x);
  T scale = power2<T>(s.k);
  return fma(scale, s.tail, scale - 1);
}

// A mantissa is x = 2^k (1 + f), 1 + f in [√½, √2), for a positive normal or denormal number.
template <class T> struct mantissa { T f; int32 k; };

DEVICE mantissa<float> mantissaOf(float x) {
  int32 k = 0;
  if (x < 0x1p-126f) x *= 0x1p32f, k = -32;
  uint32 b = bits<uint32>(x) - 0x3f3504f3u; // √½
  return {bits<float>((b & 0x007fffffu) + 0x3f3504f3u) - 1, k + ((int32)b >> 23)};
}
DEVICE mantissa<double> mantissaOf(double x) {
  int32 k = 0;
  if (x < 0x1p-1022) x *= 0x1p64, k = -64;
  uint64 b = bits<uint64>(x) - 0x3fe6a09e667f3bcdull;
  return {bits<double>((b & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1, k + (int32)((int64)b >> 52)};
}

// logTail returns log(1+f) - f.
DEVICE float logTail(float f) {
  float z = f * f, p = 7.0376836292e-2f;
  p = fma(p, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  return fma(p * f, z, -0.5f * z);
}
DEVICE double logTail(double f) {
  double s = f / (2. + f), z = s * s, p = 1.479819860511658591e-01;
  p = fma(p, z, 1.531383769920937332e-01);
  p = fma(p, z, 1.818357216161805012e-01);
  p = fma(p, z, 2.222219843214978396e-01);
  p = fma(p, z, 2.857142874366239149e-01);
  p = fma(p, z, 3.999999999940941908e-01);
  p = fma(p, z, 6.666666666666735130e-01);
  double h = 0.5 * f * f;
  return fma(s, fma(p, z, h), -h);
}

// ln 2 in two numbers, the first of few bits, so that k times it is exact.
template <class T> constexpr T ln2High = T(0.693359375);
template <class T> constexpr T ln2Low = T(-2.1219444005469058277e-4);
template <> constexpr double ln2High<double> = 6.93147180369123816490e-01;
template <> constexpr double ln2Low<double> = 1.90821492927058770002e-10;

// outside returns the logarithm of a number that is not positive and finite.
template <class T> DEVICE T logOutside(T x) {
  if (x == 0) return T(-INFINITE);
  return x > 0 ? x : T(__builtin_nanf(""));
}

template <class T> DEVICE T log(T x) {
  if (!(x > 0) || !finite(x)) return logOutside(x);
  mantissa<T> m = mantissaOf(x);
  T k = T(m.k);
  return fma(k, ln2High<T>, m.f + fma(k, ln2Low<T>, logTail(m.f)));
}

template <class T> DEVICE T log2(T x) {
  if (!(x > 0) || !finite(x)) return logOutside(x);
  mantissa<T> m = mantissaOf(x);
  const T ratio = T(1.44269504088896340736), rest = T(1.44269504088896340736L - (long double)ratio);
  return T(m.k) + fma(ratio, m.f, fma(rest, m.f, ratio * logTail(m.f)));
}

template <class T> DEVICE T log1p(T x) {
  T u = 1 + x;
  if (u == 1) return x;
  if (!(u > 0) || !finite(u)) return logOutside(u);
  T lost = x > 1 ? 1 - (u - x) : x - (u - 1);
  return log(u) + lost / u;
}

// sigmoid uses exp of a negative number only, so that small results keep all their digits.
template <class T> DEVICE T sigmoid(T x) {
  T e = exp(-abs(x));
  return (x >= 0 ? T(1) : e) / (1 + e);
}

// tanh is t/(t+2) with t = exp(2|x|) - 1.
template <class T> DEVICE T tanh(T x) {
  T a = abs(x);
  const T most = sizeof(T) == 4 ? T(10) : T(20); // from where on it is 1
  T t = expm1(2 * (a > most ? most : a));
  return copysign(t / (t + 2), x);
}

template <class T> DEVICE T softplus(T x) { return (x <= 0 ? T(0) : x) + log1p(exp(-abs(x))); }

// horner is the polynomial with the coefficients p, c..., of which the first is that of the highest power.
template <class T> DEVICE T horner(T, T p) { return p; }
template <class T, class... C> DEVICE T horner(T x, T p, T c, C... rest) { return horner(x, fma(p, x, c), rest...); }

// erf is x + x·p(x²) near 0. Farther out it is 1 - exp(t·q(t)), of t = |x|. p and q are minimax fits (Remez), those of package cpu's assembly.
DEVICE float erf(float x) {
  float t = abs(x);
  if (!(t > 1)) return fma(x, horner(x * x, 7.853861354e-5f, -8.010193627e-4f, 5.188327686e-3f, -2.685381194e-2f, 1.128358515e-1f, -3.761262582e-1f, 1.283791657e-1f), x);
  t = t > 4 ? 4 : t; // from where on it is 1
  return copysign(1 - exp(t * horner(t, -1.396227600e-5f, 3.505903855e-4f, -3.757470224e-3f, 2.401005485e-2f, -1.065308496e-1f, -6.349695405e-1f, -1.128694335f)), x);
}

// erf in double takes the four ranges of FDLIBM. It rounds x², because 1 - erf is small where x² is not.
DEVICE double erf(double x) {
  double t = abs(x);
  if (!(t >= 0.84375)) {
    double z = x * x;
    double p = horner(z, -2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02, -3.25042107247001499370e-01, 1.28379167095512558561e-01);
    double q = horner(z, -3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03, 6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.);
    return fma(x, p / q, x);
  }
  if (t < 1.25) {
    double s = t - 1;
    double p = horner(s, -2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01, 3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01, -2.36211856075265944077e-03);
    double q = horner(s, 1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01, 7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.);
    return copysign(8.45062911510467529297e-01 + p / q, x);
  }
  t = t > 6 ? 6 : t; // from where on it is 1
  double s = 1 / (t * t), p, q;
  if (t < 1 / 0.35) {
    p = horner(s, -9.81432934416914548592e+00, -8.12874355063065934246e+01, -1.84605092906711035994e+02, -1.62396669462573470355e+02, -6.23753324503260060396e+01, -1.05586262253232909814e+01, -6.93858572707181764372e-01, -9.86494403484714822705e-03);
    q = horner(s, -6.04244152148580987438e-02, 6.57024977031928170135e+00, 1.08635005541779435134e+02, 4.29008140027567833386e+02, 6.45387271733267880336e+02, 4.34565877475229228821e+02, 1.37657754143519042600e+02, 1.96512716674392571292e+01, 1.);
  } else {
    p = horner(s, -4.83519191608651397019e+02, -1.02509513161107724954e+03, -6.37566443368389627722e+02, -1.60636384855821916062e+02, -1.77579549177547519889e+01, -7.99283237680523006574e-01, -9.86494292470009928597e-03);
    q = horner(s, -2.24409524465858183362e+01, 4.74528541206955367215e+02, 2.55305040643316442583e+03, 3.19985821950859553908e+03, 1.53672958608443695994e+03, 3.25792512996573918826e+02, 3.03380607434824582924e+01, 1.);
  }
  return copysign(1 - exp(fma(-t, t, p / q - 0.5625)) / t, x);
}

// An angle is x = quadrant·π/2 + r, |r| <= π/4.
template <class T> struct angle { T r; int32 quadrant; };

// The bits of 4/π, from Go's math/trig_reduce.go.
static __device__ const uint64 fourOverPi[] = {
    0x0000000000000001, 0x45f306dc9c882a53, 0xf84eafa3ea69bb81, 0xb6c52b3278872083, 0xfca2c757bd778ac3, 0x6e48dc74849ba5c0, 0x0c925dd413a32439,
    0xfc3bd63962534e7d, 0xd1046bea5d768909, 0xd338e04d68befc82, 0x7323ac7306a673e9, 0x3908bf177bf25076, 0x3ff12fffbc0b301f, 0xde5e2316b414da3e,
    0xda6cfd9e4f96136e, 0x9e8c7ecd3cbfd45a, 0xea4f758fd7cbe2f6, 0x7a0e73ef14a525d4, 0xd7f6bf623f1aba10, 0xac06608df8f6d757,
};

// digits returns 64 bits of 4/π from a bit on.
DEVICE uint64 digits(uint32 word, uint32 shift) {
  return shift == 0 ? fourOverPi[word] : fourOverPi[word] << shift | fourOverPi[word + 1] >> (64 - shift);
}

// reduceLarge multiplies x > 2^30 by the digits of 4/π that matter.
DEVICE angle<double> reduceLarge(double x) {
  uint64 b = bits<uint64>(x);
  int32 e = (int32)(b >> 52 & 0x7ff) - 1023 - 52;
  uint64 m = (b & ((1ull << 52) - 1)) | 1ull << 52;
  uint32 word = (uint32)(e + 61) / 64, shift = (uint32)(e + 61) % 64;
  uint64 z1 = digits(word + 1, shift), lo = z1 * m + high(digits(word + 2, shift), m);
  uint64 hi = digits(word, shift) * m + high(z1, m) + (lo < z1 * m);
  uint32 octant = (uint32)(hi >> 61);
  // The fraction of an octant in 128 bits, or how much it lacks of a whole one.
  uint64 f = hi << 3 | lo >> 61, rest = lo << 3;
  bool negative = octant & 1;
  if (negative) rest = 0 - rest, f = ~f + (rest == 0), octant++;
  double r = fma((double)rest, 0x1p-128, (double)f * 0x1p-64) * 0.78539816339744830962;
  return {negative ? -r : r, (int32)(octant >> 1)};
}

DEVICE angle<double> reduceAngle(double x) {
  if (abs(x) > 0x1p30) {
    if (!finite(x)) return {__builtin_nan(""), 0};
    angle<double> a = reduceLarge(abs(x));
    return x < 0 ? angle<double>{-a.r, -a.quadrant} : a;
  }
  const double magic = 6755399441055744.;
  double t = fma(x, 0.63661977236758134308, magic), q = t - magic;
  double r = fma(q, 1.4973849048591833e-33, fma(q, -6.123233995736766e-17, fma(q, -1.5707963267948966, x)));
  return {r, (int32)(bits<int64>(t) - bits<int64>(magic))};
}
DEVICE angle<float> reduceAngle(float x) {
  if (abs(x) > 32768.f) {
    angle<double> a = reduceAngle((double)x);
    return {(float)a.r, a.quadrant};
  }
  const float magic = 12582912.f;
  float t = fma(x, 0.636619772f, magic), q = t - magic;
  float r = fma(q, 1.71512451e-15f, fma(q, 4.37113883e-8f, fma(q, -1.57079637f, x)));
  return {r, bits<int32>(t) - bits<int32>(magic)};
}

DEVICE float sinNear(float r) {
  float z = r * r, p = fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f);
  return fma(p * z, r, r);
}
DEVICE float cosNear(float r) {
  float z = r * r, p = fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f);
  return fma(p * z, z, fma(-0.5f, z, 1.f));
}
DEVICE double sinNear(double r) {
  double z = r * r, p = 1.58969099521155010221e-10;
  p = fma(p, z, -2.50507602534068634195e-08);
  p = fma(p, z, 2.75573137070700676789e-06);
  p = fma(p, z, -1.98412698298579493134e-04);
  p = fma(p, z, 8.33333333332248946124e-03);
  p = fma(p, z, -1.66666666666666324348e-01);
  return fma(p * z, r, r);
}
DEVICE double cosNear(double r) {
  double z = r * r, p = -1.13596475577881948265e-11;
  p = fma(p, z, 2.08757232129817482790e-09);
  p = fma(p, z, -2.75573143513906633035e-07);
  p = fma(p, z, 2.48015872894767294178e-05);
  p = fma(p, z, -1.38888888888741095749e-03);
  p = fma(p, z, 4.16666666666666019037e-02);
  return fma(p * z, z, fma(-0.5, z, 1.));
}

// quarter is sin(r + quadrant·π/2).
template <class T> DEVICE T quarter(T r, int32 quadrant) {
  T y = quadrant & 1 ? cosNear(r) : sinNear(r);
  return quadrant & 2 ? -y : y;
}
template <class T> DEVICE T sin(T x) {
  angle<T> a = reduceAngle(x);
  return x == 0 ? x : quarter(a.r, a.quadrant);
}
template <class T> DEVICE T cos(T x) {
  angle<T> a = reduceAngle(x);
  return quarter(a.r, a.quadrant + 1);
}

// A pair is an unevaluated sum: the second number is the rounding error of the first.
struct pair { double hi, lo; };

DEVICE pair product(double a, double b) {
  double p = a * b;
  return {p, fma(a, b, -p)};
}
// sum needs |a| >= |b|.
DEVICE pair sum(double a, double b) {
  double s = a + b;
  return {s, b - (s - a)};
}

// logPair is the logarithm of a positive finite number to about 2^-64. With s = f/(2+f), log(1+f) = 2s + s z (2/3 + 2/5 z + 2/7 z² …), z = s².
DEVICE pair logPair(double x) {
  mantissa<double> m = mantissaOf(x);
  double over = 2. + m.f, rest = m.f - (over - 2.), hi = m.f / over;
  double lo = (fma(-hi, over, m.f) - hi * rest) / over;
  pair z = product(hi, hi);
  z.lo = fma(2. * hi, lo, z.lo);
  double p = 0;
#pragma unroll
  for (int i = 13; i > 1; i--) p = fma(p, z.hi, 2. / (2 * i + 1));
  pair c = sum(2. / 3, fma(p, z.hi, 3.7007434154171883e-17));
  pair w = product(z.hi, c.hi);
  w.lo += fma(z.hi, c.lo, z.lo * c.hi);
  pair t = product(hi, w.hi);
  t.lo += fma(hi, w.lo, lo * w.hi);
  pair y = sum(2. * hi, t.hi);
  y.lo += fma(2., lo, t.lo);
  double k = m.k;
  pair l = sum(k * ln2High<double>, y.hi);
  if (m.k == 0) l = {y.hi, 0};
  return sum(l.hi, l.lo + fma(k, ln2Low<double>, y.lo));
}

// power is x^y for positive x; it needs no care at 0 and infinity, where the logarithm is infinite.
DEVICE float power(float x, float y) { return (float)exp((double)y * log((double)x)); }
DEVICE double power(double x, double y) {
  if (x == 0 || !finite(x)) return exp(y * log(x));
  pair l = logPair(x), e = product(l.hi, y);
  if (!(abs(e.hi) < 1000)) return exp(e.hi);
  double p = exp(e.hi);
  return finite(p) ? fma(p, fma(l.lo, y, e.lo), p) : p;
}

// pow is x^y, with the special cases of C and Go.
template <class T> DEVICE T pow(T x, T y) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  T a = abs(x);
  if (a == 1 && !finite(y)) return 1;
  bool whole = abs(y) >= (sizeof(T) == 4 ? T(0x1p24) : T(0x1p53)) || floor(y) == y;
  bool odd = whole && abs(y) < (sizeof(T) == 4 ? T(0x1p24) : T(0x1p53)) && floor(y / 2) != y / 2;
  if (x < 0 && finite(x) && !whole) return T(__builtin_nanf(""));
  T p = power(a, y);
  return odd ? copysign(p, x) : p;
}

} // namespace num
