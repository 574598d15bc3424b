// Running sums along an axis: lines of n elements, which are step apart.  Reference: kernels/cumsum.go.
// A line has a warp where its elements are neighbours, else a thread. Sums are in double, their order depends on n alone.
// Reads x and writes y once; y may be x. A warp adds 32 elements at a time, one such step after another.
#include "cuda.cuh"

// below returns v of the lane that is by lanes below, 0 where there is none.
DEVICE double below(double v, int32 by) {
  int64 w = bits<int64>(v);
  uint32 lo = (uint32)__nvvm_shfl_sync_up_i32(everyone, (int32)w, by, 0), hi = (uint32)__nvvm_shfl_sync_up_i32(everyone, (int32)(w >> 32), by, 0);
  return threadIdx.x % warp >= by ? bits<double>((int64)((uint64)hi << 32 | lo)) : 0;
}
// last returns v of the last lane.
DEVICE double last(double v) {
  int64 w = bits<int64>(v);
  uint32 lo = (uint32)__nvvm_shfl_sync_idx_i32(everyone, (int32)w, 31, 0x1f), hi = (uint32)__nvvm_shfl_sync_idx_i32(everyone, (int32)(w >> 32), 31, 0x1f);
  return bits<double>((int64)((uint64)hi << 32 | lo));
}

// Blocks are warps. Element i of a line is at i, or from the end with reverse.
template <class T> DEVICE void rows(const T *x, T *y, int64 n, int64 lines, int32 reverse) {
  for (int64 l = index() / warp; l < lines; l += stride() / warp) {
    double sum = 0;
    for (int64 from = 0; from < n; from += warp) {
      int64 i = from + threadIdx.x % warp, at = l * n + (reverse ? n - 1 - i : i);
      double v = i < n ? (double)x[at] : 0;
#pragma unroll
      for (int32 by = 1; by < warp; by <<= 1) v += below(v, by);
      v += sum;
      if (i < n) y[at] = (T)v;
      sum = last(v);
    }
  }
}
template <class T> DEVICE void columns(const T *x, T *y, int64 n, int64 step, int64 lines, int32 reverse) {
  for (int64 l = index(); l < lines; l += stride()) {
    int64 start = l / step * step * n + l % step;
    double sum = 0;
    for (int64 i = 0; i < n; i++) {
      int64 at = start + (reverse ? n - 1 - i : i) * step;
      sum += x[at];
      y[at] = (T)sum;
    }
  }
}
#define CUMSUM(name, T)                                                                                            \
  KERNEL cumsum_row_##name(const T *x, T *y, int64 n, int64 lines, int32 reverse) { rows(x, y, n, lines, reverse); } \
  KERNEL cumsum_line_##name(const T *x, T *y, int64 n, int64 step, int64 lines, int32 reverse) { columns(x, y, n, step, lines, reverse); }
CUMSUM(f32, float)
CUMSUM(f64, double)
