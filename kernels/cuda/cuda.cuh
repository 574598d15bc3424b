// Replaces NVIDIA's headers for clang: attributes, built-in variables, and the few built-in functions that the kernels use.
// Functions of numbers are in math.cuh.
#pragma once

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __restrict__ __restrict

#include <__clang_cuda_builtin_vars.h>

#define METHOD __device__ inline __attribute__((always_inline))
#define DEVICE static METHOD
// KERNEL begins a kernel whose name is not mangled.
#define KERNEL extern "C" __global__ void

typedef signed char int8;
typedef unsigned char uint8;
typedef short int16;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef int int32;
typedef long long int64;
typedef unsigned long long uint64;

#define INFINITE __builtin_inff()

// A vec is N neighbours that are loaded and stored at once: its address must be a multiple of its size, at most 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };

// aligned reports whether p is a multiple of a number of bytes.
DEVICE bool aligned(const void *p, int bytes) { return ((uint64)p & (bytes - 1)) == 0; }

// Global index of a thread and the number of all, for grid-stride loops: for (int64 i = index(); i < n; i += stride()).
DEVICE int64 index() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE int64 stride() { return (int64)gridDim.x * blockDim.x; }

DEVICE int32 mini(int32 a, int32 b) { return a < b ? a : b; }
DEVICE int32 maxi(int32 a, int32 b) { return a > b ? a : b; }
DEVICE int64 mini(int64 a, int64 b) { return a < b ? a : b; }
DEVICE int64 maxi(int64 a, int64 b) { return a > b ? a : b; }

template <class To, class From> DEVICE To bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  return __builtin_bit_cast(To, x);
}

// high returns the upper half of a product.
DEVICE uint32 high(uint32 a, uint32 b) { return (uint32)(((uint64)a * b) >> 32); }
DEVICE uint64 high(uint64 a, uint64 b) { return (uint64)(((unsigned __int128)a * b) >> 64); }

// Exchanges within a warp, of all 32 lanes.
constexpr uint32 warp = 32, everyone = 0xffffffffu;

DEVICE int32 swapLanes(int32 v, int32 mask) { return __nvvm_shfl_sync_bfly_i32(everyone, v, mask, 0x1f); }
DEVICE float swapLanes(float v, int32 mask) { return __nvvm_shfl_sync_bfly_f32(everyone, v, mask, 0x1f); }
DEVICE int64 swapLanes(int64 v, int32 mask) {
  uint32 lo = (uint32)swapLanes((int32)v, mask), hi = (uint32)swapLanes((int32)(v >> 32), mask);
  return (int64)((uint64)hi << 32 | lo);
}
DEVICE double swapLanes(double v, int32 mask) { return bits<double>(swapLanes(bits<int64>(v), mask)); }

// Reductions of a warp in a fixed order; every lane gets the result. The order is symmetric, so all lanes have the same bits.
template <class T> DEVICE T warpSum(T v) {
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) v += swapLanes(v, m);
  return v;
}

// larger is the maximum, and NaN where either is.
template <class T> DEVICE T larger(T a, T b) { return a > b || a != a ? a : b; }

template <class T> DEVICE T warpMax(T v) {
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) v = larger(v, swapLanes(v, m));
  return v;
}

// blockSum sums over a block of at most 1024 threads, a multiple of 32, in a fixed order; every thread gets the result. part has room for 32.
template <class T> DEVICE T blockSum(T v, T *part) {
  v = warpSum(v);
  __syncthreads(); // part may still be read from a former call
  if (threadIdx.x % warp == 0) part[threadIdx.x / warp] = v;
  __syncthreads();
  T lane = threadIdx.x % warp < blockDim.x / warp ? part[threadIdx.x % warp] : T(0);
  return warpSum(lane);
}

template <class T> DEVICE T blockMax(T v, T *part) {
  v = warpMax(v);
  __syncthreads();
  if (threadIdx.x % warp == 0) part[threadIdx.x / warp] = v;
  __syncthreads();
  T lane = part[threadIdx.x % warp < blockDim.x / warp ? threadIdx.x % warp : 0];
  return warpMax(lane);
}
