// Optimizer rules, running statistics, and the check for what is not finite.  References: kernels/update.go and the file of each rule.
// Elementwise on n elements: reads parameter, gradient and states, writes parameter and states where they lie. Where guard[0] is not 0 nothing changes.
// A state takes the bytes of a parameter, those of adam16 and adamw16 two.
#include "math.cuh"

enum Rule { sgd, momentum, nesterov, rmsprop, adam, adamw, lion };

// Numbers that all rules share, and three of each rule's own: see update.go.
struct Numbers {
  const int32 *guard;
  const double *controls, *scale; // scale: 0 where the gradient is not scaled
  double clip, decay, a, b, epsilon;
};

// step returns the new parameter and moves the states m and v.
template <Rule rule, class T> DEVICE T step(Numbers k, T rate, T c2, T c3, T p, T g, T &m, T &v) {
  T a = (T)k.a, b = (T)k.b, notA = (T)(1 - k.a), notB = (T)(1 - k.b), eps = (T)k.epsilon;
  if (rule == sgd) return p - rate * g;
  if (rule == momentum || rule == nesterov) {
    m = a * m + g;
    return p - rate * (rule == nesterov ? g + a * m : m);
  }
  if (rule == rmsprop) {
    m = a * m + notA * g * g;
    return p - rate * g / (num::sqrt(m) + eps);
  }
  if (rule == lion) {
    T s = num::sign(a * m + notA * g);
    m = b * m + notB * g;
    return p - rate * (s + (T)k.decay * p);
  }
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

template <Rule rule, class T, class S> DEVICE void update(T *param, const T *grad, S *m, S *v, int64 n, Numbers k) {
  if (k.guard[0] != 0) return;
  constexpr bool decoupled = rule == adamw || rule == lion;
  constexpr int32 states = rule == sgd ? 0 : rule == adam || rule == adamw ? 2 : 1;
  T rate = (T)k.controls[0], c2 = (T)k.controls[2], c3 = (T)k.controls[3], clip = (T)k.clip, scale = k.scale ? (T)k.scale[0] : T(1);
  uint32 t = (uint32)(int64)k.controls[1];
  for (int64 i = index(); i < n; i += stride()) {
    T p = param[i], g = grad[i], s0 = states > 0 ? (T)get(m[i]) : T(0), s1 = states > 1 ? (T)get(v[i]) : T(0);
    uint32 chance = sizeof(S) < sizeof(T) ? noise(word(p), word(g), t) : 0;
    g = g * scale;
    if (clip > 0) g = g < -clip ? -clip : g > clip ? clip : g;
    if (!decoupled) g = g + (T)k.decay * p;
    param[i] = step<rule>(k, rate, c2, c3, p, g, s0, s1);
    if (states > 0) put(m[i], s0, chance);
    if (states > 1) put(v[i], s1, chance >> 16);
  }
}

template <class T> DEVICE void runningStat(T *running, const T *batch, const int32 *guard, int64 n, double keep, double take) {
  if (guard[0] != 0) return;
  for (int64 i = index(); i < n; i += stride()) running[i] = (T)(keep * running[i] + take * batch[i]);
}

// All threads that find something write the same code, and none where one is written already: the result does not depend on their order.
template <class T> DEVICE void checkFinite(const T *x, int32 *guard, int64 n, int32 code) {
  bool bad = false;
  for (int64 i = index(); i < n; i += stride()) bad = bad || !num::finite(x[i]);
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
  KERNEL checkFinite_##name(const T *x, int32 *guard, int64 n, int32 code) { checkFinite(x, guard, n, code); }
RULES(f32, float)
RULES(f64, double)
