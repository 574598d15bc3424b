// Convolutions of which the factors are rounded to 16 bits, and their gradients: see conv.cuh. halves has bit 0 set where the first factor is stored in 16
// bits, bit 1 where the second is; otherwise they are float. Sums are in float.
#include "conv.cuh"

#define ROUNDED(Format, a, b) rounded<Format>{a, (halves & 1) != 0}, rounded<Format>{b, (halves & 2) != 0}

#define CONV(type, Format)                                                                                                                  \
  TILED conv_forward_##type(const void *x, const void *w, int halves, EPILOGUE(float), float *y, int wide, int act, double slope, WINDOW) { \
    forward(ROUNDED(Format, x, w), AS_EPILOGUE(float), y, wide != 0, AS_WINDOW);                                                            \
  }                                                                                                                                         \
  TILED conv_input_##type(const void *w, const void *dy, int halves, float *dx, WINDOW) { input(ROUNDED(Format, w, dy), dx, AS_WINDOW); }   \
  TILED conv_weight_##type(const void *x, const void *dy, int halves, float *dw, float *part, int splits, int perSplit, WINDOW) {           \
    weight(ROUNDED(Format, x, dy), dw, part, splits, perSplit, AS_WINDOW);                                                                  \
  }                                                                                                                                         \
  KERNEL conv_forward_direct_##type(const void *x, const void *w, int halves, EPILOGUE(float), float *y, int act, double slope, WINDOW) {   \
    forwardDirect(ROUNDED(Format, x, w), AS_EPILOGUE(float), y, AS_WINDOW);                                                                 \
  }                                                                                                                                         \
  KERNEL conv_input_direct_##type(const void *w, const void *dy, int halves, float *dx, WINDOW) {                                           \
    inputDirect(ROUNDED(Format, w, dy), dx, AS_WINDOW);                                                                                     \
  }                                                                                                                                         \
  KERNEL conv_weight_direct_##type(const void *x, const void *dy, int halves, float *dw, WINDOW) {                                          \
    weightDirect(ROUNDED(Format, x, dy), dw, AS_WINDOW);                                                                                    \
  }

CONV(bf16, bfloat16)
CONV(f16, float16)
