// Adam and AdamW with states of a byte an element.  Reference: kernels/adam8.go.
// param, grad [n], m, root [n] bytes, largest [blocks, 2]: reads 10 bytes an element of float32 and writes 6, and 16 bytes a block of 256.
// A warp updates a block: its means and roots stay in registers between the step and their codes. Where guard[0] is not 0 nothing changes.
#include "math.cuh"

constexpr int32 block8 = 256, perLane = block8 / (int32)warp, topSigned = 6, topUnsigned = 7;
constexpr float least8 = 0x1p-80f; // Least8

// encode returns the nearest code of x, see Encode8.
template <class T> DEVICE int32 encode(T x, int32 top) {
  if (!(x < 1)) return (2 << top) - 1;
  int32 k = top;
  for (; k > 0 && x < T(0.125); k--) x *= 8;
  return (1 << k) - 1 + (int32)((8 * x - 1) * (T)(1 << k) / 7 + T(0.5));
}

// decode returns the value of a code: see numeric.Decode8.
template <class T> DEVICE T decode(int32 code, int32 top) {
  if (code == 0) return 0;
  T x = T(0.125);
  int32 k = top;
  for (; code < 1 << k; k--) x *= T(0.125);
  return x * (1 + 7 * (T)(code - (1 << k) + 1) / (T)(1 << k));
}

// norm returns √(x² + y²), also where squares leave the range of their type: by a power of two they are brought back.
template <class T> DEVICE T norm(T x, T y, T high, T down, T low, T up) {
  T size = num::abs(x) > num::abs(y) ? num::abs(x) : num::abs(y), by = size > high ? down : size < low ? up : T(1);
  x *= by;
  y *= by;
  return num::sqrt(x * x + y * y) / by;
}
DEVICE float norm(float x, float y) { return norm(x, y, 0x1p60f, 0x1p-68f, 0x1p-40f, 0x1p90f); }
DEVICE double norm(double x, double y) { return norm(x, y, 0x1p500, 0x1p-530, 0x1p-400, 0x1p600); }

template <class T>
DEVICE void adam8(T *param, const T *grad, int8 *m, uint8 *root, T *largest, int64 n, const int32 *guard, const double *controls, const double *by,
                  double clipAt, double decayBy, double b1, double rootB2, double rootRest, double epsilon, bool decoupled) {
  if (guard[0] != 0) return;
  double unbias = num::sqrt(controls[3]);
  T rate = (T)controls[0], by2 = (T)(unbias / controls[2]), clip = (T)clipAt, decay = (T)decayBy, scale = by ? (T)by[0] : T(1);
  T a = (T)b1, b = (T)rootB2, notA = (T)(1 - b1), notB = (T)rootRest, eps = (T)(epsilon * unbias);
  int32 lane = threadIdx.x % warp;
  for (int64 block = index() / warp; block * block8 < n; block += stride() / warp) {
    T mean[perLane], size[perLane], oldMean = largest[2 * block], oldRoot = largest[2 * block + 1], mostMean = 0, mostRoot = 0;
#pragma unroll
    for (int32 j = 0; j < perLane; j++) {
      int64 i = block * block8 + j * (int32)warp + lane;
      mean[j] = size[j] = 0;
      if (i >= n) continue;
      T p = param[i], g = grad[i] * scale;
      if (clip > 0) g = g < -clip ? -clip : g > clip ? clip : g;
      if (!decoupled) g = g + decay * p;
      int32 code = m[i];
      T was = oldMean * decode<T>(code < 0 ? -code : code, topSigned), r = oldRoot * decode<T>(root[i], topUnsigned);
      T to = a * (code < 0 ? -was : was) + notA * g, v = norm(b * r, notB * g);
      T step = to / (v + eps) * by2;
      param[i] = p - rate * (decoupled ? step + decay * p : step);
      mean[j] = to;
      size[j] = v;
      if (num::abs(to) > mostMean) mostMean = num::abs(to); // not where it is NaN
      if (size[j] > mostRoot) mostRoot = size[j];
    }
    mostMean = warpMax(mostMean);
    mostRoot = warpMax(mostRoot);
    if (mostMean < least8) mostMean = 0;
    if (mostRoot < least8) mostRoot = 0;
    if (lane == 0) {
      largest[2 * block] = mostMean;
      largest[2 * block + 1] = mostRoot;
    }
#pragma unroll
    for (int32 j = 0; j < perLane; j++) {
      int64 i = block * block8 + j * (int32)warp + lane;
      if (i >= n) continue;
      int32 code = mostMean == 0 ? 0 : encode(num::abs(mean[j]) / mostMean, topSigned);
      m[i] = (int8)(mean[j] < 0 ? -code : code);
      code = mostRoot == 0 ? 0 : encode(size[j] / mostRoot, topUnsigned);
      root[i] = (uint8)(code == 0 && mostRoot > 0 && size[j] > 0 ? 1 : code);
    }
  }
}

#define ADAM8(name, T)                                                                                                                             \
  KERNEL adam8_##name(T *param, const T *grad, int8 *m, uint8 *root, T *largest, int64 n, const int32 *guard, const double *controls,              \
                      const double *scale, double clip, double decay, double b1, double rootB2, double rootRest, double epsilon,                   \
                      int32 decoupled) {                                                                                                           \
    adam8(param, grad, m, root, largest, n, guard, controls, scale, clip, decay, b1, rootB2, rootRest, epsilon, decoupled != 0);                   \
  }
ADAM8(f32, float)
ADAM8(f64, double)
