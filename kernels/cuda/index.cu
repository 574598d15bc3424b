// Rows gathered and added by index, and constants.  References: Gather, Scatter, Fill and CheckIndex in package kernels.
//   fill     y [n] = value                                                              writes n elements
//   gather   data [N, row], index [R] → y [R, row]; zeros for an index outside 0..N-1   reads and writes R·row
//   scatter  index [R], dy [R, row] → y [Rows, row], y[index[i]] += dy[i] in the order of i
//   checkIndex  index [R], guard [4]: where guard[0] is 0 and an index is not in 0..rows-1, code, place and halves of the first such; reads R
#include "index.cuh"

template <class T> DEVICE void fill(T *y, T value, int64 n) {
  for (int64 i = index(); i < n; i += stride()) y[i] = value;
}
template <class T> DEVICE void gather(const T *data, const void *at, int32 type, T *y, int64 rows, int64 row, int64 n) {
  for (int64 i = index(); i < n; i += stride()) {
    int64 r = i / row, k = integer(at, type, r);
    y[i] = k >= 0 && k < rows ? data[k * row + i % row] : T(0);
  }
}
#define MOVE(name, T)                                                                                              \
  KERNEL fill_##name(T *y, uint64 value, int64 n) { fill(y, (T)value, n); }                                       \
  KERNEL gather_##name(const T *data, const void *at, int32 type, T *y, int64 rows, int64 row, int64 n) {         \
    gather(data, at, type, y, rows, row, n);                                                                      \
  }
MOVE(8, uint8)
MOVE(32, uint32)
MOVE(64, uint64)

// A block has a row of the result and 256 of its columns. It looks through all indices in tiles, of which ballots leave the few that matter:
// no two threads add to one element, so the order is fixed. Sums are in double. Bytes: each block reads the indices, each dy is read once.
template <class T> DEVICE void scatter(const void *at, int32 type, const T *dy, T *y, int64 count, int64 row, int64 rows) {
  __shared__ uint32 found[8];
  for (int64 r = blockIdx.x; r < rows; r += gridDim.x) {
    int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    double sum = 0;
    for (int64 tile = 0; tile < count; tile += 256) {
      int64 mine = tile + threadIdx.x;
      uint32 here = __nvvm_vote_ballot_sync(everyone, mine < count && integer(at, type, mine) == r);
      __syncthreads(); // found may still be read
      if (threadIdx.x % warp == 0) found[threadIdx.x / warp] = here;
      __syncthreads();
      for (int32 w = 0; w < 8; w++)
        for (uint32 m = found[w]; m != 0; m &= m - 1) {
          int64 k = tile + w * 32 + __builtin_ctz(m);
          if (column < row) sum += dy[k * row + column];
        }
    }
    if (column < row) y[r * row + column] = (T)sum;
  }
}
#define SCATTER(name, T)                                                                                                   \
  KERNEL scatter_##name(const void *at, int32 type, const T *dy, T *y, int64 count, int64 row, int64 rows) {              \
    scatter(at, type, dy, y, count, row, rows);                                                                           \
  }
SCATTER(f32, float)
SCATTER(f64, double)

// One block scans the indices in order, a tile at a time, and stops at the first tile with a bad one: the result does not depend on how
// its threads are scheduled.
KERNEL checkIndex(const void *at, int32 type, int32 *guard, int64 n, int64 rows, int32 code) {
  __shared__ uint32 found[32];
  if (guard[0] != 0) return;
  for (int64 tile = 0; tile < n; tile += blockDim.x) {
    int64 i = tile + threadIdx.x, k = i < n ? integer(at, type, i) : 0;
    uint32 bad = __nvvm_vote_ballot_sync(everyone, i < n && (k < 0 || k >= rows));
    __syncthreads(); // found may still be read
    if (threadIdx.x % warp == 0) found[threadIdx.x / warp] = bad;
    __syncthreads();
    for (int32 w = 0; w < blockDim.x / warp; w++) {
      if (found[w] == 0) continue;
      if (threadIdx.x == w * warp + __builtin_ctz(found[w])) {
        guard[0] = code;
        guard[1] = (int32)i;
        guard[2] = (int32)k;
        guard[3] = (int32)(k >> 32);
      }
      return;
    }
  }
}
