// Indices and labels of any integer type.
#pragma once
#include "cuda.cuh"

// integer returns element i of a vector of uint8 (type 0), int32 (1) or int64 (2).
DEVICE int64 integer(const void *p, int32 type, int64 i) {
  if (type == 0) return ((const uint8 *)p)[i];
  if (type == 1) return ((const int32 *)p)[i];
  return ((const int64 *)p)[i];
}
