// Adam and AdamW with states of a byte an element.  Reference: kernels/adam8.go.
// param, grad [n], m, root [n] bytes, largest [blocks]: reads 10 bytes an element of float32 and writes 6, and 8 bytes a block of 256.
// A warp updates a block: its means and roots stay in registers between the step and their codes. Where guard[0] is not 0 nothing changes.
#include "optim.cuh"

constexpr int32 block8 = 256, perLane = block8 / (int32)warp;
constexpr float least8 = 0x1p-80f, jump8 = 0x1p16f; // Least8, Jump8

// Codes are the upper bits of floats, see numeric.EncodeRoot and numeric.EncodeMean.
constexpr uint32 rootBits = 20, rootLow = 761u << rootBits, meanBits = 19, meanLow = 1920u << meanBits, unitMask = 0xffu << 23;
constexpr float meanZero = 0x1p-7f;

// Dither, see numeric.Dither.
constexpr uint32 ditherRoot = 0x9E3779B9u, ditherMean = 0x6A09E667u, ditherElement = 0xBB67AE85u;

DEVICE uint32 encodeRoot(float x, uint32 noise) {
  if (!(x < 1)) x = 1;
  if (x < bits<float>(rootLow)) x = bits<float>(rootLow);
  return (bits<uint32>(x) + (noise >> (32 - rootBits)) - rootLow) >> rootBits;
}
DEVICE float rootOf(uint32 code) { return bits<float>((code << rootBits) + rootLow); }
DEVICE float unitOf(uint32 code) { return bits<float>(((code << rootBits) + rootLow) & unitMask); }

DEVICE int32 encodeMean(float x, uint32 noise) {
  const uint32 code = (bits<uint32>(num::abs(x) + meanZero) + (noise >> (32 - meanBits)) - meanLow) >> meanBits;
  const int32 size = code > 127 ? 127 : (int32)code;
  return bits<uint32>(x) >> 31 ? -size : size;
}
DEVICE float meanOf(int32 code) {
  const float size = bits<float>(((uint32)(code < 0 ? -code : code) << meanBits) + meanLow) - meanZero;
  return code < 0 ? -size : size;
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
                  double clipAt, double decayBy, double b1, double rootB2, double rootRest, double span, double epsilon, bool decoupled) {
  if (guard[0] != 0) return;
  const double unbias = num::sqrt(controls[3]);
  const T rate = (T)controls[0], by2 = (T)(unbias / controls[2]), clip = (T)clipAt, decay = (T)decayBy;
  const factors<T> scale = split<T>(by);
  const T a = (T)(b1 * span), b = (T)rootB2, notA = (T)(1 - b1), notB = (T)rootRest, eps = (T)(epsilon * unbias), inverse = (T)(1 / span);
  const uint32 t = (uint32)(int64)controls[1];
  const int32 lane = threadIdx.x % warp;
  for (int64 block = index() / warp; block * block8 < n; block += stride() / warp) {
    T mean[perLane], size[perLane], was = largest[block], most = 0;
#pragma unroll
    for (int32 j = 0; j < perLane; j++) {
      int64 i = block * block8 + j * (int32)warp + lane;
      mean[j] = size[j] = 0;
      if (i >= n) continue;
      T p = param[i], g = scale.of(grad[i]);
      if (clip > 0) g = g < -clip ? -clip : g > clip ? clip : g;
      if (!decoupled) g = g + decay * p;
      const T share = (T)meanOf(m[i]) * (was * (T)unitOf(root[i]));
      const T to = a * share + notA * g, v = norm(b * (was * (T)rootOf(root[i])), notB * g);
      const T step = to / (v + eps) * by2;
      param[i] = p - rate * (decoupled ? step + decay * p : step);
      mean[j] = to;
      size[j] = v;
      if (v > most) most = v; // not where it is NaN
    }
    most = warpMax(most);
    if (was > 0 && most > was * jump8) most = was * jump8;
    if (most < least8) most = 0;
    if (lane == 0) largest[block] = most;
    // The product of both factors is 1/most. A single one would be denormal for a huge most.
    const T shrink = most > 1 ? T(0x1p-8) : T(1), inverseMost = most > 0 ? 1 / (most * shrink) : T(0);
#pragma unroll
    for (int32 j = 0; j < perLane; j++) {
      const int32 at = j * (int32)warp + lane;
      const int64 i = block * block8 + at;
      if (i >= n) continue;
      const uint32 noise = (uint32)at * ditherElement;
      const uint32 code = encodeRoot((float)(size[j] * shrink * inverseMost), t * ditherRoot + noise);
      root[i] = (uint8)code;
      m[i] = (int8)encodeMean((float)(mean[j] * shrink * inverseMost * (T)(1 / unitOf(code)) * inverse), t * ditherMean + noise);
    }
  }
}

#define ADAM8(name, T)                                                                                                                             \
  KERNEL adam8_##name(T *param, const T *grad, int8 *m, uint8 *root, T *largest, int64 n, const int32 *guard, const double *controls,              \
                      const double *scale, double clip, double decay, double b1, double rootB2, double rootRest, double span, double epsilon,      \
                      int32 decoupled) {                                                                                                           \
    adam8(param, grad, m, root, largest, n, guard, controls, scale, clip, decay, b1, rootB2, rootRest, span, epsilon, decoupled != 0);             \
  }
ADAM8(f32, float)
ADAM8(f64, double)
