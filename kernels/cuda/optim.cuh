// What optimizer rules share.
#pragma once

#include "math.cuh"

// Factors are two numbers by whose product a gradient is scaled. A single one could be denormal: gradients up to the largest number are scaled
// down to a norm of 1 by less than the smallest normal number.
template <class T> struct factors {
  T down, by;
  METHOD T of(T g) const { return g * down * by; }
};

// split returns the factors of a scale, or 1 if scale is 0.
template <class T> DEVICE factors<T> split(const double *scale) {
  const double s = scale ? scale[0] : 1., down = s < 0x1p-100 ? 0x1p-100 : 1.;
  return {(T)down, (T)(s / down)};
}
