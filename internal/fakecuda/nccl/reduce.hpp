// Sums and maxima of NCCL's types, in the order of ranks. 16-bit floating point is rounded after each addition, as in a ring.
#pragma once
#include <cstdint>
#include <cstring>

namespace nccl {

enum Type { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kFloat16, kFloat32, kFloat64, kBfloat16, kTypes };
enum Reduction { kSum = 0, kMax = 2 };

inline size_t width(int type) {
  constexpr size_t bytes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < kTypes ? bytes[type] : 0;
}

inline const char *name(int type) {
  constexpr const char *names[kTypes] = {"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bfloat16"};
  return names[type];
}

struct Bfloat16 {
  uint16_t bits;
  operator float() const {
    uint32_t wide = uint32_t(bits) << 16;
    float f;
    memcpy(&f, &wide, 4);
    return f;
  }
  Bfloat16(float f) {
    uint32_t wide;
    memcpy(&wide, &f, 4);
    bits = f != f ? uint16_t(wide >> 16 | 64) : uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
};

// combine adds in type S: an unsigned one wraps around.
template <class T, class S>
void combine(int reduction, void *into, const void *from, size_t n) {
  T *a = static_cast<T *>(into);
  const T *b = static_cast<const T *>(from);
  if (reduction == kMax) {
    for (size_t i = 0; i < n; i++)
      if (b[i] > a[i]) a[i] = b[i];
    return;
  }
  for (size_t i = 0; i < n; i++) a[i] = T(S(a[i]) + S(b[i]));
}

inline void reduce(int type, int reduction, void *into, const void *from, size_t n) {
  switch (type) {
    case kInt8: return combine<int8_t, uint8_t>(reduction, into, from, n);
    case kUint8: return combine<uint8_t, uint8_t>(reduction, into, from, n);
    case kInt32: return combine<int32_t, uint32_t>(reduction, into, from, n);
    case kUint32: return combine<uint32_t, uint32_t>(reduction, into, from, n);
    case kInt64: return combine<int64_t, uint64_t>(reduction, into, from, n);
    case kUint64: return combine<uint64_t, uint64_t>(reduction, into, from, n);
    case kFloat16: return combine<_Float16, float>(reduction, into, from, n);
    case kFloat32: return combine<float, float>(reduction, into, from, n);
    case kFloat64: return combine<double, double>(reduction, into, from, n);
    case kBfloat16: return combine<Bfloat16, float>(reduction, into, from, n);
  }
}

}  // namespace nccl
