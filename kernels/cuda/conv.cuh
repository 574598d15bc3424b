// Convolutions and their gradients.  x [B, C, H, W], w [O, C/groups, KH, KW] (, bias [O]) (, mean, scale, shift [O]) → y [B, O, OH, OW], and back: w, dy → dx and x, dy → dw.
// y = act((Σ x[b, c, oh·stride - pad + kh·dilation, …]·w[o, c, kh, kw] + bias[o] - mean[o])·scale[o] + shift[o]); o sums over the channels of its group.
// Reference: kernels/conv.go.
//
// Each is a product of implicit matrices (product.cuh), one for each group. Its rows, columns and steps of the sum are:
//
//	          rows          columns            steps
//	forward   o of w        pixels of y        c, kh, kw
//	input     c of w        pixels of x        o, kh, kw
//	weight    o of dy       c, kh, kw of x     pixels of y, split over blocks where there are few tiles
//
// Where a group has few channels of the result (depthwise convolutions), and for double, a thread or a block computes a result by itself:
// conv_*_direct. Every result is summed in the same order whatever the device. Bytes moved: operands and result once, if the cache keeps the
// neighbours of a pixel; bound by arithmetic from about 16 channels on. Share of peak: not yet measured.
#pragma once

#include "number.cuh"
#include "product.cuh"

// A window holds the pixels of x for a pixel of y.
struct window {
  int B, C, H, W, O, OH, OW, KH, KW, strideH, strideW, padH, padW, dilationH, dilationW, groups;
  METHOD int cg() const { return C / groups; }
  METHOD int og() const { return O / groups; }
  METHOD int taps() const { return KH * KW; }
};

#define WINDOW                                                                                                                            \
  int B, int C, int H, int W, int O, int OH, int OW, int KH, int KW, int strideH, int strideW, int padH, int padW, int dilationH,          \
      int dilationW, int groups
#define AS_WINDOW window{B, C, H, W, O, OH, OW, KH, KW, strideH, strideW, padH, padW, dilationH, dilationW, groups}

// A pixel of a batch of images: its image and its place there.
struct pixel { int image, row, col; };
DEVICE pixel pixelOf(int i, int rows, int cols) {
  const int image = i / (rows * cols), at = i - image * (rows * cols), row = at / cols;
  return {image, row, at - row * cols};
}

// A tap is a channel of a group and a place in the kernel.
struct tap { int channel, row, col; };
DEVICE tap tapOf(int i, const window &w) {
  const int channel = i / w.taps(), at = i - channel * w.taps(), row = at / w.KW;
  return {channel, row, at - row * w.KW};
}

// The weights of a group: a row is an output channel, steps are contiguous.
template <class Numbers> struct weights {
  static constexpr bool alongK = true, always = false;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p;
  int64 lead;
  bool wide;
  typedef int64 Place;
  METHOD Place place(int row) const { return row * lead; }
  METHOD T load(Place row, int k) const { return p[row + k]; }
  METHOD vec<T, 16 / sizeof(T)> loadWide(Place row, int k) const { return neighbours<16 / sizeof(T)>(p, row + k); }
};

// narrow is the rest of a loader that never loads 16 bytes at once.
#define NARROW                                  \
  static constexpr bool always = false;         \
  static constexpr bool wide = false;           \
  METHOD vec<T, 16 / sizeof(T)> loadWide(Place, int) const { return {}; }

// The same weights by input channels: a row is a channel, a step an output channel and a place in the kernel.
template <class Numbers> struct turnedWeights {
  static constexpr bool alongK = true;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p;
  int taps, cg;
  typedef int Place;
  METHOD Place place(int row) const { return row * taps; }
  METHOD T load(Place row, int k) const {
    const int o = k / taps;
    return p[(int64)o * cg * taps + row + (k - o * taps)];
  }
  NARROW
};

// The pixels of x under those of y, for the forward pass: a row of the operand is a pixel of y, a step a tap.
template <class Numbers> struct under {
  static constexpr bool alongK = false;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p; // the group's first channel of the first image
  window w;
  struct Place { Numbers image; int row, col; };
  METHOD Place place(int i) const {
    const pixel y = pixelOf(i, w.OH, w.OW);
    return {p + (int64)y.image * w.C * w.H * w.W, y.row * w.strideH - w.padH, y.col * w.strideW - w.padW};
  }
  METHOD T load(Place y, int k) const {
    const tap t = tapOf(k, w);
    const int row = y.row + t.row * w.dilationH, col = y.col + t.col * w.dilationW;
    if (row < 0 || row >= w.H || col < 0 || col >= w.W) return 0;
    return y.image[((int64)t.channel * w.H + row) * w.W + col];
  }
  NARROW
};

// The pixels of y that a pixel of x takes part in: a row of the operand is a pixel of x, a step an output channel and a place in the kernel.
template <class Numbers> struct over {
  static constexpr bool alongK = false;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p; // the group's first channel of dy
  window w;
  struct Place { Numbers image; int row, col; };
  METHOD Place place(int i) const {
    const pixel x = pixelOf(i, w.H, w.W);
    return {p + (int64)x.image * w.O * w.OH * w.OW, x.row + w.padH, x.col + w.padW};
  }
  METHOD T load(Place x, int k) const {
    const tap t = tapOf(k, w);
    const int down = x.row - t.row * w.dilationH, right = x.col - t.col * w.dilationW;
    if (down < 0 || right < 0) return 0;
    const int row = down / w.strideH, col = right / w.strideW;
    if (row * w.strideH != down || col * w.strideW != right || row >= w.OH || col >= w.OW) return 0;
    return x.image[((int64)t.channel * w.OH + row) * w.OW + col];
  }
  NARROW
};

// dy by output channels: a row is a channel, a step a pixel.
template <class Numbers> struct planes {
  static constexpr bool alongK = true;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p;
  int O, plane;
  typedef int64 Place;
  METHOD Place place(int row) const { return (int64)row * plane; }
  METHOD T load(Place row, int k) const {
    const int image = k / plane;
    return p[(int64)image * O * plane + row + (k - image * plane)];
  }
  NARROW
};

// The pixels of x that a weight meets: a row of the operand is a tap, a step a pixel of y.
template <class Numbers> struct met {
  static constexpr bool alongK = true;
  typedef typename numbersOf<Numbers>::type T;
  under<Numbers> x;
  typedef int Place;
  METHOD Place place(int row) const { return row; }
  METHOD T load(Place tap, int k) const { return x.load(x.place(k), tap); }
  NARROW
};

// The epilogue of a convolution: what follows the sum of a channel. Null: none.
template <class T> struct epilogue {
  const T *bias, *mean, *scale, *shift;
  int act;
  double slope;
  // at is the epilogue of channels from o on.
  METHOD epilogue at(int o) const { return {bias ? bias + o : nullptr, mean ? mean + o : nullptr, scale + o, shift + o, act, slope}; }
  METHOD T apply(int o, T v) const {
    if (bias) v += bias[o];
    if (mean) { // in statements of their own, so that each is rounded
      v -= mean[o];
      v *= scale[o];
      v += shift[o];
    }
    return activate(act, slope, v);
  }
};

#define EPILOGUE(T) const T *bias, const T *mean, const T *scale, const T *shift
#define AS_EPILOGUE(T) epilogue<T>{bias, mean, scale, shift, act, slope}

// Results in images: a row is a channel, a column a pixel of any image.
template <class T> struct images {
  T *p;
  int channels, plane;
  epilogue<T> end; // of the group
  METHOD void put(int row, int col, T v) const {
    const int image = col / plane;
    p[((int64)image * channels + row) * plane + (col - image * plane)] = end.apply(row, v);
  }
};

// Results one row after the other.
template <class T> struct rows {
  T *p;
  int N;
  METHOD void put(int row, int col, T v) const { p[(int64)row * N + col] = v; }
};

template <class T, int Tile, int BK, int Each, class A, class B, class Target>
DEVICE void tile(const A &a, const B &b, const Target &y, int M, int N, int k0, int k1) {
  const order tiles = {(M + Tile - 1) / Tile, (N + Tile - 1) / Tile};
  int row, col;
  tiles.tile(blockIdx.x, &row, &col);
  product<T, Tile, Tile, BK, Each, Each>(a, b, y, M, N, row * Tile, col * Tile, k0, k1);
}

// Grid: tiles, groups.
template <class Numbers> DEVICE void forward(Numbers x, Numbers w, const epilogue<float> &end, float *y, bool wide, const window &v) {
  const int K = v.cg() * v.taps(), plane = v.OH * v.OW;
  for (int g = blockIdx.y; g < v.groups; g += gridDim.y) {
    const weights<Numbers> a = {w + (int64)g * v.og() * K, K, wide};
    const under<Numbers> b = {x + (int64)g * v.cg() * v.H * v.W, v};
    const images<float> to = {y + (int64)g * v.og() * plane, v.O, plane, end.at(g * v.og())};
    tile<float, 64, 16, 4>(a, b, to, v.og(), v.B * plane, 0, K);
  }
}

template <class Numbers> DEVICE void input(Numbers w, Numbers dy, float *dx, const window &v) {
  const int plane = v.H * v.W;
  for (int g = blockIdx.y; g < v.groups; g += gridDim.y) {
    const turnedWeights<Numbers> a = {w + (int64)g * v.og() * v.cg() * v.taps(), v.taps(), v.cg()};
    const over<Numbers> b = {dy + (int64)g * v.og() * v.OH * v.OW, v};
    const images<float> to = {dx + (int64)g * v.cg() * plane, v.C, plane, {nullptr, nullptr, nullptr, nullptr, actNone, 0}};
    tile<float, 64, 16, 4>(a, b, to, v.cg(), v.B * plane, 0, v.og() * v.taps());
  }
}

// Grid: tiles, groups, splits. With several splits the sums go to part [splits, O, C/groups·KH·KW], for matmul_end.
template <class Numbers> DEVICE void weight(Numbers x, Numbers dy, float *dw, float *part, int splits, int perSplit, const window &v) {
  const int N = v.cg() * v.taps(), K = v.B * v.OH * v.OW;
  for (int g = blockIdx.y; g < v.groups; g += gridDim.y)
    for (int s = blockIdx.z; s < splits; s += gridDim.z) {
      const planes<Numbers> a = {dy + (int64)g * v.og() * v.OH * v.OW, v.O, v.OH * v.OW};
      const met<Numbers> b = {{x + (int64)g * v.cg() * v.H * v.W, v}};
      float *to = splits > 1 ? part + (int64)s * v.O * N : dw;
      const int k0 = s * perSplit;
      tile<float, 64, 16, 4>(a, b, rows<float>{to + (int64)g * v.og() * N, N}, v.og(), N, k0, mini(K, k0 + perSplit));
    }
}

template <class T, class Numbers> DEVICE void forwardDirect(Numbers x, Numbers w, const epilogue<T> &end, T *y, const window &v) {
  const int64 plane = (int64)v.OH * v.OW, size = v.B * v.O * plane;
  for (int64 i = index(); i < size; i += stride()) {
    const int col = i % v.OW, row = i / v.OW % v.OH, o = i / plane % v.O;
    const int64 b = i / plane / v.O;
    const int g = o / v.og(), top = row * v.strideH - v.padH, left = col * v.strideW - v.padW;
    const Numbers from = x + (b * v.C + (int64)g * v.cg()) * v.H * v.W, by = w + (int64)o * v.cg() * v.taps();
    T sum = 0;
    for (int c = 0; c < v.cg(); c++)
      for (int kh = 0; kh < v.KH; kh++) {
        const int h = top + kh * v.dilationH;
        if (h < 0 || h >= v.H) continue;
        for (int kw = 0; kw < v.KW; kw++) {
          const int at = left + kw * v.dilationW;
          if (at >= 0 && at < v.W) sum = num::fma(from[((int64)c * v.H + h) * v.W + at], by[(c * v.KH + kh) * v.KW + kw], sum);
        }
      }
    y[i] = end.apply(o, sum);
  }
}

template <class T, class Numbers> DEVICE void inputDirect(Numbers w, Numbers dy, T *dx, const window &v) {
  const int64 plane = (int64)v.H * v.W, size = v.B * v.C * plane;
  for (int64 i = index(); i < size; i += stride()) {
    const int col = i % v.W, row = i / v.W % v.H, c = i / plane % v.C;
    const int64 b = i / plane / v.C;
    const int g = c / v.cg(), first = g * v.og();
    T sum = 0;
    for (int o = first; o < first + v.og(); o++) {
      const Numbers from = dy + (b * v.O + o) * v.OH * v.OW, by = w + ((int64)o * v.cg() + (c - g * v.cg())) * v.taps();
      for (int kh = 0; kh < v.KH; kh++) {
        const int down = row + v.padH - kh * v.dilationH, oh = down / v.strideH;
        if (down < 0 || oh * v.strideH != down || oh >= v.OH) continue;
        for (int kw = 0; kw < v.KW; kw++) {
          const int right = col + v.padW - kw * v.dilationW, ow = right / v.strideW;
          if (right >= 0 && ow * v.strideW == right && ow < v.OW) sum = num::fma(from[(int64)oh * v.OW + ow], by[kh * v.KW + kw], sum);
        }
      }
    }
    dx[i] = sum;
  }
}

// A block sums one weight: each thread every blockDim-th pixel, then the threads' sums in a fixed order.
template <class T, class Numbers> DEVICE void weightDirect(Numbers x, Numbers dy, T *dw, const window &v) {
  __shared__ T part[32];
  const int taps = v.cg() * v.taps(), pixels = v.B * v.OH * v.OW;
  for (int64 i = blockIdx.x; i < (int64)v.O * taps; i += gridDim.x) {
    const int o = i / taps, g = o / v.og(), at = i % taps;
    const under<Numbers> from = {x + (int64)g * v.cg() * v.H * v.W, v};
    const planes<Numbers> by = {dy, v.O, v.OH * v.OW};
    T sum = 0;
    for (int p = threadIdx.x; p < pixels; p += blockDim.x) sum = num::fma(from.load(from.place(p), at), by.load(by.place(o), p), sum);
    sum = blockSum(sum, part);
    if (threadIdx.x == 0) dw[i] = sum;
  }
}

#define TILED extern "C" __global__ void __launch_bounds__(productThreads, 2)
