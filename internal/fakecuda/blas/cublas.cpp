//go:build ignore

// libcublas.so.12 without a GPU: the calls of cuBLAS that kernels/cuda makes, on the emulated driver of this process. It is stricter than NVIDIA's:
// without a workspace a product is refused, and of the workspace every byte is overwritten.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

// cublasStatus_t.
enum : int { kOk = 0, kNotInitialized = 1, kAllocFailed = 3, kInvalidValue = 7, kExecutionFailed = 13, kNotSupported = 15 };

struct Access {
  uint64_t address, bytes;
  int write;
};

// The driver's functions, found in the process.
struct Driver {
  int (*work)(void *, const char *, const Access *, int, void (*)(void *, uint8_t **), void *, void (*)(void *));
  int (*allocate)(uint64_t *, size_t);
  int (*free)(uint64_t);
};

bool find(Driver *d) {
  *(void **)&d->work = dlsym(RTLD_DEFAULT, "fakecuda_work");
  *(void **)&d->allocate = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
  *(void **)&d->free = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
  return d->work && d->allocate && d->free;
}

struct Handle {
  Driver driver;
  uint64_t own;  // device memory that every handle takes, as NVIDIA's does
  void *stream = nullptr;
  uint64_t work = 0, workBytes = 0;
};

constexpr size_t kOwnBytes = 1 << 20;

// Bits that the factors of float32 products keep, by cublasComputeType_t.
int keptBits(int compute) {
  switch (compute) {
    case 68: return 24;  // 32F
    case 74: case 77: return 11;  // 32F_FAST_16F, 32F_FAST_TF32
    case 75: return 8;   // 32F_FAST_16BF
  }
  return 0;
}

float rounded(float x, int bits) {
  if (bits == 24 || !std::isfinite(x)) return x;
  int e;
  float m = std::frexp(x, &e);
  return std::ldexp(std::nearbyint(std::ldexp(m, bits)), e - bits);
}

struct Gemm {
  bool transA, transB, isDouble;
  int m, n, k, leadA, leadB, leadC, batch, bits;
  long long stepA, stepB, stepC;
  double alpha, beta;
  uint64_t workBytes;
};

// elements spans a batch of column-major matrices.
uint64_t elements(int rows, int cols, int lead, long long step, int batch) {
  if (!rows || !cols || !batch) return 0;
  return (uint64_t)step * (batch - 1) + (uint64_t)lead * (cols - 1) + rows;
}

template <class T>
void compute(const Gemm &g, const T *a, const T *b, T *c) {
  std::vector<double> column(g.k);
  for (int z = 0; z < g.batch; z++, a += g.stepA, b += g.stepB, c += g.stepC)
    for (int j = 0; j < g.n; j++) {
      for (int l = 0; l < g.k; l++) {
        T v = g.transB ? b[j + (int64_t)l * g.leadB] : b[l + (int64_t)j * g.leadB];
        column[l] = sizeof(T) == 4 ? rounded(v, g.bits) : v;
      }
      for (int i = 0; i < g.m; i++) {
        double sum = 0;
        for (int l = 0; l < g.k; l++) {
          T v = g.transA ? a[l + (int64_t)i * g.leadA] : a[i + (int64_t)l * g.leadA];
          sum += column[l] * (sizeof(T) == 4 ? rounded(v, g.bits) : v);
        }
        T &to = c[i + (int64_t)j * g.leadC];
        to = g.beta == 0 ? T(g.alpha * sum) : T(g.alpha * sum + g.beta * to);
      }
    }
}

void runGemm(void *arg, uint8_t **places) {
  const Gemm &g = *(const Gemm *)arg;
  memset(places[3], 0xff, g.workBytes);
  if (g.isDouble)
    compute(g, (const double *)places[0], (const double *)places[1], (double *)places[2]);
  else
    compute(g, (const float *)places[0], (const float *)places[1], (float *)places[2]);
}

void dropGemm(void *arg) { delete (Gemm *)arg; }

}  // namespace

API cublasCreate_v2(Handle **out) {
  if (!out) return kInvalidValue;
  auto *h = new Handle;
  if (!find(&h->driver)) {
    delete h;
    return kNotInitialized;
  }
  if (h->driver.allocate(&h->own, kOwnBytes)) {
    delete h;
    return kAllocFailed;
  }
  *out = h;
  return kOk;
}

API cublasDestroy_v2(Handle *h) {
  if (!h) return kNotInitialized;
  int code = h->driver.free(h->own);
  delete h;
  return code ? kExecutionFailed : kOk;
}

API cublasSetStream_v2(Handle *h, void *stream) {
  if (!h) return kNotInitialized;
  h->stream = stream;
  h->work = h->workBytes = 0;  // as NVIDIA's: the workspace is the default one again
  return kOk;
}

API cublasSetWorkspace_v2(Handle *h, void *work, size_t bytes) {
  if (!h) return kNotInitialized;
  if ((uint64_t)work % 256) return kInvalidValue;
  h->work = (uint64_t)work;
  h->workBytes = bytes;
  return kOk;
}

API cublasGemmStridedBatchedEx(Handle *h, int transA, int transB, int m, int n, int k, const void *alpha, const void *a, int typeA, int leadA,
                               long long stepA, const void *b, int typeB, int leadB, long long stepB, const void *beta, void *c, int typeC,
                               int leadC, long long stepC, int batch, int computeType, int algorithm) {
  if (!h) return kNotInitialized;
  constexpr int kFloat = 0, kDouble = 1, kDefault = -1;
  if ((transA | transB) & ~1 || m < 0 || n < 0 || k < 0 || batch < 0 || leadA < std::max(1, transA ? k : m) || leadB < std::max(1, transB ? n : k) ||
      leadC < std::max(1, m) || !alpha || !beta)
    return kInvalidValue;
  bool isDouble = typeA == kDouble;
  if (typeA != typeB || typeA != typeC || (typeA != kFloat && !isDouble) || (isDouble ? computeType != 70 : !keptBits(computeType)) || algorithm != kDefault)
    return kNotSupported;
  if (!m || !n || !batch) return kOk;
  if (!h->workBytes) return kAllocFailed;
  auto *g = new Gemm{transA != 0, transB != 0, isDouble, m, n, k, leadA, leadB, leadC, batch, keptBits(computeType), stepA, stepB, stepC,
                     isDouble ? *(const double *)alpha : *(const float *)alpha, isDouble ? *(const double *)beta : *(const float *)beta, h->workBytes};
  uint64_t size = isDouble ? 8 : 4;
  Access accesses[] = {{(uint64_t)a, size * elements(transA ? k : m, transA ? m : k, leadA, stepA, batch), 0},
                       {(uint64_t)b, size * elements(transB ? n : k, transB ? k : n, leadB, stepB, batch), 0},
                       {(uint64_t)c, size * elements(m, n, leadC, stepC, batch), 1},
                       {h->work, h->workBytes, 1}};
  return h->driver.work(h->stream, "cublasGemmStridedBatchedEx", accesses, 4, runGemm, g, dropGemm) ? kExecutionFailed : kOk;
}
