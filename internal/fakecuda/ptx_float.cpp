//go:build ignore

// Floating point: correctly rounded arithmetic in every rounding mode, the approximate functions, halves.
#include <cfenv>
#include <cmath>

#include "ptx_code.hpp"

namespace ptx {

double roundTo(double x, int digits, int least, Round r) {
  if (x == 0 || !std::isfinite(x)) return x;
  int scale = std::max(std::ilogb(x), least) - (digits - 1);
  double s = std::ldexp(x, -scale);
  switch (r) {
    case Round::Zero: s = std::trunc(s); break;
    case Round::Down: s = std::floor(s); break;
    case Round::Up: s = std::ceil(s); break;
    case Round::Away: s = std::round(s); break;
    default: s = std::nearbyint(s);
  }
  return std::ldexp(s, scale);
}

float halfToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return bits<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent) return bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float v = float(fraction) * 0x1p-24f;
  return sign ? -v : v;
}

uint16_t floatToHalf(double x, Round r) {
  if (x != x) return 0x7fff;
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  double v = std::fabs(roundTo(x, 11, -14, r));
  if (v > 65504) return sign | (v == INFINITY || r == Round::Nearest || r == Round::None ? 0x7c00 : 0x7bff);
  if (v < 0x1p-14) return sign | uint16_t(v * 0x1p24);
  int e = std::ilogb(v);
  return sign | uint16_t((e + 15) << 10 | (int(std::ldexp(v, 10 - e)) & 1023));
}

uint16_t floatToBfloat(double x, Round r) {
  if (x != x) return 0x7fff;
  double v = roundTo(x, 8, -126, r);
  constexpr double most = 0x1.fep127;
  if (std::fabs(v) > most && std::isfinite(x)) v = std::copysign(r == Round::Zero ? most : INFINITY, x);
  return uint16_t(bits<uint32_t>(float(v)) >> 16);
}

namespace {

template <class T> constexpr bool kSingle = std::is_same_v<T, float>;

// A result that is not a number is the device's only one; the host's would keep a payload.
inline float canonical(float v) { return v == v ? v : bits<float>(0x7fffffffu); }
inline double canonical(double v) { return v; }
inline float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }
inline double flush(double v) { return v; }
template <class T> inline T saturate(T v) { return v > 0 ? (v < 1 ? v : T(1)) : T(0); }

struct Add { template <class T> static T f(T a, T b, T) { return a + b; } };
struct Sub { template <class T> static T f(T a, T b, T) { return a - b; } };
struct Mul { template <class T> static T f(T a, T b, T) { return a * b; } };
struct Div { template <class T> static T f(T a, T b, T) { return a / b; } };
struct Fma { template <class T> static T f(T a, T b, T c) { return std::fma(a, b, c); } };
struct Rcp { template <class T> static T f(T a, T, T) { return T(1) / a; } };
struct Sqrt { template <class T> static T f(T a, T, T) { return std::sqrt(a); } };
struct Neg { template <class T> static T f(T a, T, T) { return -a; } };
struct Abs { template <class T> static T f(T a, T, T) { return std::fabs(a); } };
// min and max give the number if one operand is not one, and order -0 before +0.
struct Min {
  template <class T> static T f(T a, T b, T) {
    T r = a < b || (a == b && std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : r;
  }
};
struct Max {
  template <class T> static T f(T a, T b, T) {
    T r = a > b || (a == b && !std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : r;
  }
};
// With .NaN, min and max give no number if one operand is not one.
struct MinNan { template <class T> static T f(T a, T b, T c) { return a != a || b != b ? a + b : Min::f(a, b, c); } };
struct MaxNan { template <class T> static T f(T a, T b, T c) { return a != a || b != b ? a + b : Max::f(a, b, c); } };
struct CopySign { template <class T> static T f(T a, T b, T) { return std::copysign(b, a); } };
struct Rsqrt { template <class T> static T f(T a, T, T) { return T(1 / std::sqrt(double(a))); } };
struct Exp2 { template <class T> static T f(T a, T, T) { return std::exp2(a); } };
struct Log2 { template <class T> static T f(T a, T, T) { return std::log2(a); } };
struct Sin { template <class T> static T f(T a, T, T) { return std::sin(a); } };
struct Cos { template <class T> static T f(T a, T, T) { return std::cos(a); } };
struct Tanh { template <class T> static T f(T a, T, T) { return std::tanh(a); } };

// directed rounds as the mode says. The operands are volatile: the compiler does not know that fesetround changes arithmetic.
template <class Op, class T> __attribute__((noinline)) T directed(Round r, T a, T b, T c) {
  volatile T x = a, y = b, z = c;
  std::fesetround(r == Round::Zero ? FE_TOWARDZERO : r == Round::Down ? FE_DOWNWARD : FE_UPWARD);
  volatile T v = Op::template f<T>(x, y, z);
  std::fesetround(FE_TONEAREST);
  return v;
}

// perturb moves an approximate result by up to Options::approxUlp units in the last place.
template <class T> T perturb(Warp &w, T v) {
  int u = approxUlp(w);
  if (!u || !std::isfinite(v) || v == 0) return v;
  int k = int(random(w) % uint32_t(2 * u + 1)) - u;
  for (; k > 0; k--) v = std::nextafter(v, T(INFINITY));
  for (; k < 0; k++) v = std::nextafter(v, T(-INFINITY));
  return v;
}

template <class T> T operandOr(const T *p, uint32_t l) { return p ? p[l] : T(0); }

// arithmetic is the fast form: to nearest, subnormals kept. COUNT operands.
template <class Op, class T, int COUNT> void arithmetic(Warp &w, const Instr &i, uint32_t m) {
  T *d = to<T>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]), *b = COUNT > 1 ? at<T>(w, i.in[1]) : a, *c = COUNT > 2 ? at<T>(w, i.in[2]) : a;
  lanes(m, [=](uint32_t l) { d[l] = canonical(Op::template f<T>(a[l], b[l], c[l])); });
}

template <class Op, class T, int COUNT> void arithmeticInMode(Warp &w, const Instr &i, uint32_t m) {
  T *d = to<T>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]), *b = COUNT > 1 ? at<T>(w, i.in[1]) : a, *c = COUNT > 2 ? at<T>(w, i.in[2]) : a;
  bool away = i.round == Round::Zero || i.round == Round::Down || i.round == Round::Up;
  lanes(m, [&](uint32_t l) {
    T x = a[l], y = b[l], z = c[l];
    if (i.ftz) x = flush(x), y = flush(y), z = flush(z);
    T r = away ? directed<Op, T>(i.round, x, y, z) : Op::template f<T>(x, y, z);
    if (i.ftz) r = flush(r);
    if (i.sat) r = saturate(r);
    if (i.round == Round::Approx) r = perturb(w, r);
    d[l] = canonical(r);
  });
}

// signOnly is neg and abs: they keep what is not a number.
template <class Op, class T> void signOnly(Warp &w, const Instr &i, uint32_t m) {
  T *d = to<T>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]);
  bool ftz = i.ftz;
  lanes(m, [=](uint32_t l) {
    T r = Op::template f<T>(a[l], a[l], a[l]);
    d[l] = ftz ? flush(r) : r;
  });
}

// halves computes in double, where the product and nearly every sum of halves is exact, and rounds once.
template <class Op> void halves(Warp &w, const Instr &i, uint32_t m) {
  bool bf = i.type == Type::BF16 || i.type == Type::BF16x2;
  bool pair = i.type == Type::F16x2 || i.type == Type::BF16x2;
  auto open = [=](uint64_t v) { return double(bf ? bfloatToFloat(uint16_t(v)) : halfToFloat(uint16_t(v))); };
  lanes(m, [&](uint32_t l) {
    uint64_t v[3] = {0, 0, 0}, r = 0;
    for (uint32_t k = 0; k < i.ins; k++) v[k] = get(w, i.in[k], l);
    for (int s = 0; s <= (pair ? 16 : 0); s += 16) {
      double x = Op::template f<double>(open(v[0] >> s), open(v[1] >> s), open(v[2] >> s));
      if (i.sat) x = saturate(x);
      r |= uint64_t(bf ? floatToBfloat(x) : floatToHalf(x)) << s;
    }
    put(w, i.out[0], l, r);
  });
}

template <class Op, int COUNT> Execute pick(const Instr &i) {
  constexpr bool sign = std::is_same_v<Op, Neg> || std::is_same_v<Op, Abs>;
  bool plain = !i.ftz && !i.sat && (i.round == Round::None || i.round == Round::Nearest);
  switch (i.type) {
    case Type::F32:
      if constexpr (sign) return signOnly<Op, float>;
      else return plain ? arithmetic<Op, float, COUNT> : arithmeticInMode<Op, float, COUNT>;
    case Type::F64:
      if (i.sat) throw Unknown{".sat of f64"};
      if constexpr (sign) return signOnly<Op, double>;
      else return plain ? arithmetic<Op, double, COUNT> : arithmeticInMode<Op, double, COUNT>;
    case Type::F16: case Type::BF16: case Type::F16x2: case Type::BF16x2:
      if (i.round != Round::None && i.round != Round::Nearest && i.round != Round::Approx) throw Unknown{"rounding of halves"};
      if (i.ftz) throw Unknown{".ftz of halves"};
      return halves<Op>;
    default: throw Unknown{"not for this type"};
  }
}

}  // namespace

void decodeFloat(Decoder &d) {
  const std::string &op = d.op;
  Instr &i = d.i;
  i.round = d.takeRound();
  if (op == "div" && d.take("full")) i.round = Round::Approx;
  i.ftz = d.take("ftz");
  i.sat = d.take("sat");
  bool nan = (op == "min" || op == "max") && d.take("NaN");
  Type t = i.type = d.takeType();
  d.out(0, t);
  for (size_t k = 1; k < d.operands(); k++) d.in(k, t);
  static const std::map<std::string, int> counts = {{"add", 2}, {"sub", 2}, {"mul", 2}, {"div", 2}, {"min", 2}, {"max", 2}, {"copysign", 2}, {"fma", 3}, {"mad", 3}};
  auto want = counts.find(op);
  if (i.ins != (want == counts.end() ? 1 : want->second)) throw Unknown{"wrong number of operands"};
  bool approx = i.round == Round::Approx;
  bool mustApprox = op == "rsqrt" || op == "ex2" || op == "lg2" || op == "sin" || op == "cos" || op == "tanh";
  bool mayApprox = mustApprox || op == "div" || op == "rcp" || op == "sqrt";
  if (approx != mustApprox && !(approx && mayApprox)) throw Unknown{"rounding"};
  bool mustRound = op == "fma" || op == "mad" || op == "div" || op == "rcp" || op == "sqrt";
  if (mustRound && i.round == Round::None) throw Unknown{"a rounding is missing"};
  if (approx && t == Type::F64 && op != "rsqrt" && op != "rcp") throw Unknown{".approx of f64"};
  if (op == "add") return d.emit(pick<Add, 2>(i));
  if (op == "sub") return d.emit(pick<Sub, 2>(i));
  if (op == "mul") return d.emit(pick<Mul, 2>(i));
  if (op == "div") return d.emit(pick<Div, 2>(i));
  if (op == "fma" || op == "mad") return d.emit(pick<Fma, 3>(i));
  if (nan && t == Type::F64) throw Unknown{".NaN of f64"};
  if (op == "min") return d.emit(nan ? pick<MinNan, 2>(i) : pick<Min, 2>(i));
  if (op == "max") return d.emit(nan ? pick<MaxNan, 2>(i) : pick<Max, 2>(i));
  if (op == "copysign") return d.emit(pick<CopySign, 2>(i));
  if (op == "neg") return d.emit(pick<Neg, 1>(i));
  if (op == "abs") return d.emit(pick<Abs, 1>(i));
  if (op == "rcp") return d.emit(pick<Rcp, 1>(i));
  if (op == "sqrt") return d.emit(pick<Sqrt, 1>(i));
  if (op == "rsqrt") return d.emit(pick<Rsqrt, 1>(i));
  if (op == "ex2") return d.emit(pick<Exp2, 1>(i));
  if (op == "lg2") return d.emit(pick<Log2, 1>(i));
  if (op == "sin") return d.emit(pick<Sin, 1>(i));
  if (op == "cos") return d.emit(pick<Cos, 1>(i));
  d.emit(pick<Tanh, 1>(i));
}

void decodeArithmetic(Decoder &d) { isFloat(d.peekType()) ? decodeFloat(d) : decodeInteger(d); }

}  // namespace ptx
