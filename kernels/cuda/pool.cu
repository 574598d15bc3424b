// Pooling of images and its gradients.  References: kernels/pool.go. planes = B·C; a thread has a result, whose window, or windows, it walks over in
// row-major order, so that sums have a fixed order; they are in double. Reads each pixel once per window, mostly from the cache.
#include "cuda.cuh"

struct Pool {
  int32 h, w, oh, ow;                        // image and result
  int32 kh, kw, sh, sw, top, left, counted; // window, stride, padding; whether padding counts in means
  // first is the first window that covers row or column i, last the one after the last.
  DEVICE int32 first(int32 i, int32 pad, int32 k, int32 s) { int32 from = i + pad - k + 1; return from <= 0 ? 0 : (from + s - 1) / s; }
  DEVICE int32 end(int32 i, int32 pad, int32 s, int32 out) { return mini((i + pad) / s + 1, out); }
};

struct Window {
  int32 row, column, r0, r1, c0, c1; // corner, and the pixels of the image
};

DEVICE Window windowAt(Pool p, int32 oh, int32 ow) {
  int32 row = oh * p.sh - p.top, column = ow * p.sw - p.left;
  return {row, column, maxi(row, 0), mini(row + p.kh, p.h), maxi(column, 0), mini(column + p.kw, p.w)};
}

DEVICE int32 shareOf(Pool p, Window v) { return p.counted ? p.kh * p.kw : maxi(v.r1 - v.r0, 0) * maxi(v.c1 - v.c0, 0); }

template <class T, class I> DEVICE void maxPool(const T *x, T *y, I *at, int64 n, Pool p) {
  for (int64 i = index(); i < n; i += stride()) {
    int64 plane = i / ((int64)p.oh * p.ow);
    int32 rest = (int32)(i % ((int64)p.oh * p.ow));
    Window v = windowAt(p, rest / p.ow, rest % p.ow);
    const T *from = x + plane * p.h * p.w;
    T best = 0;
    int32 k = -1;
    for (int32 r = v.r0; r < v.r1; r++)
      for (int32 c = v.c0; c < v.c1; c++) {
        T value = from[(int64)r * p.w + c];
        if (k < 0 || value > best || (value != value && best == best)) best = value, k = (r - v.row) * p.kw + c - v.column;
      }
    y[i] = best, at[i] = (I)k;
  }
}

template <class T, class I> DEVICE void maxPoolGrad(const I *at, const T *dy, T *dx, int64 n, Pool p) {
  for (int64 i = index(); i < n; i += stride()) {
    int64 plane = i / ((int64)p.h * p.w);
    int32 rest = (int32)(i % ((int64)p.h * p.w)), r = rest / p.w, c = rest % p.w;
    double sum = 0;
    for (int32 oh = p.first(r, p.top, p.kh, p.sh); oh < p.end(r, p.top, p.sh, p.oh); oh++)
      for (int32 ow = p.first(c, p.left, p.kw, p.sw); ow < p.end(c, p.left, p.sw, p.ow); ow++) {
        int64 o = (plane * p.oh + oh) * p.ow + ow;
        if ((int32)at[o] == (r - (oh * p.sh - p.top)) * p.kw + c - (ow * p.sw - p.left)) sum += dy[o];
      }
    dx[i] = (T)sum;
  }
}

template <class T> DEVICE void avgPool(const T *x, T *y, int64 n, Pool p) {
  for (int64 i = index(); i < n; i += stride()) {
    int64 plane = i / ((int64)p.oh * p.ow);
    int32 rest = (int32)(i % ((int64)p.oh * p.ow));
    Window v = windowAt(p, rest / p.ow, rest % p.ow);
    const T *from = x + plane * p.h * p.w;
    double sum = 0;
    for (int32 r = v.r0; r < v.r1; r++)
      for (int32 c = v.c0; c < v.c1; c++) sum += from[(int64)r * p.w + c];
    y[i] = (T)(sum / shareOf(p, v));
  }
}

template <class T> DEVICE void avgPoolGrad(const T *dy, T *dx, int64 n, Pool p) {
  for (int64 i = index(); i < n; i += stride()) {
    int64 plane = i / ((int64)p.h * p.w);
    int32 rest = (int32)(i % ((int64)p.h * p.w)), r = rest / p.w, c = rest % p.w;
    double sum = 0;
    for (int32 oh = p.first(r, p.top, p.kh, p.sh); oh < p.end(r, p.top, p.sh, p.oh); oh++)
      for (int32 ow = p.first(c, p.left, p.kw, p.sw); ow < p.end(c, p.left, p.sw, p.ow); ow++)
        sum += (double)dy[(plane * p.oh + oh) * p.ow + ow] / shareOf(p, windowAt(p, oh, ow));
    dx[i] = (T)sum;
  }
}

#define SIZES int32 h, int32 w, int32 oh, int32 ow, int32 kh, int32 kw, int32 sh, int32 sw, int32 top, int32 left, int32 counted
#define POOL Pool{h, w, oh, ow, kh, kw, sh, sw, top, left, counted}
#define INDEXED(name, T, type, I)                                                                                         \
  KERNEL maxPool_##type##_##name(const T *x, T *y, I *at, int64 n, SIZES) { maxPool(x, y, at, n, POOL); }                \
  KERNEL maxPoolGrad_##type##_##name(const I *at, const T *dy, T *dx, int64 n, SIZES) { maxPoolGrad(at, dy, dx, n, POOL); }
#define POOLS(name, T)                                                                        \
  INDEXED(name, T, 8, uint8) INDEXED(name, T, 32, int32)                                      \
  KERNEL avgPool_##name(const T *x, T *y, int64 n, SIZES) { avgPool(x, y, n, POOL); }         \
  KERNEL avgPoolGrad_##name(const T *dy, T *dx, int64 n, SIZES) { avgPoolGrad(dy, dx, n, POOL); }
POOLS(f32, float)
POOLS(f64, double)
