// Adafactor on matrices [matrices, n, width]; a vector is one matrix of width 1.  Reference: kernels/adafactor.go.
// Six kernels, launched in their order: rows │ columns │ fold │ measure │ scaleStep │ apply. They read the gradient four times and the parameter once or twice, and
// write the parameter. Sums are in double, and their order depends on shapes alone. Where guard[0] is not 0 nothing changes.
// Workspace, in double: sums [matrices, cuts, width] over the rows of each cut, the first cut's of which become 1/√C; means [matrices] of R;
// squares [2, matrices·n] of rows, of the parameter and of the step; step [1], the factor of the step.
// A row has a block, or a thread where rows are short.
#include "team.cuh"

// A Gradient is one that is scaled and clipped while it is read.
template <class T> struct gradient {
  const T *g;
  double scale, clip;
};
struct Gradient {
  template <class T> DEVICE gradient<T> of(const T *g, const double *scale, double clip) { return {g, scale ? scale[0] : 1., clip}; }
  template <class T> DEVICE double at(gradient<T> x, int64 i) {
    double v = x.g[i] * x.scale;
    return x.clip > 0 && v > x.clip ? x.clip : x.clip > 0 && v < -x.clip ? -x.clip : v;
  }
};

// most returns the most that a mean of squares becomes, see MostSquare.
DEVICE double most(float) { return 0x1.fffffep127; }
DEVICE double most(double) { return 0x1p960; }

// mean returns a running mean of squares, moved by one of weight fresh.
template <class T> DEVICE T mean(T was, double fresh, double square) {
  double x = (1 - fresh) * was + fresh * square;
  return (T)(x > most(was) ? most(was) : x);
}

// rows updates the means of rows and, with relative, sums the squares of the parameter's rows.
template <class Team, class T>
DEVICE void rows(const T *param, const T *grad, T *means, double *squares, int64 count, int64 width, const int32 *guard, const double *controls,
                 const double *scale, double clip, double epsilon, int32 relative) {
  if (guard[0] != 0) return;
  gradient<T> g = Gradient::of(grad, scale, clip);
  double fresh = controls[2];
  for (int64 i = Team::block ? blockIdx.x : index(); i < count; i += Team::block ? gridDim.x : stride()) {
    double sum = 0, own = 0;
    for (int64 j = i * width + Team::rank(); j < (i + 1) * width; j += Team::size()) {
      double v = Gradient::at(g, j), p = relative ? param[j] : T(0);
      sum += v * v + epsilon;
      own += p * p;
    }
    sum = Team::sum(sum);
    own = Team::sum(own);
    if (Team::rank() > 0) continue;
    means[i] = mean(means[i], fresh, sum / width);
    squares[i] = own;
  }
}

// columns adds up the columns of per rows of a matrix: a block of 32 × 8 threads has 32 neighbouring ones, so that rows are read together.
template <class T>
DEVICE void columns(const T *grad, double *sums, int64 matrices, int64 n, int64 width, int64 cuts, int64 per, const int32 *guard, const double *scale,
                    double clip, double epsilon) {
  __shared__ double part[8][32];
  if (guard[0] != 0) return;
  gradient<T> g = Gradient::of(grad, scale, clip);
  int32 lane = threadIdx.x % 32, worker = threadIdx.x / 32;
  int64 wide = (width + 31) / 32;
  for (int64 b = blockIdx.x; b < matrices * cuts * wide; b += gridDim.x) {
    int64 cut = b / wide, j = b % wide * 32 + lane, first = cut % cuts * per;
    double sum = 0;
    if (j < width)
      for (int64 i = first + worker; i < mini(first + per, n); i += 8) {
        double v = Gradient::at(g, (cut / cuts * n + i) * width + j);
        sum += v * v + epsilon;
      }
    __syncthreads(); // part may still be read from a former round
    part[worker][lane] = sum;
    __syncthreads();
    if (worker > 0 || j >= width) continue;
    for (int32 k = 1; k < 8; k++) sum += part[k][lane];
    sums[cut * width + j] = sum;
  }
}

// fold moves the means of columns, a block a matrix, and leaves 1/√C for each column and the mean of R.
template <class T>
DEVICE void fold(const T *rows, T *columns, double *sums, double *means, int64 matrices, int64 n, int64 width, int64 cuts, const int32 *guard,
                 const double *controls) {
  if (guard[0] != 0) return;
  double fresh = controls[2];
  for (int64 m = blockIdx.x; m < matrices; m += gridDim.x) {
    double *first = sums + m * cuts * width, total = 0;
    for (int64 j = threadIdx.x; j < width; j += blockDim.x) {
      double sum = first[j];
      for (int64 k = 1; k < cuts; k++) sum += first[k * width + j];
      T c = mean(columns[m * width + j], fresh, sum / n);
      columns[m * width + j] = c;
      first[j] = 1 / num::sqrt((double)c);
    }
    for (int64 i = threadIdx.x; i < n; i += blockDim.x) total += rows[m * n + i];
    total = Block::sum(total);
    if (threadIdx.x == 0) means[m] = total / n;
  }
}

// measure adds up the squares of each row's step.
template <class Team, class T>
DEVICE void measure(const T *grad, const T *rows, const double *sums, const double *means, double *squares, int64 count, int64 n, int64 width, int64 cuts,
                    const int32 *guard, const double *scale, double clip) {
  if (guard[0] != 0) return;
  gradient<T> g = Gradient::of(grad, scale, clip);
  for (int64 i = Team::block ? blockIdx.x : index(); i < count; i += Team::block ? gridDim.x : stride()) {
    const double *byColumn = sums + i / n * cuts * width;
    double sum = 0;
    for (int64 j = Team::rank(); j < width; j += Team::size()) {
      double u = Gradient::at(g, i * width + j) * byColumn[j];
      sum += u * u;
    }
    sum = Team::sum(sum);
    if (Team::rank() == 0) squares[i] = sum * (means[i / n] / rows[i]);
  }
}

// scaleStep computes the factor of the step from all squares. One block.
KERNEL scaleStep(const double *squares, double *step, int64 count, double elements, const int32 *guard, const double *controls, double limit, double least,
                 int32 relative) {
  if (guard[0] != 0) return;
  double own = 0, all = 0;
  for (int64 i = threadIdx.x; i < count; i += blockDim.x) own += squares[i], all += squares[count + i];
  own = num::sqrt(Block::sum(own) / elements);
  all = num::sqrt(Block::sum(all) / elements) / limit;
  double size = relative ? own > least ? own : least : 1.;
  if (threadIdx.x == 0) step[0] = controls[0] * size / (all > 1 ? all : 1.);
}

// apply takes the step.
template <class Team, class T>
DEVICE void apply(T *param, const T *grad, const T *rows, const double *sums, const double *means, const double *step, int64 count, int64 n, int64 width,
                  int64 cuts, const int32 *guard, const double *controls, const double *scale, double clip, double decay) {
  if (guard[0] != 0) return;
  gradient<T> g = Gradient::of(grad, scale, clip);
  double less = controls[0] * decay;
  for (int64 i = Team::block ? blockIdx.x : index(); i < count; i += Team::block ? gridDim.x : stride()) {
    const double *byColumn = sums + i / n * cuts * width;
    double by = step[0] * num::sqrt(means[i / n] / rows[i]);
    for (int64 j = Team::rank(); j < width; j += Team::size()) {
      double p = param[i * width + j];
      param[i * width + j] = (T)(p - by * (Gradient::at(g, i * width + j) * byColumn[j]) - less * p);
    }
  }
}

#define TEAM(team, Team, name, T)                                                                                                                       \
  KERNEL rows_##team##_##name(const T *param, const T *grad, T *means, double *squares, int64 count, int64 width, const int32 *guard,                   \
                              const double *controls, const double *scale, double clip, double epsilon, int32 relative) {                               \
    rows<Team>(param, grad, means, squares, count, width, guard, controls, scale, clip, epsilon, relative);                                             \
  }                                                                                                                                                     \
  KERNEL measure_##team##_##name(const T *grad, const T *rows, const double *sums, const double *means, double *squares, int64 count, int64 n,          \
                                 int64 width, int64 cuts, const int32 *guard, const double *scale, double clip) {                                       \
    measure<Team>(grad, rows, sums, means, squares, count, n, width, cuts, guard, scale, clip);                                                         \
  }                                                                                                                                                     \
  KERNEL apply_##team##_##name(T *param, const T *grad, const T *rows, const double *sums, const double *means, const double *step, int64 count,        \
                               int64 n, int64 width, int64 cuts, const int32 *guard, const double *controls, const double *scale, double clip,          \
                               double decay) {                                                                                                          \
    apply<Team>(param, grad, rows, sums, means, step, count, n, width, cuts, guard, controls, scale, clip, decay);                                      \
  }
#define FACTORED(name, T)                                                                                                                               \
  TEAM(row, Block, name, T)                                                                                                                             \
  TEAM(line, Solo, name, T)                                                                                                                             \
  KERNEL columns_##name(const T *grad, double *sums, int64 matrices, int64 n, int64 width, int64 cuts, int64 per, const int32 *guard,                   \
                        const double *scale, double clip, double epsilon) {                                                                             \
    columns(grad, sums, matrices, n, width, cuts, per, guard, scale, clip, epsilon);                                                                    \
  }                                                                                                                                                     \
  KERNEL fold_##name(const T *rows, T *columns, double *sums, double *means, int64 matrices, int64 n, int64 width, int64 cuts, const int32 *guard,      \
                     const double *controls) {                                                                                                          \
    fold(rows, columns, sums, means, matrices, n, width, cuts, guard, controls);                                                                        \
  }
FACTORED(f32, float)
FACTORED(f64, double)
