// Normalization over channels of a batch, and over groups of channels of an image, with gradients.  x [B, C, plane].
// References: kernels/batchnorm.go, groupnorm.go and layernorm.go (rows of N are images of N channels of one pixel, in one group).
// A channel, or a group, has a block, which reads x three times and writes y once. Sums are in double, in an order that depends on shapes alone.
// y may be x; dx may be x or dy, so sums of channels are taken before any of dx is written.
#include "team.cuh"

// TALL begins a kernel of blocks of up to 1024 threads: a channel of a batch of images has many elements, and channels are few.
#define TALL KERNEL __launch_bounds__(1024)

// A Walk iterates over the elements of a channel: element i is at at(i).
struct Walk {
  int64 first, apart; // of a plane: the first element, and the distance of planes
  uint32 plane;
  DEVICE int64 at(Walk w, uint32 i) { return w.first + (int64)(i / w.plane) * w.apart + i % w.plane; }
};

// Moments are mean and variance, in two passes.
struct moments { double mean, variance; };
template <class T> DEVICE moments momentsOf(const T *x, uint32 n, Walk w) {
  double sum = 0, squares = 0;
  for (uint32 i = threadIdx.x; i < n; i += blockDim.x) sum += x[Walk::at(w, i)];
  double mean = Block::sum(sum) / n;
  for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
    double d = x[Walk::at(w, i)] - mean;
    squares += d * d;
  }
  return {mean, Block::sum(squares) / n};
}

// line holds the factor and the summand that BatchNorm applies to elements.
template <class T> struct line { T scale, shift; };
template <class T> DEVICE line<T> lineOf(T gamma, T beta, T mean, T variance, double eps) {
  double scale = gamma / num::sqrt(variance + eps);
  return {(T)scale, (T)(beta - mean * scale)};
}

template <class T>
DEVICE void batchNorm(const T *x, const T *gamma, const T *beta, T *y, T *means, T *variances, int32 channels, uint32 n, uint32 plane, double eps, int32 relu) {
  for (int32 c = blockIdx.x; c < channels; c += gridDim.x) {
    Walk w = {(int64)c * plane, (int64)channels * plane, plane};
    moments m = momentsOf(x, n, w);
    T mean = (T)m.mean, variance = (T)m.variance;
    if (threadIdx.x == 0) means[c] = mean, variances[c] = variance;
    line<T> l = lineOf(gamma[c], beta[c], mean, variance, eps);
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      T v = num::fma(l.scale, x[Walk::at(w, i)], l.shift);
      y[Walk::at(w, i)] = relu && v < 0 ? T(0) : v;
    }
  }
}

template <class T>
DEVICE void batchNormGrad(const T *x, const T *gamma, const T *beta, const T *means, const T *variances, const T *dy, T *dx, T *dgamma, T *dbeta,
                          int32 channels, uint32 n, uint32 plane, double eps, int32 relu) {
  for (int32 c = blockIdx.x; c < channels; c += gridDim.x) {
    Walk w = {(int64)c * plane, (int64)channels * plane, plane};
    line<T> l = lineOf(gamma[c], beta[c], means[c], variances[c], eps);
    double mean = means[c], rstd = 1 / num::sqrt(variances[c] + eps), sum = 0, dot = 0;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = Walk::at(w, i);
      T v = x[at];
      if (relu && !(num::fma(l.scale, v, l.shift) > 0)) continue;
      sum += dy[at];
      dot += dy[at] * ((v - mean) * rstd);
    }
    sum = Block::sum(sum), dot = Block::sum(dot);
    if (threadIdx.x == 0) dgamma[c] = (T)dot, dbeta[c] = (T)sum;
    double scale = gamma[c] * rstd, a = sum / n, b = dot / n;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = Walk::at(w, i);
      T v = x[at], d = relu && !(num::fma(l.scale, v, l.shift) > 0) ? T(0) : dy[at];
      dx[at] = (T)(scale * (d - a - (v - mean) * rstd * b));
    }
  }
}

// Groups: group g of all images has n neighbours, size of which are a channel's plane.
template <class T>
DEVICE void groupNorm(const T *x, const T *gamma, const T *beta, T *y, T *means, T *rstds, int64 groups, int32 groupsOfImage, uint32 n, uint32 plane, double eps) {
  for (int64 g = blockIdx.x; g < groups; g += gridDim.x) {
    Walk w = {g * n, 0, n};
    moments m = momentsOf(x, n, w);
    double rstd = 1 / num::sqrt(m.variance + eps);
    if (threadIdx.x == 0) means[g] = (T)m.mean, rstds[g] = (T)rstd;
    int64 first = g % groupsOfImage * (n / plane);
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 c = first + i / plane;
      y[g * n + i] = (T)((x[g * n + i] - m.mean) * rstd * gamma[c] + beta[c]);
    }
  }
}

template <class T>
DEVICE void groupNormGrad(const T *x, const T *gamma, const T *means, const T *rstds, const T *dy, T *dx, int64 groups, int32 groupsOfImage, uint32 n, uint32 plane) {
  for (int64 g = blockIdx.x; g < groups; g += gridDim.x) {
    double mean = means[g], rstd = rstds[g], sum = 0, dot = 0;
    int64 first = g % groupsOfImage * (n / plane);
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      double d = (double)dy[g * n + i] * gamma[first + i / plane];
      sum += d;
      dot += d * ((x[g * n + i] - mean) * rstd);
    }
    sum = Block::sum(sum) / n, dot = Block::sum(dot) / n;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      double d = (double)dy[g * n + i] * gamma[first + i / plane];
      dx[g * n + i] = (T)(rstd * (d - sum - (x[g * n + i] - mean) * rstd * dot));
    }
  }
}

// dgamma and dbeta of groups, a channel a block.
template <class T>
DEVICE void channelGrad(const T *x, const T *means, const T *rstds, const T *dy, T *dgamma, T *dbeta, int32 channels, int32 groupsOfImage, uint32 n, uint32 plane) {
  for (int32 c = blockIdx.x; c < channels; c += gridDim.x) {
    Walk w = {(int64)c * plane, (int64)channels * plane, plane};
    int32 group = c / (channels / groupsOfImage);
    double sum = 0, dot = 0;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = Walk::at(w, i), g = (int64)(i / plane) * groupsOfImage + group;
      sum += dy[at];
      dot += dy[at] * (((double)x[at] - means[g]) * rstds[g]);
    }
    sum = Block::sum(sum), dot = Block::sum(dot);
    if (threadIdx.x == 0) dgamma[c] = (T)dot, dbeta[c] = (T)sum;
  }
}

// dgamma and dbeta where planes are one pixel: 32 neighbouring channels a block of 32 × 8 threads, so that rows are read together.
template <class T>
DEVICE void columnGrad(const T *x, const T *means, const T *rstds, const T *dy, T *dgamma, T *dbeta, int32 channels, int32 groupsOfImage, int64 rows) {
  __shared__ double part[2][8][32];
  int32 lane = threadIdx.x % 32, worker = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
  double sum = 0, dot = 0;
  if (c < channels)
    for (int64 r = worker; r < rows; r += 8) {
      int64 at = r * channels + c, g = r * groupsOfImage + c / (channels / groupsOfImage);
      sum += dy[at];
      dot += dy[at] * (((double)x[at] - means[g]) * rstds[g]);
    }
  part[0][worker][lane] = sum, part[1][worker][lane] = dot;
  __syncthreads();
  if (worker > 0 || c >= channels) return;
  for (int32 k = 1; k < 8; k++) sum += part[0][k][lane], dot += part[1][k][lane];
  dgamma[c] = (T)dot, dbeta[c] = (T)sum;
}

#define NORMS(name, T)                                                                                                                                   \
  TALL batchNorm_##name(const T *x, const T *gamma, const T *beta, T *y, T *means, T *variances, int32 channels, uint32 n, uint32 plane, double eps,    \
                          int32 relu) {                                                                                                                 \
    batchNorm(x, gamma, beta, y, means, variances, channels, n, plane, eps, relu);                                                                      \
  }                                                                                                                                                      \
  TALL batchNormGrad_##name(const T *x, const T *gamma, const T *beta, const T *means, const T *variances, const T *dy, T *dx, T *dgamma, T *dbeta,    \
                              int32 channels, uint32 n, uint32 plane, double eps, int32 relu) {                                                         \
    batchNormGrad(x, gamma, beta, means, variances, dy, dx, dgamma, dbeta, channels, n, plane, eps, relu);                                              \
  }                                                                                                                                                      \
  KERNEL groupNorm_##name(const T *x, const T *gamma, const T *beta, T *y, T *means, T *rstds, int64 groups, int32 groupsOfImage, uint32 n, uint32 plane, \
                          double eps) {                                                                                                                 \
    groupNorm(x, gamma, beta, y, means, rstds, groups, groupsOfImage, n, plane, eps);                                                                   \
  }                                                                                                                                                      \
  KERNEL groupNormGrad_##name(const T *x, const T *gamma, const T *means, const T *rstds, const T *dy, T *dx, int64 groups, int32 groupsOfImage,         \
                              uint32 n, uint32 plane) {                                                                                                 \
    groupNormGrad(x, gamma, means, rstds, dy, dx, groups, groupsOfImage, n, plane);                                                                     \
  }                                                                                                                                                      \
  TALL channelGrad_##name(const T *x, const T *means, const T *rstds, const T *dy, T *dgamma, T *dbeta, int32 channels, int32 groupsOfImage, uint32 n, \
                            uint32 plane) {                                                                                                             \
    channelGrad(x, means, rstds, dy, dgamma, dbeta, channels, groupsOfImage, n, plane);                                                                 \
  }                                                                                                                                                      \
  KERNEL columnGrad_##name(const T *x, const T *means, const T *rstds, const T *dy, T *dgamma, T *dbeta, int32 channels, int32 groupsOfImage,            \
                           int64 rows) {                                                                                                                \
    columnGrad(x, means, rstds, dy, dgamma, dbeta, channels, groupsOfImage, rows);                                                                      \
  }
NORMS(f32, float)
NORMS(f64, double)
