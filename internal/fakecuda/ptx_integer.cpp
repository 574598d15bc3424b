//go:build ignore

// Integers, bits, comparisons, selections and moves.
#include <algorithm>

#include "ptx_code.hpp"

namespace ptx {

namespace {

// pick returns F<T>::run for the integer type t, or null.
template <template <class> class F> Execute pick(Type t) {
  switch (t) {
    case Type::B16: case Type::U16: return F<uint16_t>::run;
    case Type::S16: return F<int16_t>::run;
    case Type::B32: case Type::U32: return F<uint32_t>::run;
    case Type::S32: return F<int32_t>::run;
    case Type::B64: case Type::U64: return F<uint64_t>::run;
    case Type::S64: return F<int64_t>::run;
    default: throw Unknown{"not for this type"};
  }
}

// Unsigned arithmetic, so that overflow wraps.
template <class T> using Bits = std::make_unsigned_t<T>;
template <class T> using Twice = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
        std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

struct AddOp { template <class T> static T f(T a, T b) { return T(Bits<T>(a) + Bits<T>(b)); } };
struct SubOp { template <class T> static T f(T a, T b) { return T(Bits<T>(a) - Bits<T>(b)); } };
struct MulOp { template <class T> static T f(T a, T b) { return T(uint64_t(a) * uint64_t(b)); } };
struct MulHighOp { template <class T> static T f(T a, T b) { return T((Twice<T>(a) * Twice<T>(b)) >> (8 * sizeof(T))); } };
struct MinOp { template <class T> static T f(T a, T b) { return a < b ? a : b; } };
struct MaxOp { template <class T> static T f(T a, T b) { return a > b ? a : b; } };
struct AndOp { template <class T> static T f(T a, T b) { return a & b; } };
struct OrOp { template <class T> static T f(T a, T b) { return a | b; } };
struct XorOp { template <class T> static T f(T a, T b) { return a ^ b; } };
// A divisor of zero gives all ones, and the dividend as remainder, as the hardware's sequence does.
struct DivOp {
  template <class T> static T f(T a, T b) {
    if (b == 0) return T(~T(0));
    if (std::is_signed_v<T> && b == T(-1)) return T(Bits<T>(0) - Bits<T>(a));
    return a / b;
  }
};
struct RemOp {
  template <class T> static T f(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return a % b;
  }
};

template <class Op> struct Binary {
  template <class T> struct Of {
    static void run(Warp &w, const Instr &i, uint32_t m) {
      T *d = to<T>(w, i.out[0]);
      const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]);
      lanes(m, [=](uint32_t l) { d[l] = Op::template f<T>(a[l], b[l]); });
    }
  };
};

template <class Op> struct MulAdd {
  template <class T> struct Of {
    static void run(Warp &w, const Instr &i, uint32_t m) {
      T *d = to<T>(w, i.out[0]);
      const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]), *c = at<T>(w, i.in[2]);
      lanes(m, [=](uint32_t l) { d[l] = AddOp::f<T>(Op::template f<T>(a[l], b[l]), c[l]); });
    }
  };
};

template <class T, bool ADD> void wide(Warp &w, const Instr &i, uint32_t m) {
  using W = Twice<T>;
  W *d = to<W>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]);
  const W *c = ADD ? at<W>(w, i.in[2]) : nullptr;
  lanes(m, [=](uint32_t l) {
    W p = W(a[l]) * W(b[l]);
    if constexpr (ADD) p = AddOp::f<W>(p, c[l]);
    d[l] = p;
  });
}

template <bool ADD> Execute pickWide(Type t) {
  switch (t) {
    case Type::U16: return wide<uint16_t, ADD>;
    case Type::S16: return wide<int16_t, ADD>;
    case Type::U32: return wide<uint32_t, ADD>;
    case Type::S32: return wide<int32_t, ADD>;
    default: throw Unknown{"not for this type"};
  }
}

template <class T> struct Negate {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]);
    lanes(m, [=](uint32_t l) { d[l] = SubOp::f<T>(0, a[l]); });
  }
};
template <class T> struct Absolute {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]);
    lanes(m, [=](uint32_t l) { d[l] = std::is_signed_v<T> && a[l] < 0 ? SubOp::f<T>(0, a[l]) : a[l]; });
  }
};
template <class T> struct Not {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]);
    lanes(m, [=](uint32_t l) { d[l] = T(~a[l]); });
  }
};

// A sum or difference of numbers in pieces. Each lane has one carry, or borrow; mode bit 0: subtract, bit 1: read it, bit 2: write it.
template <class T> struct Carry {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    using U = Bits<T>;
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]);
    lanes(m, [&](uint32_t l) {
      U in = i.mode & 2 ? U(w.carry >> l & 1) : U(0), x = U(a[l]), y = U(b[l]);
      bool over = i.mode & 1 ? x < y || U(x - y) < in : U(x + y) < x || U(U(x + y) + in) < in;
      d[l] = T(i.mode & 1 ? x - y - in : x + y + in);
      if (i.mode & 4) w.carry = (w.carry & ~(1u << l)) | uint32_t(over) << l;
    });
  }
};

// Shifts by the width or more give zero, or the sign.
template <class T> struct ShiftLeft {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]);
    const uint32_t *n = at<uint32_t>(w, i.in[1]);
    lanes(m, [=](uint32_t l) { d[l] = n[l] >= 8 * sizeof(T) ? T(0) : T(Bits<T>(a[l]) << n[l]); });
  }
};
template <class T> struct ShiftRight {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    T *d = to<T>(w, i.out[0]);
    const T *a = at<T>(w, i.in[0]);
    const uint32_t *n = at<uint32_t>(w, i.in[1]);
    lanes(m, [=](uint32_t l) { d[l] = T(a[l] >> (n[l] < 8 * sizeof(T) ? n[l] : 8 * sizeof(T) - 1)) & T(n[l] < 8 * sizeof(T) || std::is_signed_v<T> ? ~T(0) : T(0)); });
  }
};

// Counts of bits have a 32-bit result whatever the type; mode says which.
enum : uint8_t { kPopulation, kLeadingZeros, kHighest, kReverse };
template <class T> struct Count {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    const T *a = at<T>(w, i.in[0]);
    constexpr int width = 8 * sizeof(T);
    lanes(m, [&](uint32_t l) {
      uint64_t v = Bits<T>(a[l]), r = 0;
      switch (i.mode) {
        case kPopulation: r = uint64_t(__builtin_popcountll(v)); break;
        case kLeadingZeros: r = v ? uint64_t(__builtin_clzll(v) - (64 - width)) : uint64_t(width); break;
        case kHighest:
          if (std::is_signed_v<T> && a[l] < 0) v = Bits<T>(~a[l]);
          r = v ? uint64_t(63 - __builtin_clzll(v)) : 0xffffffffu;
          break;
        default: for (int q = 0; q < width; q++) r |= ((v >> q) & 1) << (width - 1 - q);
      }
      put(w, i.out[0], l, r);
    });
  }
};

void dotOfBytes(Warp &w, const Instr &i, uint32_t m) {
  lanes(m, [&](uint32_t l) {
    uint32_t a = at<uint32_t>(w, i.in[0])[l], b = at<uint32_t>(w, i.in[1])[l], r = at<uint32_t>(w, i.in[2])[l];
    for (int q = 0; q < 32; q += 8) {
      int x = i.type == Type::S32 ? int8_t(a >> q) : uint8_t(a >> q), y = i.from == Type::S32 ? int8_t(b >> q) : uint8_t(b >> q);
      r += uint32_t(x * y);
    }
    to<uint32_t>(w, i.out[0])[l] = r;
  });
}

}  // namespace

void decodeInteger(Decoder &d) {
  const std::string &op = d.op;
  if (op == "dp4a") {
    d.i.type = d.takeType();
    d.i.from = d.takeType();
    d.out(0, Type::B32);
    for (size_t k = 1; k < 4; k++) d.in(k, Type::B32);
    return d.emit(dotOfBytes);
  }
  bool sum = op == "add" || op == "addc", difference = op == "sub" || op == "subc";
  bool reads = op == "addc" || op == "subc", writes = (sum || difference) && d.take("cc");
  if (reads || writes) {
    Type t = d.i.type = d.takeType();
    if (bytesOf(t) < 4) throw Unknown{"not for this type"};
    d.i.mode = uint8_t(difference | reads << 1 | writes << 2);
    d.out(0, t);
    d.in(1, t);
    d.in(2, t);
    return d.emit(pick<Carry>(t));
  }
  int part = d.choose({"wide", "lo", "hi"});
  Type t = d.i.type = d.takeType();
  if (op == "popc" || op == "clz" || op == "bfind" || op == "brev") {
    d.i.mode = op == "popc" ? kPopulation : op == "clz" ? kLeadingZeros : op == "bfind" ? kHighest : kReverse;
    d.out(0, op == "brev" ? t : Type::B32);
    d.in(1, t);
    return d.emit(pick<Count>(t));
  }
  if (part == 0) {
    Type w = bytesOf(t) == 2 ? Type::B32 : Type::B64;
    d.out(0, w);
    d.in(1, t);
    d.in(2, t);
    if (op == "mad") d.in(3, w);
    if (op != "mad" && op != "mul") throw Unknown{".wide"};
    return d.emit(op == "mad" ? pickWide<true>(t) : pickWide<false>(t));
  }
  if ((part > 0) != (op == "mul" || op == "mad")) throw Unknown{".lo, .hi or .wide is missing or too much"};
  d.out(0, t);
  d.in(1, t);
  if (op == "neg") return d.emit(pick<Negate>(t));
  if (op == "abs") return d.emit(pick<Absolute>(t));
  d.in(2, t);
  if (op == "add") return d.emit(pick<Binary<AddOp>::Of>(t));
  if (op == "sub") return d.emit(pick<Binary<SubOp>::Of>(t));
  if (op == "div") return d.emit(pick<Binary<DivOp>::Of>(t));
  if (op == "rem") return d.emit(pick<Binary<RemOp>::Of>(t));
  if (op == "min") return d.emit(pick<Binary<MinOp>::Of>(t));
  if (op == "max") return d.emit(pick<Binary<MaxOp>::Of>(t));
  if (op == "mul") return d.emit(part == 1 ? pick<Binary<MulOp>::Of>(t) : pick<Binary<MulHighOp>::Of>(t));
  d.in(3, t);
  d.emit(part == 1 ? pick<MulAdd<MulOp>::Of>(t) : pick<MulAdd<MulHighOp>::Of>(t));
}

// ---- bits

namespace {

void predicates(Warp &w, const Instr &i, uint32_t m) {
  uint32_t a = predicate(w, i.in[0]), b = i.ins > 1 ? predicate(w, i.in[1]) : 0;
  uint32_t r = i.mode == 0 ? a & b : i.mode == 1 ? a | b : i.mode == 2 ? a ^ b : i.mode == 3 ? ~a : a;
  setPredicate(w, i.out[0], r, m);
}

// funnel shifts the pair (b, a); mode bit 0: right, bit 1: clamp.
void funnel(Warp &w, const Instr &i, uint32_t m) {
  uint32_t *d = to<uint32_t>(w, i.out[0]);
  const uint32_t *a = at<uint32_t>(w, i.in[0]), *b = at<uint32_t>(w, i.in[1]), *n = at<uint32_t>(w, i.in[2]);
  bool right = i.mode & 1, clamp = i.mode & 2;
  lanes(m, [=](uint32_t l) {
    uint64_t v = uint64_t(b[l]) << 32 | a[l];
    uint32_t c = clamp ? std::min(n[l], 32u) : n[l] & 31;
    d[l] = right ? uint32_t(v >> c) : uint32_t(v << c >> 32);
  });
}

void lookup(Warp &w, const Instr &i, uint32_t m) {
  uint32_t *d = to<uint32_t>(w, i.out[0]);
  const uint32_t *a = at<uint32_t>(w, i.in[0]), *b = at<uint32_t>(w, i.in[1]), *c = at<uint32_t>(w, i.in[2]);
  uint32_t table = i.mode;
  lanes(m, [=](uint32_t l) {
    uint32_t r = 0;
    for (uint32_t q = 0; q < 8; q++)
      if (table >> q & 1) r |= (q & 4 ? a[l] : ~a[l]) & (q & 2 ? b[l] : ~b[l]) & (q & 1 ? c[l] : ~c[l]);
    d[l] = r;
  });
}

void permute(Warp &w, const Instr &i, uint32_t m) {
  uint32_t *d = to<uint32_t>(w, i.out[0]);
  const uint32_t *a = at<uint32_t>(w, i.in[0]), *b = at<uint32_t>(w, i.in[1]), *c = at<uint32_t>(w, i.in[2]);
  lanes(m, [=](uint32_t l) {
    uint64_t v = uint64_t(b[l]) << 32 | a[l];
    uint32_t r = 0;
    for (uint32_t q = 0; q < 4; q++) {
      uint32_t choice = c[l] >> (4 * q) & 15, byte = uint32_t(v >> (8 * (choice & 7))) & 255;
      if (choice & 8) byte = byte & 128 ? 255 : 0;  // the sign of the byte, eight times
      r |= byte << (8 * q);
    }
    d[l] = r;
  });
}

template <class T> struct Extract {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    constexpr uint32_t width = 8 * sizeof(T);
    lanes(m, [&](uint32_t l) {
      T a = at<T>(w, i.in[0])[l];
      uint32_t p = at<uint32_t>(w, i.in[1])[l] & 255, n = at<uint32_t>(w, i.in[2])[l] & 255;
      uint64_t r = 0, fill = std::is_signed_v<T> && n ? uint64_t(a >> std::min(p + n - 1, width - 1)) & 1 : 0;
      for (uint32_t q = 0; q < width; q++) r |= (q < n && p + q < width ? uint64_t(a >> (p + q)) & 1 : fill) << q;
      to<T>(w, i.out[0])[l] = T(r);
    });
  }
};
template <class T> struct Insert {
  static void run(Warp &w, const Instr &i, uint32_t m) {
    constexpr uint32_t width = 8 * sizeof(T);
    lanes(m, [&](uint32_t l) {
      uint64_t a = Bits<T>(at<T>(w, i.in[0])[l]), r = Bits<T>(at<T>(w, i.in[1])[l]);
      uint32_t p = at<uint32_t>(w, i.in[2])[l] & 255, n = at<uint32_t>(w, i.in[3])[l] & 255;
      for (uint32_t q = 0; q < n && p + q < width; q++) r = (r & ~(1ull << (p + q))) | (a >> q & 1) << (p + q);
      to<T>(w, i.out[0])[l] = T(r);
    });
  }
};

}  // namespace

void decodeBits(Decoder &d) {
  const std::string &op = d.op;
  if (op == "shf") {
    int side = d.choose({"l", "r"}), over = d.choose({"wrap", "clamp"});
    if (side < 0 || over < 0) throw Unknown{"side or overflow is missing"};
    d.i.mode = uint8_t(side | over << 1);
  }
  Type t = d.i.type = op == "prmt" ? (d.takeType(), Type::B32) : d.takeType();
  d.out(0, t);
  if (op == "lop3") {
    for (size_t k = 1; k < 4; k++) d.in(k, t);
    d.i.mode = uint8_t(number(d.i.line, d.arg(4), Type::U32));
    return d.emit(lookup);
  }
  if (op == "bfe" || op == "bfi") {
    d.in(1, t);
    if (op == "bfi") d.in(2, t);
    size_t k = op == "bfi" ? 3 : 2;
    d.in(k, Type::U32);
    d.in(k + 1, Type::U32);
    return d.emit(op == "bfe" ? pick<Extract>(t) : pick<Insert>(t));
  }
  if (op == "shl" || op == "shr") {
    d.in(1, t);
    d.in(2, Type::U32);
    return d.emit(op == "shl" ? pick<ShiftLeft>(t) : pick<ShiftRight>(t));
  }
  for (size_t k = 1; k < d.operands(); k++) d.in(k, t);
  size_t want = op == "not" ? 1 : op == "shf" || op == "prmt" ? 3 : 2;
  if (d.i.ins != want) throw Unknown{"wrong number of operands"};
  if (op == "shf") return d.emit(funnel);
  if (op == "prmt") return d.emit(permute);
  if (t == Type::Pred) {
    d.i.mode = op == "and" ? 0 : op == "or" ? 1 : op == "xor" ? 2 : 3;
    return d.emit(predicates);
  }
  if (op == "not") return d.emit(pick<Not>(t));
  d.emit(op == "and" ? pick<Binary<AndOp>::Of>(t) : op == "or" ? pick<Binary<OrOp>::Of>(t) : pick<Binary<XorOp>::Of>(t));
}

// ---- comparisons

namespace {

struct Eq { template <class T> static bool f(T a, T b) { return a == b; } };
struct Ne { template <class T> static bool f(T a, T b) { return a < b || a > b; } };  // false if one is not a number
struct Lt { template <class T> static bool f(T a, T b) { return a < b; } };
struct Le { template <class T> static bool f(T a, T b) { return a <= b; } };
struct Gt { template <class T> static bool f(T a, T b) { return a > b; } };
struct Ge { template <class T> static bool f(T a, T b) { return a >= b; } };
struct Equ { template <class T> static bool f(T a, T b) { return !Ne::f(a, b); } };
struct Neu { template <class T> static bool f(T a, T b) { return a != b; } };
struct Ltu { template <class T> static bool f(T a, T b) { return !(a >= b); } };
struct Leu { template <class T> static bool f(T a, T b) { return !(a > b); } };
struct Gtu { template <class T> static bool f(T a, T b) { return !(a <= b); } };
struct Geu { template <class T> static bool f(T a, T b) { return !(a < b); } };
struct Num { template <class T> static bool f(T a, T b) { return a == a && b == b; } };
struct Nan { template <class T> static bool f(T a, T b) { return a != a || b != b; } };

void combine(Warp &w, const Instr &i, uint32_t m, uint32_t r) {
  uint32_t other = ~r;
  if (i.ins > 2) {
    uint32_t p = predicate(w, i.in[2]);
    r = i.mode == 0 ? r & p : i.mode == 1 ? r | p : r ^ p;
    other = i.mode == 0 ? other & p : i.mode == 1 ? other | p : other ^ p;
  }
  setPredicate(w, i.out[0], r, m);
  if (i.outs > 1) setPredicate(w, i.out[1], other, m);
}

template <class C, class T> void compare(Warp &w, const Instr &i, uint32_t m) {
  const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]);
  uint32_t r = 0;
  for (int l = 0; l < 32; l++) r |= C::template f<T>(a[l], b[l]) ? laneBits.bit[l] : 0;
  combine(w, i, m, r);
}

template <class C> void compareHalf(Warp &w, const Instr &i, uint32_t m) {
  const uint16_t *a = at<uint16_t>(w, i.in[0]), *b = at<uint16_t>(w, i.in[1]);
  auto f = i.type == Type::BF16 ? bfloatToFloat : halfToFloat;
  uint32_t r = 0;
  for (int l = 0; l < 32; l++) r |= C::f(f(a[l]), f(b[l])) ? laneBits.bit[l] : 0;
  combine(w, i, m, r);
}

template <class C> Execute compareOf(Type t, bool unordered) {
  switch (t) {
    case Type::F16: case Type::BF16: return compareHalf<C>;
    case Type::F32: return compare<C, float>;
    case Type::F64: return compare<C, double>;
    default: break;
  }
  if (unordered) throw Unknown{"an unordered comparison of integers"};
  switch (t) {
    case Type::B16: case Type::U16: return compare<C, uint16_t>;
    case Type::S16: return compare<C, int16_t>;
    case Type::B32: case Type::U32: return compare<C, uint32_t>;
    case Type::S32: return compare<C, int32_t>;
    case Type::B64: case Type::U64: return compare<C, uint64_t>;
    case Type::S64: return compare<C, int64_t>;
    default: throw Unknown{"not for this type"};
  }
}

template <class T> void select(Warp &w, const Instr &i, uint32_t m) {
  T *d = to<T>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]), *b = at<T>(w, i.in[1]);
  uint32_t p = predicate(w, i.in[2]);
  lanes(m, [=](uint32_t l) { d[l] = p & laneBits.bit[l] ? a[l] : b[l]; });
}

}  // namespace

void decodeCompare(Decoder &d) {
  if (d.op == "selp") {
    Type t = d.takeType();
    d.out(0, t);
    d.in(1, t);
    d.in(2, t);
    d.in(3, Type::Pred);
    return d.emit(bytesOf(t) == 2 ? select<uint16_t> : bytesOf(t) == 4 ? select<uint32_t> : select<uint64_t>);
  }
  int c = d.choose({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", "lo", "ls", "hi", "hs"});
  int with = d.choose({"and", "or", "xor"});
  d.i.ftz = d.take("ftz");
  Type t = d.i.type = d.takeType();
  if (d.i.ftz) throw Unknown{".ftz of a comparison"};
  d.outPair(0, Type::Pred, Type::Pred);
  d.in(1, t);
  d.in(2, t);
  if (with >= 0) d.in(3, Type::Pred);
  d.i.mode = uint8_t(std::max(with, 0));
  switch (c) {
    case 0: return d.emit(compareOf<Eq>(t, false));
    case 1: return d.emit(compareOf<Ne>(t, false));
    case 2: case 14: return d.emit(compareOf<Lt>(t, false));
    case 3: case 15: return d.emit(compareOf<Le>(t, false));
    case 4: case 16: return d.emit(compareOf<Gt>(t, false));
    case 5: case 17: return d.emit(compareOf<Ge>(t, false));
    case 6: return d.emit(compareOf<Equ>(t, true));
    case 7: return d.emit(compareOf<Neu>(t, true));
    case 8: return d.emit(compareOf<Ltu>(t, true));
    case 9: return d.emit(compareOf<Leu>(t, true));
    case 10: return d.emit(compareOf<Gtu>(t, true));
    case 11: return d.emit(compareOf<Geu>(t, true));
    case 12: return d.emit(compareOf<Num>(t, true));
    case 13: return d.emit(compareOf<Nan>(t, true));
    default: throw Unknown{"a comparison is missing"};
  }
}

// ---- moves

namespace {

template <class T> void move(Warp &w, const Instr &i, uint32_t m) {
  T *d = to<T>(w, i.out[0]);
  const T *a = at<T>(w, i.in[0]);
  lanes(m, [=](uint32_t l) { d[l] = a[l]; });
}

void pack(Warp &w, const Instr &i, uint32_t m) {
  lanes(m, [&](uint32_t l) {
    uint64_t v = 0;
    for (uint32_t k = 0; k < i.ins; k++) v |= get(w, i.in[k], l) << (8 * bytesOf(i.type) / i.ins * k);
    put(w, i.out[0], l, v);
  });
}

void unpack(Warp &w, const Instr &i, uint32_t m) {
  lanes(m, [&](uint32_t l) {
    uint64_t v = get(w, i.in[0], l);
    for (uint32_t k = 0; k < i.outs; k++) put(w, i.out[k], l, v >> (8 * bytesOf(i.type) / i.outs * k));
  });
}

// window turns an address of a space into a generic one (mode 0) or back.
void window(Warp &w, const Instr &i, uint32_t m) {
  uint64_t bit = i.space == Space::Shared ? kSharedWindow : i.space == Space::Local ? kLocalWindow : 0;
  lanes(m, [&](uint32_t l) {
    uint64_t v = get(w, i.in[0], l);
    if (i.mode && ((v & (kSharedWindow | kLocalWindow)) != bit)) trap(w, i, l, kIllegalAddress, "cvta.to of an address of another space: " + hex(v));
    put(w, i.out[0], l, i.mode ? v & ~bit : v | bit);
  });
}

}  // namespace

void decodeMove(Decoder &d) {
  if (d.op == "cvta") {
    d.i.mode = d.take("to");
    int s = d.choose({"global", "shared", "local", "const"});
    d.i.space = s == 1 ? Space::Shared : s == 2 ? Space::Local : Space::Global;
    if (s < 0) throw Unknown{"a state space is missing"};
    Type t = d.takeType();
    if (t != Type::U64) throw Unknown{"addresses have 64 bits"};
    d.out(0, t);
    d.in(1, t);
    return d.emit(window);
  }
  Type t = d.i.type = d.takeType();
  Type half = bytesOf(t) == 8 ? Type::B32 : Type::B16;
  if (d.arg(0)[0] == '{' || d.arg(1)[0] == '{') {
    bool from = d.arg(1)[0] == '{';
    const std::string &g = d.arg(from ? 1 : 0);
    bool four = std::count(g.begin(), g.end(), ',') == 3;
    if (four && bytesOf(t) == 8) half = Type::B16;
    if (bytesOf(half) * (four ? 4 : 2) != bytesOf(t)) throw Unknown{"the parts do not fill the whole"};
    if (from) d.inGroup(1, half); else d.outGroup(0, half);
    if (from) d.out(0, t); else d.in(1, t);
    return d.emit(from ? pack : unpack);
  }
  d.out(0, t);
  d.in(1, t);
  d.i.mode = 4;
  if (t == Type::Pred) return d.emit(predicates);
  d.emit(bytesOf(t) == 2 ? move<uint16_t> : bytesOf(t) == 4 ? move<uint32_t> : move<uint64_t>);
}

}  // namespace ptx
