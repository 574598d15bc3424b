// Optimizer rules, running statistics, moves of a tensor towards another, and the check for values that are not finite.  References: kernels/update.go and the file of each rule.
// Elementwise on n elements: reads parameter, gradient and states, writes parameter and states in place. If guard[0] is not 0 nothing changes.
// A state element has the size of a parameter element, in adam16 and adamw16 two bytes.
#include "optim.cuh"

enum Rule { sgd, momentum, nesterov, rmsprop, adam, adamw, lion };

// Numbers that all rules share, and three of each rule's own: see update.go.
struct Numbers {
  const int32 *guard;
  const double *controls, *scale; // scale: 0 where the gradient is not scaled
  double clip, decay, a, b, epsilon;
};

// within limits the magnitude of x to most; NaN stays NaN.
template <class T> DEVICE T within(T x, T most) { return x < -most ? -most : x > most ? most : x; }

// saturated returns x, or the largest number of its sign if x is infinite, see MostFinite.
DEVICE float saturated(float x) { return within(x, 0x1.fffffep127f); }
DEVICE double saturated(double x) { return within(x, 0x1.fffffffffffffp1023); }

// squarable limits a gradient to what can be squared, see MostSquared.
DEVICE float squarable(float g) { return within(g, 0x1p63f); }
DEVICE double squarable(double g) { return within(g, 0x1p511); }

// step returns the new parameter and moves the states m and v.
template <Rule rule, class T> DEVICE T step(Numbers k, T rate, T c2, T c3, T p, T g, T &m, T &v) {
  T a = (T)k.a, b = (T)k.b, notA = (T)(1 - k.a), notB = (T)(1 - k.b), eps = (T)k.epsilon;
  if (rule == sgd) return p - rate * g;
  if (rule == momentum || rule == nesterov) {
    m = saturated(a * m + g);
    return p - rate * (rule == nesterov ? saturated(g + a * m) : m);
  }
  if (rule == rmsprop) {
    g = squarable(g);
    m = a * m + notA * g * g;
    return p - rate * g / (num::sqrt(m) + eps);
  }
  if (rule == lion) {
    T s = num::sign(a * m + notA * g);
    m = b * m + notB * g;
    return p - rate * (s + (T)k.decay * p);
  }
  g = squarable(g);
  m = a * m + notA * g;
  v = b * v + notB * g * g;
  T by = m / c2 / (num::sqrt(v / c3) + eps);
  return p - rate * (rule == adamw ? by + (T)k.decay * p : by);
}

// noise returns 32 bits by which means of bfloat16 are rounded, see Noise.
DEVICE uint32 word(float x) { return bits<uint32>(x); }
DEVICE uint32 word(double x) {
  uint64 b = bits<uint64>(x);
  return (uint32)b ^ (uint32)(b >> 32);
}
DEVICE uint32 noise(uint32 param, uint32 grad, uint32 t) {
  uint32 x = param * 0x9E3779B1u + grad + t * 0x85EBCA77u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

// A state is of the parameter's type, or the bits of a bfloat16, which the lower half of some noise rounds, see DitherBfloat16.
template <class T> DEVICE T get(T at) { return at; }
DEVICE float get(uint16 at) { return bits<float>((uint32)at << 16); }
template <class T> DEVICE void put(T &at, T s, uint32) { at = s; }
template <class T> DEVICE void put(uint16 &at, T s, uint32 noise) {
  uint32 b = bits<uint32>((float)s);
  at = (uint16)((s != s ? b | 0x400000u : b + (noise & 0xffffu)) >> 16);
}

// A change is the update of one element, with the numbers that all elements share.
template <Rule rule, class T, class S> struct change {
  static constexpr bool decoupled = rule == adamw || rule == lion;
  static constexpr int32 states = rule == sgd ? 0 : rule == adam || rule == adamw ? 2 : 1;
  Numbers k;
  T rate, c2, c3, clip;
  factors<T> scale;
  uint32 t;
  METHOD void one(T &p, T g, S &m, S &v) const {
    T s0 = states > 0 ? (T)get(m) : T(0), s1 = states > 1 ? (T)get(v) : T(0);
    uint32 chance = sizeof(S) < sizeof(T) ? noise(word(p), word(g), t) : 0;
    g = scale.of(g);
    if (clip > 0) g = g < -clip ? -clip : g > clip ? clip : g;
    if (!decoupled) g = g + (T)k.decay * p;
    if (sizeof(S) < sizeof(T)) g = within(g, T(0x1p63)); // bfloat16 has the range of float
    p = step<rule>(k, rate, c2, c3, p, g, s0, s1);
    if (states > 0) put(m, s0, chance);
    if (states > 1) put(v, s1, chance >> 16);
  }
  // some changes the N elements from i on, whose addresses are multiples of N elements.
  template <int N> METHOD void some(T *param, const T *grad, S *m, S *v, int64 i) const {
    vec<T, N> p = *(vec<T, N> *)(param + i);
    const vec<T, N> g = *(const vec<T, N> *)(grad + i);
    vec<S, N> a = {}, b = {};
    if (states > 0) a = *(vec<S, N> *)(m + i);
    if (states > 1) b = *(vec<S, N> *)(v + i);
#pragma unroll
    for (int j = 0; j < N; j++) one(p.v[j], g.v[j], a.v[j], b.v[j]);
    *(vec<T, N> *)(param + i) = p;
    if (states > 0) *(vec<S, N> *)(m + i) = a;
    if (states > 1) *(vec<S, N> *)(v + i) = b;
  }
};

// 16 bytes of the parameter at a time, where alignment allows, and the rest one by one.
template <Rule rule, class T, class S> DEVICE void update(T *param, const T *grad, S *m, S *v, int64 n, Numbers k) {
  if (k.guard[0] != 0) return;
  typedef change<rule, T, S> Change;
  const Change c = {k, (T)k.controls[0], (T)k.controls[2], (T)k.controls[3], (T)k.clip, split<T>(k.scale), (uint32)(int64)k.controls[1]};
  constexpr int lanes = 16 / sizeof(T);
  const bool wide = aligned(param, 16) && aligned(grad, 16) && (Change::states < 1 || aligned(m, lanes * sizeof(S))) &&
                    (Change::states < 2 || aligned(v, lanes * sizeof(S)));
  const int64 whole = wide ? n / lanes : 0;
  for (int64 i = index(); i < whole; i += stride()) c.template some<lanes>(param, grad, m, v, i * lanes);
  for (int64 i = whole * lanes + index(); i < n; i += stride()) c.template some<1>(param, grad, m, v, i);
}

template <class T> DEVICE void runningStat(T *running, const T *batch, const int32 *guard, int64 n, double keep, double take) {
  if (guard[0] != 0) return;
  for (int64 i = index(); i < n; i += stride()) running[i] = (T)(keep * running[i] + take * batch[i]);
}

// mix moves x towards y: with a weight of 1, x becomes y.
template <class T> DEVICE void mix(T *x, const T *y, const int32 *guard, const double *weight, int64 n) {
  const T w = (T)weight[0];
  if (guard[0] != 0 || weight[0] == 0) return;
  constexpr int lanes = 16 / sizeof(T);
  const int64 whole = aligned(x, 16) && aligned(y, 16) ? n / lanes : 0;
  for (int64 i = index(); i < whole; i += stride()) {
    vec<T, lanes> p = *(vec<T, lanes> *)(x + i * lanes);
    const vec<T, lanes> q = *(const vec<T, lanes> *)(y + i * lanes);
#pragma unroll
    for (int j = 0; j < lanes; j++) p.v[j] = weight[0] == 1 ? q.v[j] : p.v[j] + w * (q.v[j] - p.v[j]);
    *(vec<T, lanes> *)(x + i * lanes) = p;
  }
  for (int64 i = whole * lanes + index(); i < n; i += stride()) x[i] = weight[0] == 1 ? y[i] : x[i] + w * (y[i] - x[i]);
}

// All threads that find something write the same code, and none where one is written already: the result does not depend on their order.
template <class T> DEVICE void checkFinite(const T *x, int32 *guard, int64 n, int32 code) {
  bool bad = false;
  constexpr int lanes = 16 / sizeof(T);
  const int64 whole = aligned(x, 16) ? n / lanes : 0;
  for (int64 i = index(); i < whole; i += stride()) {
    const vec<T, lanes> v = *(const vec<T, lanes> *)(x + i * lanes);
#pragma unroll
    for (int j = 0; j < lanes; j++) bad = bad || !num::finite(v.v[j]);
  }
  for (int64 i = whole * lanes + index(); i < n; i += stride()) bad = bad || !num::finite(x[i]);
  if (bad && guard[0] == 0) guard[0] = code;
}

#define RULE(rule, name, T) KEEPING(rule, rule##_##name, T, T)
#define KEEPING(rule, kernel, T, S)                                                                                                         \
  KERNEL kernel(T *param, const T *grad, S *m, S *v, int64 n, const int32 *guard, const double *controls, const double *scale, double clip, \
                double decay, double a, double b, double epsilon) {                                                                        \
    update<rule>(param, grad, m, v, n, Numbers{guard, controls, scale, clip, decay, a, b, epsilon});                                       \
  }
#define RULES(name, T)                                                                                                                      \
  RULE(sgd, name, T) RULE(momentum, name, T) RULE(nesterov, name, T) RULE(rmsprop, name, T) RULE(adam, name, T) RULE(adamw, name, T)       \
  RULE(lion, name, T) KEEPING(adam, adam16_##name, T, uint16) KEEPING(adamw, adamw16_##name, T, uint16)                                     \
  KERNEL runningStat_##name(T *running, const T *batch, const int32 *guard, int64 n, double keep, double take) {                           \
    runningStat(running, batch, guard, n, keep, take);                                                                                     \
  }                                                                                                                                        \
  KERNEL mix_##name(T *x, const T *y, const int32 *guard, const double *weight, int64 n) { mix(x, y, guard, weight, n); }                  \
  KERNEL checkFinite_##name(const T *x, int32 *guard, int64 n, int32 code) { checkFinite(x, guard, n, code); }
RULES(f32, float)
RULES(f64, double)
