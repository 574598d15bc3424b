// Elements cleared at random.  x [n], controls float64 [8] → y [n], x·scale where a word of Philox4x32-10 is at least the threshold, else 0.
// Reference: Dropout and Philox in package kernels (Salmon et al., SC 2011, section 3.3). Reads and writes n elements; y may be x.
#include "cuda.cuh"

constexpr int32 controlStep = 7;

// philox turns the counter c into four random words.
DEVICE void philox(uint32 *c, uint32 key0, uint32 key1) {
#pragma unroll
  for (int32 round = 0; round < 10; round++) {
    uint64 a = (uint64)c[0] * 0xD2511F53u, b = (uint64)c[2] * 0xCD9E8D57u;
    c[0] = (uint32)(b >> 32) ^ c[1] ^ key0, c[1] = (uint32)b;
    c[2] = (uint32)(a >> 32) ^ c[3] ^ key1, c[3] = (uint32)a;
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
}

template <class T>
DEVICE void dropout(const T *x, const double *controls, T *y, int64 n, uint32 key0, uint32 key1, uint32 layer0, uint32 layer1, uint32 least, double scale) {
  uint32 step = (uint32)(int64)controls[controlStep];
  for (int64 quad = index(); quad * 4 < n; quad += stride()) {
    uint32 words[4] = {(uint32)quad, step, layer0, layer1};
    philox(words, key0, key1);
#pragma unroll
    for (int32 k = 0; k < 4; k++) {
      int64 i = quad * 4 + k;
      if (i < n) y[i] = words[k] >= least ? x[i] * (T)scale : T(0);
    }
  }
}

#define DROPOUT(name, T)                                                                                                                          \
  KERNEL dropout_##name(const T *x, const double *controls, T *y, int64 n, uint32 key0, uint32 key1, uint32 layer0, uint32 layer1, uint32 least, \
                        double scale) {                                                                                                          \
    dropout(x, controls, y, n, key0, key1, layer0, layer1, least, scale);                                                                        \
  }
DROPOUT(f32, float)
DROPOUT(f64, double)
