// Convolutions of float and double, and their gradients: see conv.cuh.
#include "conv.cuh"

TILED conv_forward_f32(const float *x, const float *w, EPILOGUE(float), float *y, int wide, int act, double slope, WINDOW) {
  forward(x, w, AS_EPILOGUE(float), y, wide != 0, AS_WINDOW);
}
TILED conv_input_f32(const float *w, const float *dy, float *dx, WINDOW) { input(w, dy, dx, AS_WINDOW); }
TILED conv_weight_f32(const float *x, const float *dy, float *dw, float *part, int splits, int perSplit, WINDOW) {
  weight(x, dy, dw, part, splits, perSplit, AS_WINDOW);
}

#define DIRECT(type, T)                                                                                          \
  KERNEL conv_forward_direct_##type(const T *x, const T *w, EPILOGUE(T), T *y, int act, double slope, WINDOW) {  \
    forwardDirect(x, w, AS_EPILOGUE(T), y, AS_WINDOW);                                                           \
  }                                                                                                              \
  KERNEL conv_input_direct_##type(const T *w, const T *dy, T *dx, WINDOW) { inputDirect(w, dy, dx, AS_WINDOW); } \
  KERNEL conv_weight_direct_##type(const T *x, const T *dy, T *dw, WINDOW) { weightDirect(x, dy, dw, AS_WINDOW); }

DIRECT(f32, float)
DIRECT(f64, double)
