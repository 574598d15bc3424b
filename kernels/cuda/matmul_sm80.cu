// Products of float matrices on tensor cores: the same as matmul.cu with factors rounded to TF32 (10 bits after the
// point), bfloat16 (7) or float16 (10, and a smaller range), by cards of compute capability 8 and later. Sums are in float. Factors of bf16 and f16 may be
// stored so: halves has bit 0 set where a is, bit 1 where b is.
// Reference: refMatMul in kernels/matmul.go on rounded operands. Bytes moved: as matmul.cu with tiles of 128. Share of peak: not yet measured.
#include "matrix.cuh"
#include "mma.cuh"

namespace {

template <class Number> struct tensorCores {
  static constexpr int tile = 128;
  template <class A, class B, class Target>
  static METHOD void compute(const A &a, const B &b, const Target &y, int M, int N, int row, int col, int k0, int k1) {
    productMma<Number>(a, b, y, M, N, row, col, k0, k1);
  }
};

} // namespace

#define MATMUL(name, transA, transB, type)                                                                                        \
  extern "C" __global__ void __launch_bounds__(productThreads)                                                                    \
      matmul_##type##_##name##_128(const float *a, const float *b, const float *bias, int64 biasLead, float *y, float *part, SHAPE) { \
    matmul<tensorCores<type>, transA, transB>(a, b, bias, biasLead, y, part, AS_SHAPE);                                           \
  }

#define MATMUL_HALF(name, transA, transB, type)                                                                                                    \
  extern "C" __global__ void __launch_bounds__(productThreads)                                                                                    \
      matmul_##type##_##name##_128(const void *a, const void *b, int halves, const float *bias, int64 biasLead, float *y, float *part, SHAPE) {    \
    matmul<tensorCores<type>, transA, transB>(rounded<type>{a, (halves & 1) != 0}, rounded<type>{b, (halves & 2) != 0}, bias, biasLead, y, part,  \
                                              AS_SHAPE);                                                                                          \
  }

TRANSPOSES(MATMUL, tf32)
TRANSPOSES(MATMUL_HALF, bf16)
TRANSPOSES(MATMUL_HALF, f16)
