// Windows of images as rows, and back.  References: kernels/im2col.go.  x [B, C, H, W], y [B, OH, OW, C·KH·KW].
//   im2col  a thread has an element of y                                       reads and writes each element of y once
//   col2im  a thread has a pixel, and adds the windows that cover it in their order, in double: reads each element of dy at most once
#include "cuda.cuh"

struct Patches {
  int32 c, h, w, oh, ow, kh, kw, sh, sw, dh, dw, top, left; // image, windows, kernel, stride, dilation, padding
};
#define PATCHES                                                                                                                       \
  int64 n, int32 c, int32 h, int32 w, int32 oh, int32 ow, int32 kh, int32 kw, int32 sh, int32 sw, int32 dh, int32 dw, int32 top, int32 left
#define AS_PATCHES n, Patches{c, h, w, oh, ow, kh, kw, sh, sw, dh, dw, top, left}

template <class T> DEVICE void im2col(const T *x, T *y, int64 n, Patches p) {
  int32 size = p.c * p.kh * p.kw;
  for (int64 i = index(); i < n; i += stride()) {
    int64 window = i / size, row = window / p.ow;
    int32 tap = (int32)(i % size), ow = (int32)(window % p.ow), oh = (int32)(row % p.oh);
    int32 c = tap / (p.kh * p.kw), kh = tap / p.kw % p.kh, kw = tap % p.kw;
    int32 r = oh * p.sh - p.top + kh * p.dh, column = ow * p.sw - p.left + kw * p.dw;
    bool inside = r >= 0 && r < p.h && column >= 0 && column < p.w;
    y[i] = inside ? x[((row / p.oh * p.c + c) * p.h + r) * p.w + column] : T(0);
  }
}

template <class T> DEVICE void col2im(const T *dy, T *dx, int64 n, Patches p) {
  int32 taps = p.kh * p.kw;
  for (int64 i = index(); i < n; i += stride()) {
    int64 plane = i / ((int64)p.h * p.w);
    int32 rest = (int32)(i % ((int64)p.h * p.w)), r = rest / p.w + p.top, column = rest % p.w + p.left;
    int64 image = plane / p.c, channel = plane % p.c;
    double sum = 0;
    // Windows in their order: the last rows of kernels reach the first windows.
    for (int32 kh = p.kh - 1; kh >= 0; kh--) {
      int32 oh = r - kh * p.dh;
      if (oh < 0 || oh % p.sh != 0 || oh / p.sh >= p.oh) continue;
      for (int32 kw = p.kw - 1; kw >= 0; kw--) {
        int32 ow = column - kw * p.dw;
        if (ow < 0 || ow % p.sw != 0 || ow / p.sw >= p.ow) continue;
        sum += dy[((image * p.oh + oh / p.sh) * p.ow + ow / p.sw) * p.c * taps + channel * taps + kh * p.kw + kw];
      }
    }
    dx[i] = (T)sum;
  }
}
#define WINDOWS(name, T)                                                              \
  KERNEL im2col_##name(const T *x, T *y, PATCHES) { im2col(x, y, AS_PATCHES); }        \
  KERNEL col2im_##name(const T *dy, T *dx, PATCHES) { col2im(dy, dx, AS_PATCHES); }
WINDOWS(f32, float)
WINDOWS(f64, double)
