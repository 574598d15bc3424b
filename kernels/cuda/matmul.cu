// Products of matrices.  a [batch, M, K], b [batch, K, N] (, bias [N], or a sum like y) → y [batch, M, N].  y = act(a·b + bias).
// A sum may be y itself. It is a bias of which the rows are biasLead elements apart, which are 0 for a vector.
// Either operand may be transposed: a is [batch, K, M], b is [batch, N, K]. With some rows only, a starts at the first of them,
// and its leading dimension is the length of its rows. Reference: refMatMul in kernels/matmul.go.
//
// Bytes moved: M·K·⌈N/tile⌉ + K·N·⌈M/tile⌉ + M·N elements; bound by arithmetic from about 128 rows and columns on. Share of peak: not yet measured.
//
// Tiles of 128 need operands of which 16 bytes can be loaded at once everywhere; tiles of 64 take any.
//
// Where there are few tiles and many steps of k, these are split over blocks: partial sums go to a workspace [splits, batch, M, N], and matmul_end
// adds them in their order.
#include "matrix.cuh"

#define MATMUL(name, transA, transB, type, T, size, steps, each)                                                                                   \
  extern "C" __global__ void __launch_bounds__(productThreads, 2)                                                                                  \
      matmul_##type##_##name##_##size(const T *a, const T *b, const T *bias, int64 biasLead, T *y, T *part, SHAPE) {                               \
    matmul<tiled<T, size, steps, each>, transA, transB>(a, b, bias, biasLead, y, part, AS_SHAPE);                                                  \
  }

TRANSPOSES(MATMUL, f32, float, 128, 8, 8)
TRANSPOSES(MATMUL, f32, float, 64, 16, 4)
TRANSPOSES(MATMUL, f64, double, 64, 8, 4)

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

#define DIRECT(type, T)                                                                                                \
  KERNEL matmul_direct_##type(const T *a, const T *b, const T *bias, int64 biasLead, T *y, STRIDES) {                  \
    direct(a, b, bias, biasLead, y, AS_STRIDES);                                                                       \
  }

DIRECT(f32, float)
DIRECT(f64, double)
