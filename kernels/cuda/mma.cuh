// product of product.cuh on tensor cores (sm_80 and later): operands are rounded to fewer bits, products are summed in float. Rows, columns,
// loaders and targets are as there; a block of 8 warps computes a tile of 128 by 128, each warp 64 rows of 32 columns.
// Which thread holds which element: PTX ISA 7.0, 9.7.13.4, "Matrix fragments for mma.m16n8k8" and "mma.m16n8k16".
#pragma once

#include "number.cuh"
#include "product.cuh"

// A Number is a type that operands are rounded to: mma takes steps of k at once, and a and b as registers of one (tf32) or two (bf16, f16) elements.
// The pads keep the 32 threads of a read on 32 banks.
struct tf32 {
  static constexpr int steps = 8, pad = 8;
  // pack rounds elements of rows k of shared memory, from from on; rows are width apart; half is 0 or 1 for the register's half of the steps.
  static METHOD uint32 pack(const float *from, int width, int lane, int half) {
    uint32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(from[(lane + 4 * half) * width]));
    return r;
  }
  static METHOD void multiply(float (&c)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

// Loaders leave the rounding of floats to pack.
#define PAIRED(name, Format)                                                                                                                  \
  struct name {                                                                                                                               \
    static constexpr int steps = 16, pad = 4;                                                                                                 \
    static METHOD float widen(uint16 h) { return Format::widen(h); }                                                                          \
    static METHOD float round(float v) { return v; }                                                                                          \
    static METHOD uint32 pack(const float *from, int width, int lane, int half) {                                                            \
      const float *p = from + (2 * lane + 8 * half) * width;                                                                                  \
      uint32 r;                                                                                                                               \
      asm("cvt.rn." #name "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(p[width]), "f"(p[0]));                                                         \
      return r;                                                                                                                               \
    }                                                                                                                                         \
    static METHOD void multiply(float (&c)[4], const uint32 (&a)[4], const uint32 (&b)[2]) {                                                  \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." #name "." #name ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"      \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                                                    \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                                \
    }                                                                                                                                         \
  };

PAIRED(bf16, bfloat16)
PAIRED(f16, float16)

template <class Number, class A, class B, class Target>
DEVICE void productMma(const A &a, const B &b, const Target &y, int M, int N, int row0, int col0, int k0, int k1) {
  constexpr int tile = 128, BK = 16, high = 64, wide = 32; // of a warp
  typedef panel<float, A, tile, BK, Number::pad> PA;
  typedef panel<float, B, tile, BK, Number::pad> PB;
  __shared__ typename PA::half as[2] __attribute__((aligned(16)));
  __shared__ typename PB::half bs[2] __attribute__((aligned(16)));
  const int warpRow = threadIdx.x / warp / 4, warpCol = threadIdx.x / warp % 4, group = threadIdx.x % warp / 4, lane = threadIdx.x % 4;
  float sum[high / 16][wide / 8][4] = {};
  PA pa;
  PB pb;
  __syncthreads(); // a former tile may still be read
  if (k0 < k1) {
    pa.fetch(a, row0, M, k0, k1), pb.fetch(b, col0, N, k0, k1);
    pa.store(a, as[0]), pb.store(b, bs[0]);
  }
  __syncthreads();
  int now = 0;
  for (int k = k0; k < k1; k += BK) {
    const bool more = k + BK < k1;
    if (more) pa.fetch(a, row0, M, k + BK, k1), pb.fetch(b, col0, N, k + BK, k1);
#pragma unroll
    for (int s = 0; s < BK; s += Number::steps) {
      uint32 fb[wide / 8][2];
#pragma unroll
      for (int j = 0; j < wide / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) fb[j][h] = Number::pack(&bs[now][s][warpCol * wide + 8 * j + group], PB::width, lane, h);
#pragma unroll
      for (int i = 0; i < high / 16; i++) {
        uint32 fa[4]; // upper and lower 8 rows of the first steps, then of the others
#pragma unroll
        for (int h = 0; h < 4; h++) fa[h] = Number::pack(&as[now][s][warpRow * high + 16 * i + 8 * (h % 2) + group], PA::width, lane, h / 2);
#pragma unroll
        for (int j = 0; j < wide / 8; j++) Number::multiply(sum[i][j], fa, fb[j]);
      }
    }
    now ^= 1;
    if (more) pa.store(a, as[now]), pb.store(b, bs[now]);
    __syncthreads();
  }
  // Results leave through the shared memory of the operands, 16 rows of each warp at a time.
  static_assert(sizeof(as) >= 32 * tile * sizeof(float), "room for 32 rows");
  float(*out)[tile] = (float(*)[tile])as;
#pragma unroll
  for (int i = 0; i < high / 16; i++) {
    if (i > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < wide / 8; j++)
#pragma unroll
      for (int q = 0; q < 4; q++) out[warpRow * 16 + group + q / 2 * 8][warpCol * wide + 8 * j + 2 * lane + q % 2] = sum[i][j][q];
    __syncthreads();
#pragma unroll 1
    for (int e = threadIdx.x; e < 32 * tile; e += productThreads) {
      const int r = e / tile, row = row0 + r / 16 * high + 16 * i + r % 16, col = col0 + e % tile;
      if (row < M && col < N) y.put(row, col, out[r][e % tile]);
    }
  }
}
