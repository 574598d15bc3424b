// Normalization over channels of a batch, and over groups of channels of an image, with gradients.  x [B, C, plane].
// References: kernels/batchnorm.go, groupnorm.go and layernorm.go (rows of N are images of N channels of one pixel, in one group).
// A channel, or a group, has a block, which reads x three times and writes y once. Sums are in double, in an order that depends on shapes alone.
// Doubles whose squares overflow are normalized in a unit of their own, as in kernels/internal/numeric/moments.go; it is 1 for float.
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

// Moments are mean and variance of x·unit, in two passes: about the first element, then about the mean. So they are exact for equal elements.
struct moments {
  double mean, variance, unit;
  // rstd of x, and of x·unit
  METHOD double rstd(double eps) { return unit == 1 ? 1 / num::sqrt(variance + eps) : 1 / hypot(num::sqrt(variance) / unit, num::sqrt(eps)); }
  METHOD double rstdInUnit(double eps) { return unit == 1 ? rstd(eps) : 1 / hypot(num::sqrt(variance), num::sqrt(eps) * unit); }
  // hypot returns √(a² + b²), where a² and b² may overflow.
  METHOD static double hypot(double a, double b) {
    double most = a > b ? a : b, least = a > b ? b : a, r = least / most;
    return most * num::sqrt(1 + r * r);
  }
};
template <class T> DEVICE moments momentsIn(double unit, const T *x, uint32 n, Walk w) {
  double first = x[Walk::at(w, 0)] * unit, sum = 0, squares = 0;
  for (uint32 i = threadIdx.x; i < n; i += blockDim.x) sum += x[Walk::at(w, i)] * unit - first;
  double mean = first + Block::sum(sum) / n;
  for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
    double d = x[Walk::at(w, i)] * unit - mean;
    squares += d * d;
  }
  return {mean, Block::sum(squares) / n, unit};
}
// Differences in a unit of 2^-600 are below 2^425, and squares of those that count are normal numbers.
template <class T> DEVICE moments momentsOf(const T *x, uint32 n, Walk w) {
  moments m = momentsIn(1, x, n, w);
  if (sizeof(T) == 8 && !num::finite(m.variance)) m = momentsIn(num::power2<double>(-600), x, n, w);
  return m;
}

// A standard computes (x - mean)·rstd, all in a unit, which is 1 for float. It is 0 where x is the mean.
template <class T> struct standard {
  double mean, rstd, unit;
  METHOD double of(T x) {
    if constexpr (sizeof(T) == 4) return (x - mean) * rstd;
    double d = x * unit - mean;
    return d == 0 ? 0 : d * rstd;
  }
};
// standardOf returns it for statistics without a unit. A small unit keeps x - mean from overflowing.
template <class T> DEVICE standard<T> standardOf(T mean, T rstd) {
  if (sizeof(T) == 8 && rstd > 0 && rstd < num::power2<double>(-500))
    return {mean * num::power2<double>(-600), rstd * num::power2<double>(600), num::power2<double>(-600)};
  return {mean, rstd, 1};
}

// stored returns the variance of a channel of n elements to store: infinite if the sum of squares is too large.
template <class T> DEVICE T stored(double variance, uint32 n) { return num::finite((T)(variance * n)) ? (T)variance : (T)INFINITE; }

// scaleOf returns the factor that BatchNorm applies to centred elements.
template <class T> DEVICE T scaleOf(T gamma, T variance, double eps) { return (T)(gamma / num::sqrt(variance + eps)); }

template <class T>
DEVICE void batchNorm(const T *x, const T *gamma, const T *beta, T *y, T *means, T *variances, int32 channels, uint32 n, uint32 plane, double eps, int32 relu) {
  for (int32 c = blockIdx.x; c < channels; c += gridDim.x) {
    Walk w = {(int64)c * plane, (int64)channels * plane, plane};
    moments m = momentsOf(x, n, w);
    T mean = (T)(m.mean / m.unit), variance = stored<T>(m.variance / m.unit / m.unit, n);
    if (threadIdx.x == 0) means[c] = mean, variances[c] = variance;
    T scale = scaleOf(gamma[c], variance, eps), shift = beta[c];
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      T v = num::fma(scale, x[Walk::at(w, i)] - mean, shift);
      y[Walk::at(w, i)] = relu && v < 0 ? T(0) : v;
    }
  }
}

template <class T>
DEVICE void batchNormGrad(const T *x, const T *gamma, const T *beta, const T *means, const T *variances, const T *dy, T *dx, T *dgamma, T *dbeta,
                          int32 channels, uint32 n, uint32 plane, double eps, int32 relu) {
  for (int32 c = blockIdx.x; c < channels; c += gridDim.x) {
    Walk w = {(int64)c * plane, (int64)channels * plane, plane};
    T line = scaleOf(gamma[c], variances[c], eps), shift = beta[c], middle = means[c];
    double mean = means[c], rstd = 1 / num::sqrt(variances[c] + eps), sum = 0, dot = 0;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = Walk::at(w, i);
      T v = x[at];
      if (relu && !(num::fma(line, v - middle, shift) > 0)) continue;
      sum += dy[at];
      dot += dy[at] * ((v - mean) * rstd);
    }
    sum = Block::sum(sum), dot = Block::sum(dot);
    if (threadIdx.x == 0) dgamma[c] = (T)dot, dbeta[c] = (T)sum;
    double scale = gamma[c] * rstd, a = sum / n, b = dot / n;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 at = Walk::at(w, i);
      T v = x[at], d = relu && !(num::fma(line, v - middle, shift) > 0) ? T(0) : dy[at];
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
    standard<T> hat = {m.mean, m.rstdInUnit(eps), m.unit};
    if (threadIdx.x == 0) means[g] = (T)(m.mean / m.unit), rstds[g] = (T)m.rstd(eps);
    int64 first = g % groupsOfImage * (n / plane);
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      int64 c = first + i / plane;
      y[g * n + i] = (T)(hat.of(x[g * n + i]) * gamma[c] + beta[c]);
    }
  }
}

template <class T>
DEVICE void groupNormGrad(const T *x, const T *gamma, const T *means, const T *rstds, const T *dy, T *dx, int64 groups, int32 groupsOfImage, uint32 n, uint32 plane) {
  for (int64 g = blockIdx.x; g < groups; g += gridDim.x) {
    double rstd = rstds[g], sum = 0, dot = 0;
    standard<T> hat = standardOf(means[g], rstds[g]);
    int64 first = g % groupsOfImage * (n / plane);
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      double d = (double)dy[g * n + i] * gamma[first + i / plane];
      sum += d;
      dot += d * hat.of(x[g * n + i]);
    }
    sum = Block::sum(sum) / n, dot = Block::sum(dot) / n;
    for (uint32 i = threadIdx.x; i < n; i += blockDim.x) {
      double d = (double)dy[g * n + i] * gamma[first + i / plane];
      dx[g * n + i] = (T)(rstd * (d - sum - hat.of(x[g * n + i]) * dot));
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
      dot += dy[at] * standardOf(means[g], rstds[g]).of(x[at]);
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
      dot += dy[at] * standardOf(means[g], rstds[g]).of(x[at]);
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
