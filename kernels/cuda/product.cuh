// A product of matrices by one block, for matmul.cu and conv.cu. y [M, N] = Σ_k a [M, K]·b [N, K]: a Loader returns the element of an operand
// at (row, k), and a target stores a result.
//
// A block of 256 threads computes a tile of BM rows and BN columns, TM·TN results a thread in registers, BK steps of k at a time: while these are
// multiplied out of one half of shared memory, the next are on their way from memory through registers to the other half. Each result is one
// sum in the order of k, whatever the tile, so its bits do not depend on the tile's size or place.
// Source: the tiling of CUTLASS ("Efficient GEMM in CUDA"), without its warp level.
#pragma once

#include "act.cuh"

constexpr int productThreads = 256;

// A panel is one operand's part of shared memory, and the share of a thread in loading it: each elements of the same row or the same k.
//
// A Loader has: a static bool alongK: neighbours in k are neighbours in memory, else neighbours in rows are; wide:
// 16 bytes may be loaded at once; a static bool always: wide is always true (the other way then needs no registers); a type Place, which place(row) gives for a row in bounds; load(Place, k) and loadWide(Place, k).
template <class T, class Loader, int Rows, int BK, int Pad = 16 / sizeof(T)> struct panel {
  static constexpr int each = Rows * BK / productThreads, lanes = 16 / sizeof(T), width = Rows + Pad; // the pad spreads accesses over banks
  static constexpr bool canBeWide = each % lanes == 0;
  typedef T half[BK][width];
  T held[each];

  static METHOD bool isWide(const Loader &from) { return canBeWide && (Loader::always || from.wide); }

  // spot returns the position of element i of this thread in the panel.
  static METHOD void spot(bool wide, int i, int *row, int *k) {
    const int t = threadIdx.x;
    if (wide) {
      const int e = t + i / lanes * productThreads;
      if (Loader::alongK) *row = e / (BK / lanes), *k = e % (BK / lanes) * lanes + i % lanes;
      else *row = e % (Rows / lanes) * lanes + i % lanes, *k = e / (Rows / lanes);
      return;
    }
    const int e = t + i * productThreads;
    if (Loader::alongK) *row = e / BK, *k = e % BK;
    else *row = e % Rows, *k = e / Rows;
  }

  // fetch loads this thread's elements of the steps from k on; elements out of bounds are 0.
  METHOD void fetch(const Loader &from, int first, int rows, int k, int end) {
    if (isWide(from)) {
#pragma unroll
      for (int i = 0; i + lanes <= each; i += lanes) {
        int r, s;
        spot(true, i, &r, &s);
        vec<T, lanes> v = {};
        if (first + r < rows && k + s < end) v = from.loadWide(from.place(first + r), k + s);
#pragma unroll
        for (int j = 0; j < lanes; j++) held[i + j] = v.v[j];
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < each; i++) {
      int r, s;
      spot(false, i, &r, &s);
      held[i] = first + r < rows && k + s < end ? from.load(from.place(first + r), k + s) : T(0);
    }
  }

  METHOD void store(const Loader &from, half &to) const {
#pragma unroll
    for (int i = 0; i < each; i++) {
      int r, s;
      spot(isWide(from), i, &r, &s);
      to[s][r] = held[i];
    }
  }
};

// fragment reads a thread's N values of one step: runs of 16 bytes, as far apart as all threads together are wide.
template <class T, int Rows, int N> struct fragment {
  static constexpr int lanes = 16 / sizeof(T), runs = N / lanes;
  T v[N];
  static METHOD int row(int thread, int i) { return i / lanes * (Rows / runs) + thread * lanes + i % lanes; }
  METHOD void read(const T *from, int thread) {
#pragma unroll
    for (int r = 0; r < runs; r++) {
      vec<T, lanes> x = *(const vec<T, lanes> *)(from + row(thread, r * lanes));
#pragma unroll
      for (int i = 0; i < lanes; i++) v[r * lanes + i] = x.v[i];
    }
  }
};

// product computes the tile at (row0, col0) over k from k0 to before k1. A Target has put(row, col, T), for places in bounds.
template <class T, int BM, int BN, int BK, int TM, int TN, class A, class B, class Target>
DEVICE void product(const A &a, const B &b, const Target &y, int M, int N, int row0, int col0, int k0, int k1) {
  static_assert(BM / TM * (BN / TN) == productThreads, "a tile is one block's");
  typedef panel<T, A, BM, BK> PA;
  typedef panel<T, B, BN, BK> PB;
  __shared__ typename PA::half as[2] __attribute__((aligned(16)));
  __shared__ typename PB::half bs[2] __attribute__((aligned(16)));
  const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
  T sum[TM][TN] = {};
  PA pa;
  PB pb;
  __syncthreads(); // a former tile may still be read
  if (k0 < k1) {
    pa.fetch(a, row0, M, k0, k1), pb.fetch(b, col0, N, k0, k1);
    pa.store(a, as[0]), pb.store(b, bs[0]);
  }
  __syncthreads();
  int half = 0;
  for (int k = k0; k < k1; k += BK) {
    const bool more = k + BK < k1;
    if (more) pa.fetch(a, row0, M, k + BK, k1), pb.fetch(b, col0, N, k + BK, k1);
#pragma unroll 8
    for (int s = 0; s < BK; s++) {
      fragment<T, BM, TM> fa;
      fragment<T, BN, TN> fb;
      fa.read(as[half][s], ty), fb.read(bs[half][s], tx);
#pragma unroll
      for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) sum[i][j] = num::fma(fa.v[i], fb.v[j], sum[i][j]);
    }
    half ^= 1;
    if (more) pa.store(a, as[half]), pb.store(b, bs[half]);
    __syncthreads();
  }
  // Results leave by rows through shared memory: neighbours in memory are neighbours in time, and the code of the end is there TM times only.
  constexpr int high = BM / TM;
  __shared__ T out[high][BN];
#pragma unroll
  for (int i = 0; i < TM; i++) {
    if (i > 0) __syncthreads();
#pragma unroll
    for (int j = 0; j < TN; j++) out[ty][fragment<T, BN, TN>::row(tx, j)] = sum[i][j];
    __syncthreads();
#pragma unroll 1
    for (int e = threadIdx.x; e < high * BN; e += productThreads) {
      const int row = row0 + fragment<T, BM, TM>::row(e / BN, i), col = col0 + e % BN;
      if (row < M && col < N) y.put(row, col, out[e / BN][e % BN]);
    }
  }
}

// An order walks over tiles in bands of 8 rows of tiles, so that blocks that run together share panels in the second-level cache.
struct order {
  int rows, cols; // of tiles
  METHOD void tile(int i, int *row, int *col) const {
    const int band = 8 * cols, first = i / band * 8, high = mini(8, rows - first);
    *row = first + i % band % high, *col = i % band / high;
  }
};
