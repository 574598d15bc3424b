// Products of which the factors are rounded to 16 bits, on any card: the same as matmul.cu. halves has bit 0 set where a is stored in 16 bits, bit 1 where b
// is; otherwise they are float. Sums are in float. Reference: refMatMul in kernels/matmul.go on rounded factors.
#include "matrix.cuh"

#define ROUNDED(Format) rounded<Format>{a, (halves & 1) != 0}, rounded<Format>{b, (halves & 2) != 0}

#define MATMUL(name, transA, transB, type, Format)                                                                                                 \
  extern "C" __global__ void __launch_bounds__(productThreads, 2)                                                                                  \
      matmul_##type##_##name##_64(const void *a, const void *b, int halves, const float *bias, int64 biasLead, float *y, float *part, SHAPE) {     \
    matmul<tiled<float, 64, 16, 4>, transA, transB>(ROUNDED(Format), bias, biasLead, y, part, AS_SHAPE);                                           \
  }

TRANSPOSES(MATMUL, bf16, bfloat16)
TRANSPOSES(MATMUL, f16, float16)

#define DIRECT(type, Format)                                                                                                                 \
  KERNEL matmul_direct_##type(const void *a, const void *b, int halves, const float *bias, int64 biasLead, float *y, STRIDES) {              \
    direct(ROUNDED(Format), bias, biasLead, y, AS_STRIDES);                                                                                  \
  }

DIRECT(bf16, bfloat16)
DIRECT(f16, float16)
