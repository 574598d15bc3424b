// Who works on a line: one thread, or a block.
#pragma once
#include "math.cuh"

struct Solo {
  static constexpr bool block = false;
  DEVICE int64 rank() { return 0; }
  DEVICE int64 size() { return 1; }
  template <class T> DEVICE T sum(T v) { return v; }
  template <class T> DEVICE T max(T v) { return v; }
};

struct Block {
  static constexpr bool block = true;
  DEVICE int64 rank() { return threadIdx.x; }
  DEVICE int64 size() { return blockDim.x; }
  template <class T> DEVICE T sum(T v) {
    __shared__ T part[32];
    return blockSum(v, part);
  }
  template <class T> DEVICE T max(T v) {
    __shared__ T part[32];
    return blockMax(v, part);
  }
};
