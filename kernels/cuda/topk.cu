// The k largest elements of lines of n elements, which are step apart, and the gradient of that.  References: kernels/topk.go.
// A line has a block. Each of k rounds finds the largest element that comes after the one found before: it reads the line k times, after the
// first time from the cache for lines that fit it.
#include "index.cuh"

// rank maps a number to an integer of the same order. Zeros of both signs are equal, NaN is above all numbers.
DEVICE uint64 rank(double x) {
  if (x != x) return ~0ull;
  uint64 b = bits<uint64>(x == 0 ? 0.0 : x);
  return b >> 63 ? ~b : b | 1ull << 63;
}

// better reports whether the element of rank r at place i comes before that of rank s at j. No element has the place of an empty one, n.
DEVICE bool better(uint64 r, int64 i, uint64 s, int64 j) { return r > s || (r == s && i < j); }

// pick gives all lanes of a warp the best of their elements.
DEVICE void pick(uint64 &r, int64 &i) {
#pragma unroll
  for (int32 m = 16; m > 0; m >>= 1) {
    uint64 s = (uint64)swapLanes((int64)r, m);
    int64 j = swapLanes(i, m);
    if (better(s, j, r, i)) r = s, i = j;
  }
}

template <class T> DEVICE void topk(const T *x, T *y, int64 *at, int64 n, int64 step, int64 k, int64 lines) {
  __shared__ uint64 ranks[32];
  __shared__ int64 places[32];
  for (int64 l = blockIdx.x; l < lines; l += gridDim.x) {
    const T *line = x + (l / step * step * n + l % step);
    int64 to = l / step * step * k + l % step;
    uint64 last = ~0ull;
    int64 place = -1; // that comes before all
    for (int64 round = 0; round < k; round++) {
      uint64 best = 0;
      int64 where = n;
      for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
        uint64 r = rank(line[i * step]);
        if (better(last, place, r, i) && better(r, i, best, where)) best = r, where = i;
      }
      // The best of each warp, then of these; all threads have the result.
      pick(best, where);
      if (threadIdx.x % warp == 0) ranks[threadIdx.x / warp] = best, places[threadIdx.x / warp] = where;
      __syncthreads();
      bool mine = threadIdx.x % warp < blockDim.x / warp;
      last = mine ? ranks[threadIdx.x % warp] : 0;
      place = mine ? places[threadIdx.x % warp] : n;
      pick(last, place);
      if (threadIdx.x == 0) {
        y[to + round * step] = line[place * step];
        at[to + round * step] = place;
      }
      __syncthreads(); // before the next round writes them
    }
  }
}

// A thread has an element of dy. dx is 0 before.
template <class T> DEVICE void topkGrad(const int64 *at, const T *dy, T *dx, int64 n, int64 step, int64 k, int64 count) {
  for (int64 i = index(); i < count; i += stride()) {
    int64 place = at[i];
    if (place >= 0 && place < n) dx[i / (k * step) * n * step + place * step + i % step] = dy[i];
  }
}
#define TOPK(name, T)                                                                                                                   \
  KERNEL topk_##name(const T *x, T *y, int64 *at, int64 n, int64 step, int64 k, int64 lines) { topk(x, y, at, n, step, k, lines); }     \
  KERNEL topkGrad_##name(const int64 *at, const T *dy, T *dx, int64 n, int64 step, int64 k, int64 count) {                              \
    topkGrad(at, dy, dx, n, step, k, count);                                                                                            \
  }
TOPK(f32, float)
TOPK(f64, double)
