//go:build ignore

// cvt: between integers, floats and both, with rounding and saturation.
#include <cfenv>
#include <cmath>

#include "ptx_code.hpp"

namespace ptx {

namespace {

constexpr uint8_t kIntegral = 1;  // mode: .rni, .rzi, .rmi, .rpi

int64_t extend(uint64_t v, uint32_t bytes) { return bytes == 8 ? int64_t(v) : int64_t(v << (64 - 8 * bytes)) >> (64 - 8 * bytes); }
uint64_t low(uint64_t v, uint32_t bytes) { return bytes == 8 ? v : v & ((1ull << (8 * bytes)) - 1); }

double integral(double v, Round r) {
  switch (r) {
    case Round::Zero: return std::trunc(v);
    case Round::Down: return std::floor(v);
    case Round::Up: return std::ceil(v);
    default: return std::nearbyint(v);
  }
}

template <class To, class From> __attribute__((noinline)) To inMode(From v, Round r) {
  volatile From x = v;
  std::fesetround(r == Round::Zero ? FE_TOWARDZERO : r == Round::Down ? FE_DOWNWARD : r == Round::Up ? FE_UPWARD : FE_TONEAREST);
  volatile To y = To(x);
  std::fesetround(FE_TONEAREST);
  return y;
}

double toDouble(uint64_t v, Type t, bool ftz) {
  switch (t) {
    case Type::F64: return bits<double>(v);
    case Type::F16: return halfToFloat(uint16_t(v));
    case Type::BF16: return bfloatToFloat(uint16_t(v));
    default: {
      float f = bits<float>(uint32_t(v));
      return ftz && std::fabs(f) < 0x1p-126f ? std::copysign(0.0, double(f)) : f;
    }
  }
}

uint64_t fromDouble(double x, const Instr &i) {
  switch (i.type) {
    case Type::F64: return bits<uint64_t>(x);
    case Type::F16: return floatToHalf(x, i.round);
    case Type::BF16: return floatToBfloat(x, i.round);
    case Type::TF32: return bits<uint32_t>(float(roundTo(x, 11, -126, i.round)));
    default: {
      float f = i.mode == kIntegral ? float(x) : inMode<float, double>(x, i.round);
      if (i.ftz && std::fabs(f) < 0x1p-126f) f = std::copysign(0.0f, f);
      return f == f ? bits<uint32_t>(f) : 0x7fffffffu;
    }
  }
}

// toInteger saturates, as the hardware does with and without .sat. What is not a number gives 0, but 2^63 for 64 bits.
uint64_t toInteger(double x, Type t, Round r) {
  int width = int(8 * bytesOf(t));
  if (x != x) return width == 64 ? 1ull << 63 : 0;
  x = integral(x, r);
  if (isSigned(t)) {
    double top = std::ldexp(1.0, width - 1);
    if (x < -top) return 0 - (1ull << (width - 1));
    return x >= top ? (1ull << (width - 1)) - 1 : uint64_t(int64_t(x));
  }
  if (x <= 0) return 0;
  return x >= std::ldexp(1.0, width) ? (width == 64 ? ~0ull : (1ull << width) - 1) : uint64_t(x);
}

uint64_t fromInteger(uint64_t v, const Instr &i) {
  bool sign = isSigned(i.from);
  if (i.type == Type::F32) return bits<uint32_t>(sign ? inMode<float, int64_t>(int64_t(v), i.round) : inMode<float, uint64_t>(v, i.round));
  double x = sign ? inMode<double, int64_t>(int64_t(v), i.round) : inMode<double, uint64_t>(v, i.round);
  return fromDouble(x, i);
}

uint64_t clampInteger(uint64_t v, Type to, bool sign) {
  __int128 x = sign ? __int128(int64_t(v)) : __int128(v), one = 1;
  int width = int(8 * bytesOf(to));
  __int128 least = isSigned(to) ? -(one << (width - 1)) : 0, most = isSigned(to) ? (one << (width - 1)) - 1 : (one << width) - 1;
  return uint64_t(x < least ? least : x > most ? most : x);
}

void convert(Warp &w, const Instr &i, uint32_t m) {
  uint32_t from = bytesOf(i.from), bytes = bytesOf(i.type);
  lanes(m, [&](uint32_t l) {
    uint64_t v = low(get(w, i.in[0], l), from);
    if (isFloat(i.from)) {
      double x = toDouble(v, i.from, i.ftz);
      if (!isFloat(i.type)) {
        v = toInteger(x, i.type, i.round);
      } else {
        if (i.mode == kIntegral) x = integral(x, i.round);
        if (i.sat) x = x > 0 ? std::fmin(x, 1) : 0;
        v = fromDouble(x, i);
      }
    } else {
      if (isSigned(i.from)) v = uint64_t(extend(v, from));
      if (isFloat(i.type)) v = fromInteger(v, i);
      else if (i.sat) v = clampInteger(v, i.type, isSigned(i.from));
    }
    // A register wider than the type holds the extended value.
    put(w, i.out[0], l, isSigned(i.type) ? uint64_t(extend(v, bytes)) : low(v, bytes));
  });
}

// Fast forms of what elementwise kernels are full of.
template <class To, class From> void cast(Warp &w, const Instr &i, uint32_t m) {
  To *d = to<To>(w, i.out[0]);
  const From *a = at<From>(w, i.in[0]);
  lanes(m, [=](uint32_t l) { d[l] = To(a[l]); });
}

void pairOfHalves(Warp &w, const Instr &i, uint32_t m) {
  bool bf = i.type == Type::BF16x2;
  lanes(m, [&](uint32_t l) {
    float high = at<float>(w, i.in[0])[l], lower = at<float>(w, i.in[1])[l];
    uint32_t h = bf ? floatToBfloat(high, i.round) : floatToHalf(high, i.round), o = bf ? floatToBfloat(lower, i.round) : floatToHalf(lower, i.round);
    put(w, i.out[0], l, h << 16 | o);
  });
}

Execute fast(const Instr &i) {
  if (i.sat || i.ftz) return nullptr;
  auto is = [&](Type to, Type from) { return i.type == to && i.from == from && i.out[0].bytes == std::max(2u, bytesOf(to)) && i.in[0].bytes == std::max(2u, bytesOf(from)); };
  if (is(Type::S64, Type::S32)) return cast<int64_t, int32_t>;
  if (is(Type::U64, Type::U32) || is(Type::S64, Type::U32)) return cast<uint64_t, uint32_t>;
  if (is(Type::U32, Type::U64) || is(Type::S32, Type::S64) || is(Type::U32, Type::S64)) return cast<uint32_t, uint64_t>;
  if (is(Type::U32, Type::U16)) return cast<uint32_t, uint16_t>;
  if (is(Type::U16, Type::U32)) return cast<uint16_t, uint32_t>;
  if (i.round == Round::Nearest && i.mode == 0 && is(Type::F32, Type::S32)) return cast<float, int32_t>;
  if (i.round == Round::Nearest && i.mode == 0 && is(Type::F32, Type::U32)) return cast<float, uint32_t>;
  if (is(Type::F64, Type::F32)) return cast<double, float>;
  if (i.round == Round::Nearest && i.mode == 0 && is(Type::F32, Type::F64)) return cast<float, double>;
  return nullptr;
}

}  // namespace

void decodeConvert(Decoder &d) {
  Instr &i = d.i;
  switch (d.choose({"rni", "rzi", "rmi", "rpi", "rna"})) {
    case 0: i.round = Round::Nearest; i.mode = kIntegral; break;
    case 1: i.round = Round::Zero; i.mode = kIntegral; break;
    case 2: i.round = Round::Down; i.mode = kIntegral; break;
    case 3: i.round = Round::Up; i.mode = kIntegral; break;
    case 4: i.round = Round::Away; break;
    default: i.round = d.takeRound();
  }
  i.ftz = d.take("ftz");
  i.sat = d.take("sat");
  i.type = d.takeType();
  i.from = d.takeType();
  bool pair = i.type == Type::F16x2 || i.type == Type::BF16x2;
  bool toFloat = isFloat(i.type), fromFloat = isFloat(i.from);
  if (i.type == Type::Pred || i.from == Type::Pred || i.from == Type::TF32 || i.from == Type::F16x2 || i.from == Type::BF16x2) throw Unknown{"not for this type"};
  if ((i.type == Type::TF32) != (i.round == Round::Away) || (i.type == Type::TF32 && i.from != Type::F32)) throw Unknown{"only cvt.rna.tf32.f32"};
  if (i.round == Round::Approx || (fromFloat && !toFloat && i.mode != kIntegral)) throw Unknown{"an integer rounding is missing"};
  if (toFloat && !fromFloat && (i.round == Round::None || i.mode)) throw Unknown{"a rounding is missing"};
  if (toFloat && fromFloat && bytesOf(i.type) < bytesOf(i.from) && i.round == Round::None) throw Unknown{"a rounding is missing"};
  if (!toFloat && !fromFloat && i.round != Round::None) throw Unknown{"a rounding between integers"};
  if (pair) {
    if (i.from != Type::F32 || i.sat || i.mode) throw Unknown{"pairs are made of f32"};
    d.out(0, Type::B32);
    d.in(1, Type::F32);
    d.in(2, Type::F32);
    return d.emit(pairOfHalves);
  }
  d.out(0, i.type, true);
  d.in(1, i.from, true);
  if (d.operands() != 2) throw Unknown{"wrong number of operands"};
  Execute e = fast(i);
  d.emit(e ? e : convert);
}

}  // namespace ptx
