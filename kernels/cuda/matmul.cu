// Products of matrices.  a [batch, M, K], b [batch, K, N] (, bias [N], or a sum like y) → y [batch, M, N].  y = act(a·b + bias).
// A sum may be y itself. It is a bias of which the rows are biasLead elements apart, which are 0 for a vector.
// Either operand may be transposed: a is [batch, K, M], b is [batch, N, K]. Only some rows may be asked for: a then starts at the first of them,
// and its leading dimension tells how long its rows are. Reference: refMatMul in kernels/matmul.go.
//
// Bytes moved: M·K·⌈N/tile⌉ + K·N·⌈M/tile⌉ + M·N elements; bound by arithmetic from about 128 rows and columns on. Share of peak: not yet measured.
//
// Tiles of 128 need operands of which 16 bytes can be loaded at once everywhere; tiles of 64 take any.
//
// Where there are few tiles and many steps of k, these are split over blocks: partial sums go to a workspace [splits, batch, M, N], and matmul_end
// adds them in their order.
#include "matrix.cuh"

namespace {

template <class T, int Tile, int BK, int Each, bool TransA, bool TransB>
DEVICE void matmul(const T *a, const T *b, const T *bias, int64 biasLead, T *y, T *part, int M, int N, int K, int64 leadA, int64 leadB, int64 stepA, int64 stepB,
                   int batch, int wideA, int wideB, int splits, int perSplit, int act, double slope) {
  const order tiles = {(M + Tile - 1) / Tile, (N + Tile - 1) / Tile};
  int row, col;
  tiles.tile(blockIdx.x, &row, &col);
  for (int z = blockIdx.y; z < batch; z += gridDim.y) {
    const matrix<T, !TransA, (Tile > 64)> ma = {a + z * stepA, leadA, wideA != 0};
    const matrix<T, TransB, (Tile > 64)> mb = {b + z * stepB, leadB, wideB != 0};
    for (int s = blockIdx.z; s < splits; s += gridDim.z) {
      const int k0 = s * perSplit, k1 = mini(K, k0 + perSplit);
      const int64 size = (int64)M * N;
      const result<T> to = splits > 1 ? result<T>{part + ((int64)s * batch + z) * size, nullptr, 0, N, actNone, 0}
                                      : result<T>{y + z * size, bias + z * M * biasLead, biasLead, N, act, slope};
      product<T, Tile, Tile, BK, Each, Each>(ma, mb, to, M, N, row * Tile, col * Tile, k0, k1);
    }
  }
}

} // namespace

#define MATMUL(type, T, name, transA, transB, tile, steps, each)                                                                             \
  extern "C" __global__ void __launch_bounds__(productThreads, 2) matmul_##type##_##name##_##tile(                                           \
      const T *a, const T *b, const T *bias, int64 biasLead, T *y, T *part, int M, int N, int K, int64 leadA, int64 leadB, int64 stepA,       \
      int64 stepB,                                                                                                                           \
      int batch, int wideA, int wideB, int splits, int perSplit, int act, double slope) {                                                    \
    matmul<T, tile, steps, each, transA, transB>(a, b, bias, biasLead, y, part, M, N, K, leadA, leadB, stepA, stepB, batch, wideA, wideB, splits,       \
                                                 perSplit, act, slope);                                                                      \
  }

#define MATMULS(type, T, tile, steps, each)            \
  MATMUL(type, T, nn, false, false, tile, steps, each) \
  MATMUL(type, T, nt, false, true, tile, steps, each)  \
  MATMUL(type, T, tn, true, false, tile, steps, each)  \
  MATMUL(type, T, tt, true, true, tile, steps, each)

MATMULS(f32, float, 128, 8, 8)
MATMULS(f32, float, 64, 16, 4)
MATMULS(f64, double, 64, 8, 4)

// matmul_end adds the partial sums of a product: y [rows, N] = act(Σ part [splits, rows, N] + bias [N], or [rows, N]).
#define END(type, T)                                                                                                                \
  KERNEL matmul_end_##type(const T *part, const T *bias, int64 biasLead, T *y, int64 rows, int64 N, int splits, int act, double slope) {            \
    const int64 size = rows * N;                                                                                                    \
    for (int64 i = index(); i < size; i += stride()) {                                                                              \
      T sum = part[i];                                                                                                              \
      for (int s = 1; s < splits; s++) sum += part[s * size + i];                                                                   \
      y[i] = activate(act, slope, bias ? sum + bias[i / N * biasLead + i % N] : sum);                                                                  \
    }                                                                                                                               \
  }

END(f32, float)
END(f64, double)

// matmul_direct is for products so small that tiles would be nearly empty: a thread sums each result, in the order of the tiles. Strides are
// those of rows, columns and steps, in elements.
#define SMALL(type, T)                                                                                                                    \
  KERNEL matmul_direct_##type(const T *a, const T *b, const T *bias, int64 biasLead, T *y, int M, int N, int K, int64 rowA, int64 stepA, int64 stepB,      \
                              int64 colB, int64 nextA, int64 nextB, int batch, int act, double slope) {                                   \
    const int64 size = (int64)M * N;                                                                                                      \
    for (int64 i = index(); i < size * batch; i += stride()) {                                                                            \
      const int64 z = i / size, row = i % size / N, col = i % N;                                                                          \
      const T *pa = a + z * nextA + row * rowA, *pb = b + z * nextB + col * colB;                                                         \
      T sum = 0;                                                                                                                          \
      for (int k = 0; k < K; k++) sum = num::fma(pa[k * stepA], pb[k * stepB], sum);                                                      \
      y[i] = activate(act, slope, bias ? sum + bias[i / N * biasLead + col] : sum);                                                                          \
    }                                                                                                                                     \
  }

SMALL(f32, float)
SMALL(f64, double)
