// Numbers in memory that products read.
#pragma once

#include "cuda.cuh"

// Numbers in memory, of which a product reads one or a few neighbours: a pointer, or rounded. An address is in numbers.

template <class T> struct numbersOf;
template <class T> struct numbersOf<const T *> { typedef T type; };

template <int N, class T> DEVICE vec<T, N> neighbours(const T *from, int64 i) { return *(const vec<T, N> *)(from + i); }

// Formats of 16 bits.
struct bfloat16 {
  static METHOD float widen(uint16 h) { return bits<float>((uint32)h << 16); }
  static METHOD float round(float v) { // as float16.ToBFloat16: GPUs before sm_80 have no instruction for it
    const uint32 b = bits<uint32>(v), near = v != v ? b | 0x400000 : b + 0x7fff + (b >> 16 & 1);
    return bits<float>(near & 0xffff0000);
  }
};
struct float16 {
  static METHOD float widen(uint16 h) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
    return v;
  }
  static METHOD float round(float v) {
    uint16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    return widen(h);
  }
};

// Floats that are rounded to 16 bits as they are read, or are stored in them.
template <class Format> struct rounded {
  const void *p;
  bool stored;
  METHOD rounded operator+(int64 i) const { return {(const char *)p + i * (stored ? 2 : 4), stored}; }
  METHOD float operator[](int64 i) const { return stored ? Format::widen(((const uint16 *)p)[i]) : Format::round(((const float *)p)[i]); }
};
template <class Format> struct numbersOf<rounded<Format>> { typedef float type; };

template <int N, class Format> DEVICE vec<float, N> neighbours(rounded<Format> from, int64 i) {
  vec<float, N> v;
  if (from.stored) {
    const vec<uint16, N> h = neighbours<N>((const uint16 *)from.p, i);
#pragma unroll
    for (int j = 0; j < N; j++) v.v[j] = Format::widen(h.v[j]);
  } else {
    v = neighbours<N>((const float *)from.p, i);
#pragma unroll
    for (int j = 0; j < N; j++) v.v[j] = Format::round(v.v[j]);
  }
  return v;
}
