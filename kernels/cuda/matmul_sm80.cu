// Products of float matrices on tensor cores, for those who ask for them: the same as matmul.cu with operands rounded to TF32 (10 bits after the
// point), bfloat16 (7) or float16 (10, and a smaller range), by cards of compute capability 8 and later. Sums are in float.
// Reference: refMatMul in kernels/matmul.go on rounded operands. Bytes moved: as matmul.cu with tiles of 128. Share of peak: not yet measured.
#include "matrix.cuh"
#include "mma.cuh"

namespace {

template <class Number, bool TransA, bool TransB>
DEVICE void matmul(const float *a, const float *b, const float *bias, int64 biasLead, float *y, float *part, int M, int N, int K, int64 leadA, int64 leadB,
                   int64 stepA, int64 stepB, int batch, int splits, int perSplit, int act, double slope) {
  const order tiles = {(M + 127) / 128, (N + 127) / 128};
  int row, col;
  tiles.tile(blockIdx.x, &row, &col);
  for (int z = blockIdx.y; z < batch; z += gridDim.y) {
    const matrix<float, !TransA, true> ma = {a + z * stepA, leadA, true};
    const matrix<float, TransB, true> mb = {b + z * stepB, leadB, true};
    for (int s = blockIdx.z; s < splits; s += gridDim.z) {
      const int k0 = s * perSplit, k1 = mini(K, k0 + perSplit);
      const int64 size = (int64)M * N;
      const result<float> to = splits > 1 ? result<float>{part + ((int64)s * batch + z) * size, nullptr, 0, N, actNone, 0}
                                          : result<float>{y + z * size, bias + z * M * biasLead, biasLead, N, act, slope};
      productMma<Number>(ma, mb, to, M, N, row * 128, col * 128, k0, k1);
    }
  }
}

} // namespace

#define MATMUL(type, name, transA, transB)                                                                                             \
  extern "C" __global__ void __launch_bounds__(productThreads) matmul_##type##_##name(                                                 \
      const float *a, const float *b, const float *bias, int64 biasLead, float *y, float *part, int M, int N, int K, int64 leadA, int64 leadB,         \
      int64 stepA, int64 stepB, int batch, int splits, int perSplit, int act, double slope) {                    \
    matmul<type, transA, transB>(a, b, bias, biasLead, y, part, M, N, K, leadA, leadB, stepA, stepB, batch, splits, perSplit, act,  \
                                 slope);                                                                                               \
  }

#define MATMULS(type)           \
  MATMUL(type, nn, false, false) \
  MATMUL(type, nt, false, true)  \
  MATMUL(type, tn, true, false)  \
  MATMUL(type, tt, true, true)

MATMULS(tf32)
MATMULS(bf16)
MATMULS(f16)
