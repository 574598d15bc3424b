// Cross entropy of the softmax of rows of logits [R, C] with classes [R] or distributions [R, C], its gradients, and whether the largest logit is
// right.  References: kernels/crossentropy.go. A row has a block; sums are in double. Reads the logits twice or three times, of which all but
// the first come from the cache. dx may be x or the target.
#include "index.cuh"
#include "team.cuh"

template <class T> struct normal { T most; T log; }; // largest element, log Σ exp(x - most)

template <class T> DEVICE normal<T> normalOf(const T *x, int64 n) {
  T m = -INFINITE;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) m = larger(x[i], m);
  m = Block::max(m);
  double sum = 0;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum += num::exp(x[i] - m);
  return {m, (T)num::log(Block::sum(sum))};
}

template <class T> DEVICE T none() { return T(__builtin_nanf("")); }

template <class T> DEVICE void loss(const T *x, const void *labels, int32 type, T *y, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    normal<T> s = normalOf(x + r * n, n);
    if (threadIdx.x > 0) continue;
    int64 k = integer(labels, type, r);
    y[r] = k >= 0 && k < n ? s.log - (x[r * n + k] - s.most) : none<T>();
  }
}

template <class T> DEVICE void lossGrad(const T *x, const void *labels, int32 type, const T *dy, T *dx, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    normal<T> s = normalOf(x + r * n, n);
    int64 k = integer(labels, type, r);
    bool known = k >= 0 && k < n;
    for (int64 i = threadIdx.x; i < n; i += blockDim.x)
      dx[r * n + i] = known ? dy[r] * (num::exp(x[r * n + i] - s.most - s.log) - T(i == k)) : none<T>();
  }
}

template <class T> DEVICE void denseLoss(const T *x, const T *target, T *y, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    normal<T> s = normalOf(x + r * n, n);
    double sum = 0;
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum -= (double)target[r * n + i] * (x[r * n + i] - s.most - s.log);
    sum = Block::sum(sum);
    if (threadIdx.x == 0) y[r] = (T)sum;
  }
}

template <class T> DEVICE void denseLossGrad(const T *x, const T *target, const T *dy, T *dx, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    normal<T> s = normalOf(x + r * n, n);
    double sum = 0;
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) sum += target[r * n + i];
    T all = (T)Block::sum(sum);
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = r * n + i;
      dx[at] = dy[r] * (num::exp(x[at] - s.most - s.log) * all - target[at]);
    }
  }
}

// first is the index of the largest element, the first one of equals. NaN is never larger than another, and nothing is larger than a NaN that
// comes first.
template <class T> DEVICE int64 first(const T *x, int64 n) {
  if (x[0] != x[0]) return 0;
  T m = x[0];
  for (int64 i = threadIdx.x; i < n; i += blockDim.x) m = x[i] > m ? x[i] : m;
  m = Block::max(m);
  int64 at = n;
  for (int64 i = threadIdx.x; i < n; i += blockDim.x)
    if (x[i] == m && i < at) at = i;
  return -Block::max(-at);
}

template <class T> DEVICE void correct(const T *x, const void *labels, int32 type, T *y, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    int64 at = first(x + r * n, n);
    if (threadIdx.x == 0) y[r] = at == integer(labels, type, r);
  }
}

template <class T> DEVICE void denseCorrect(const T *x, const T *target, T *y, int64 rows, int64 n) {
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    int64 at = first(x + r * n, n), want = first(target + r * n, n);
    if (threadIdx.x == 0) y[r] = at == want;
  }
}

#define ROWS(name, T)                                                                                                                                        \
  KERNEL loss_##name(const T *x, const void *labels, int32 type, T *y, int64 rows, int64 n) { loss(x, labels, type, y, rows, n); }                         \
  KERNEL lossGrad_##name(const T *x, const void *labels, int32 type, const T *dy, T *dx, int64 rows, int64 n) { lossGrad(x, labels, type, dy, dx, rows, n); } \
  KERNEL denseLoss_##name(const T *x, const T *target, T *y, int64 rows, int64 n) { denseLoss(x, target, y, rows, n); }                                     \
  KERNEL denseLossGrad_##name(const T *x, const T *target, const T *dy, T *dx, int64 rows, int64 n) { denseLossGrad(x, target, dy, dx, rows, n); }           \
  KERNEL correct_##name(const T *x, const void *labels, int32 type, T *y, int64 rows, int64 n) { correct(x, labels, type, y, rows, n); }                   \
  KERNEL denseCorrect_##name(const T *x, const T *target, T *y, int64 rows, int64 n) { denseCorrect(x, target, y, rows, n); }
ROWS(f32, float)
ROWS(f64, double)
