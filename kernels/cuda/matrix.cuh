// Operands and results of products as matrices in memory.
#pragma once

#include "number.cuh"
#include "product.cuh"

// A matrix of which rows are M or N of the product, columns k, or the other way.
template <class Numbers, bool AlongK, bool Always> struct matrix {
  static constexpr bool alongK = AlongK, always = Always;
  typedef typename numbersOf<Numbers>::type T;
  Numbers p;
  int64 lead; // elements from row to row in memory
  bool wide;
  typedef int64 Place;
  METHOD Place place(int row) const { return AlongK ? row * lead : row; }
  METHOD int64 at(Place row, int k) const { return row + (AlongK ? k : k * lead); }
  METHOD T load(Place row, int k) const { return p[at(row, k)]; }
  METHOD vec<T, 16 / sizeof(T)> loadWide(Place row, int k) const { return neighbours<16 / sizeof(T)>(p, at(row, k)); }
};

template <class T> struct result {
  T *p;
  const T *bias;  // null: none
  int64 biasLead; // elements from its row for one row of the result to that for the next: 0 for a vector
  int64 N;
  int act;
  double slope;
  METHOD void put(int row, int col, T v) const { p[row * N + col] = activate(act, slope, bias ? v + bias[row * biasLead + col] : v); }
};

// Products of a batch: see matmul.cu. Tiles computes a tile by product or productMma.
template <class Tiles, bool TransA, bool TransB, class T, class Numbers>
DEVICE void matmul(Numbers a, Numbers b, const T *bias, int64 biasLead, T *y, T *part, int M, int N, int K, int64 leadA, int64 leadB, int64 stepA, int64 stepB,
                   int batch, bool wideA, bool wideB, int splits, int perSplit, int act, double slope) {
  constexpr int tile = Tiles::tile;
  const order tiles = {(M + tile - 1) / tile, (N + tile - 1) / tile};
  int row, col;
  tiles.tile(blockIdx.x, &row, &col);
  for (int z = blockIdx.y; z < batch; z += gridDim.y) {
    const matrix<Numbers, !TransA, (tile > 64)> ma = {a + z * stepA, leadA, wideA};
    const matrix<Numbers, TransB, (tile > 64)> mb = {b + z * stepB, leadB, wideB};
    for (int s = blockIdx.z; s < splits; s += gridDim.z) {
      const int k0 = s * perSplit, k1 = mini(K, k0 + perSplit);
      const int64 size = (int64)M * N;
      const result<T> to = splits > 1 ? result<T>{part + ((int64)s * batch + z) * size, nullptr, 0, N, actNone, 0}
                                      : result<T>{y + z * size, bias + z * M * biasLead, biasLead, N, act, slope};
      Tiles::compute(ma, mb, to, M, N, row * tile, col * tile, k0, k1);
    }
  }
}

template <class T, int Tile, int BK, int Each> struct tiled {
  static constexpr int tile = Tile;
  template <class A, class B, class Target>
  static METHOD void compute(const A &a, const B &b, const Target &y, int M, int N, int row, int col, int k0, int k1) {
    product<T, Tile, Tile, BK, Each, Each>(a, b, y, M, N, row, col, k0, k1);
  }
};

// direct is for products so small that tiles would be nearly empty: a thread sums each result, in the order of the tiles. Strides are
// those of rows, columns and steps, in elements.
template <class T, class Numbers>
DEVICE void direct(Numbers a, Numbers b, const T *bias, int64 biasLead, T *y, int M, int N, int K, int64 rowA, int64 stepA, int64 stepB, int64 colB,
                   int64 nextA, int64 nextB, int batch, int act, double slope) {
  const int64 size = (int64)M * N;
  for (int64 i = index(); i < size * batch; i += stride()) {
    const int64 z = i / size, row = i % size / N, col = i % N;
    const Numbers pa = a + (z * nextA + row * rowA), pb = b + (z * nextB + col * colB);
    T sum = 0;
    for (int k = 0; k < K; k++) sum = num::fma(pa[k * stepA], pb[k * stepB], sum);
    y[i] = activate(act, slope, bias ? sum + bias[i / N * biasLead + col] : sum);
  }
}

// Parameters of the kernels, and the kernels of all four transposes.
#define SHAPE                                                                                                                                      \
  int M, int N, int K, int64 leadA, int64 leadB, int64 stepA, int64 stepB, int batch, int wideA, int wideB, int splits, int perSplit, int act,     \
      double slope
#define AS_SHAPE M, N, K, leadA, leadB, stepA, stepB, batch, wideA != 0, wideB != 0, splits, perSplit, act, slope

#define STRIDES                                                                                                                              \
  int M, int N, int K, int64 rowA, int64 stepA, int64 stepB, int64 colB, int64 nextA, int64 nextB, int batch, int act, double slope
#define AS_STRIDES M, N, K, rowA, stepA, stepB, colB, nextA, nextB, batch, act, slope

#define TRANSPOSES(kind, ...)              \
  kind(nn, false, false, __VA_ARGS__) \
  kind(nt, false, true, __VA_ARGS__)  \
  kind(tn, true, false, __VA_ARGS__)  \
  kind(tt, true, true, __VA_ARGS__)
