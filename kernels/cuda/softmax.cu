// Softmax, its logarithm, and their gradients, along an axis: lines of n elements, which are step apart.  References: kernels/softmax.go.
// A line has a block where its elements are neighbours, else a thread. Sums are in double, their order depends on n alone.
// Reads x twice or three times, of which all but the first come from the cache for lines that fit it, and writes y. y may be x or dy.
#include "team.cuh"

enum Kind { softmax, logSoftmax, softmaxGrad, logSoftmaxGrad };

template <class Team, class T> DEVICE void forward(Kind kind, const T *x, T *y, int64 n, int64 step) {
  T m = -INFINITE;
  for (int64 i = Team::rank(); i < n; i += Team::size()) m = larger(x[i * step], m);
  m = Team::max(m);
  double sum = 0;
  for (int64 i = Team::rank(); i < n; i += Team::size()) sum += num::exp(x[i * step] - m);
  sum = Team::sum(sum);
  T log = kind == logSoftmax ? (T)num::log(sum) : T(0);
  for (int64 i = Team::rank(); i < n; i += Team::size()) {
    T v = x[i * step] - m;
    y[i * step] = kind == logSoftmax ? v - log : (T)(num::exp(v) / sum);
  }
}

template <class Team, class T> DEVICE void backward(Kind kind, const T *y, const T *dy, T *dx, int64 n, int64 step) {
  double sum = 0;
  for (int64 i = Team::rank(); i < n; i += Team::size()) {
    double d = dy[i * step];
    sum += kind == softmaxGrad ? d * y[i * step] : d;
  }
  T s = (T)Team::sum(sum);
  for (int64 i = Team::rank(); i < n; i += Team::size()) {
    T d = dy[i * step], v = y[i * step];
    dx[i * step] = kind == softmaxGrad ? v * (d - s) : d - num::exp(v) * s;
  }
}

template <Kind kind, class Team, class T> DEVICE void lines(const T *a, const T *b, T *out, int64 n, int64 step, int64 count) {
  int64 l = Team::block ? blockIdx.x : index(), by = Team::block ? gridDim.x : stride();
  for (; l < count; l += by) {
    int64 at = l / step * step * n + l % step;
    if (kind == softmax || kind == logSoftmax) forward<Team>(kind, a + at, out + at, n, step);
    else backward<Team>(kind, a + at, b + at, out + at, n, step);
  }
}

#define LINES(kind, name, T)                                                                                                      \
  KERNEL kind##_row_##name(const T *a, const T *b, T *out, int64 n, int64 step, int64 count) { lines<kind, Block>(a, b, out, n, step, count); } \
  KERNEL kind##_line_##name(const T *a, const T *b, T *out, int64 n, int64 step, int64 count) { lines<kind, Solo>(a, b, out, n, step, count); }
#define KINDS(name, T) LINES(softmax, name, T) LINES(logSoftmax, name, T) LINES(softmaxGrad, name, T) LINES(logSoftmaxGrad, name, T)
KINDS(f32, float)
KINDS(f64, double)
