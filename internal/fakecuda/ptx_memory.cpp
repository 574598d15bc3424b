//go:build ignore

// Loads, stores, atomics and asynchronous copies. Every address is checked: inside an allocation, aligned to the access.
#include <algorithm>
#include <cmath>

#include "ptx_code.hpp"

namespace ptx {

namespace {

const char *verb(bool write) { return write ? "write" : "read"; }

// find returns the range that holds byte a, or null, and keeps it for the next access.
const Range *find(Warp &w, uint64_t a) {
  if (w.range && a >= w.range->lo && a < w.range->hi) return w.range;
  const std::vector<Range> &r = *w.block->ranges;
  auto above = std::upper_bound(r.begin(), r.end(), a, [](uint64_t v, const Range &x) { return v < x.lo; });
  if (above == r.begin() || a >= (above - 1)->hi) return nullptr;
  return w.range = &*(above - 1);
}

const Range &rangeOf(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes, bool write) {
  if (const Range *x = find(w, a); x && a + bytes <= x->hi) return *x;
  const std::vector<Range> &r = *w.block->ranges;
  auto above = std::upper_bound(r.begin(), r.end(), a, [](uint64_t v, const Range &x) { return v < x.lo; });
  std::string what = std::string("illegal ") + verb(write) + " of " + std::to_string(bytes) + " bytes at " + hex(a);
  auto size = [](const Range &x) { return std::to_string(x.hi - x.lo) + "-byte allocation at " + hex(x.lo); };
  bool below = above != r.begin(), over = above != r.end();
  if (below && (!over || a - (above - 1)->hi <= above->lo - a))
    what += ", " + std::to_string(a + bytes - (above - 1)->hi) + " bytes past the end of the " + size(*(above - 1));
  else if (over)
    what += ", " + std::to_string(above->lo - a) + " bytes before the " + size(*above);
  trap(w, i, lane, kIllegalAddress, what);
}

void aligned(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes, const char *where) {
  if (a & (bytes - 1)) trap(w, i, lane, kMisalignedAddress, "access of " + std::to_string(bytes) + " bytes at misaligned " + where + " address " + hex(a));
}

void mark(Warp &w, const Range &r, uint64_t lo, uint64_t hi, bool write) {
  if (w.block->footprint) w.block->footprint->mark(size_t(&r - w.block->ranges->data()), lo, hi, write);
}

// checkRace compares an access with the last ones of the same bytes since the last barrier.
void checkRace(Warp &w, const Instr &i, uint32_t lane, uint64_t off, uint32_t bytes, bool write) {
  Block &b = *w.block;
  uint16_t me = uint16_t(w.id * 32 + lane);
  auto warpOf = [](uint16_t t) { return t / 32u; };
  for (uint32_t q = 0; q < bytes; q++) {
    Shadow &s = b.shadow[off + q];
    // Two threads of one warp are ordered by a warp barrier too.
    auto races = [&](uint32_t epoch, uint16_t thread, uint32_t warpEpoch) {
      return epoch == b.epoch && thread != me && (warpOf(thread) != w.id || warpEpoch == w.epoch);
    };
    auto report = [&](const char *was, uint16_t thread) {
      trap(w, i, lane, kLaunchFailed, std::string("race in shared memory: ") + verb(write) + " of byte " + std::to_string(off + q) + " after the " + was +
          " of thread " + std::to_string(thread) + " without a barrier between");
    };
    if (races(s.writeEpoch, s.writer, s.writeWarpEpoch)) report("write", s.writer);
    if (write) {
      bool others = s.readEpoch == b.epoch && (s.readersOfBlock || (s.readersOfWarp && (warpOf(s.reader) != w.id || s.readWarpEpoch == w.epoch)));
      if (others || races(s.readEpoch, s.reader, s.readWarpEpoch)) report("read", s.reader);
      s.writeEpoch = b.epoch;
      s.writeWarpEpoch = w.epoch;
      s.writer = me;
    } else if (s.readEpoch != b.epoch || (!s.readersOfBlock && warpOf(s.reader) == w.id && s.readWarpEpoch != w.epoch)) {
      s.readEpoch = b.epoch;
      s.readWarpEpoch = w.epoch;
      s.reader = me;
      s.readersOfWarp = s.readersOfBlock = false;
    } else if (s.reader != me) {
      (warpOf(s.reader) == w.id ? s.readersOfWarp : s.readersOfBlock) = true;
    }
  }
}

uint8_t *localAt(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes) {
  uint64_t each = w.block->code->localBytes;
  if (a + bytes > each) trap(w, i, lane, kIllegalAddress, "local memory: " + std::to_string(bytes) + " bytes at " + std::to_string(a) + " of " + std::to_string(each));
  aligned(w, i, lane, a, bytes, "local");
  return w.local.data() + each * lane + a;
}

uint64_t addressOf(const Warp &w, const Operand &o, uint32_t lane) { return o.bytes == 4 ? at<uint32_t>(w, o)[lane] : at<uint64_t>(w, o)[lane]; }

uint8_t *resolve(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes, bool write, bool atomic = false) {
  Space s = i.space;
  if (s == Space::Generic) {
    s = a & kSharedWindow ? Space::Shared : a & kLocalWindow ? Space::Local : Space::Global;
    a &= ~(kSharedWindow | kLocalWindow);
  }
  if (s == Space::Shared) return sharedAt(w, i, lane, a, bytes, write, atomic);
  if (s == Space::Local) return localAt(w, i, lane, a, bytes);
  return globalAt(w, i, lane, a, bytes, write);
}

// Span is the addresses of the lanes of one access, as host pointers less base, if they all lie in one range or in shared memory.
struct Span {
  uint64_t address[32];
  uint8_t *base;
};

// span fills s and returns true if all lanes take the fast way: one range, aligned. Then the access is checked and marked.
bool span(Warp &w, const Instr &i, uint32_t m, uint32_t bytes, bool write, Span &s) {
  if (i.space != Space::Global && i.space != Space::Shared) return false;
  uint64_t lo = ~0ull, hi = 0, low = 0;
  auto gather = [&](auto *p) {
    lanes(m, [&](uint32_t l) {
      uint64_t a = p[l] + uint64_t(i.offset);
      s.address[l] = a;
      lo = a < lo ? a : lo;
      hi = a > hi ? a : hi;
      low |= a;
    });
  };
  if (i.in[0].bytes == 4) gather(at<uint32_t>(w, i.in[0])); else gather(at<uint64_t>(w, i.in[0]));
  if (low & (bytes - 1)) return false;
  Block &b = *w.block;
  if (i.space == Space::Shared) {
    s.base = b.shared.data();
    return !b.options->sharedRace && hi <= b.shared.size() && hi + bytes <= b.shared.size();
  }
  if (!find(w, lo) || hi + bytes > w.range->hi || hi + bytes < hi) return false;
  s.base = reinterpret_cast<uint8_t *>(uintptr_t(w.range->delta));
  uint64_t start = lo & ~(kGranule - 1);
  if (hi + bytes - start <= 2 * kGranule) {  // both ends are touched, and nothing lies between
    mark(w, *w.range, lo, hi + bytes, write);
  } else {
    uint64_t last = ~0ull;
    for (uint32_t q = m; q; q &= q - 1) {
      uint64_t a = s.address[__builtin_ctz(q)], g = a / kGranule;
      if (g != last) mark(w, *w.range, a, a + bytes, write);
      last = g;
    }
  }
  return true;
}

// host makes a pointer of an address of a span. Ranges' deltas and shared memory's base are both added to it.
template <class T> inline T *host(const Span &s, uint32_t l) { return reinterpret_cast<T *>(uintptr_t(s.base) + s.address[l]); }

// load reads vector elements T into registers of R, extending.
template <class T, class R> void load(Warp &w, const Instr &i, uint32_t m) {
  Span s;
  uint32_t bytes = uint32_t(sizeof(T)) * i.vector;
  if (span(w, i, m, bytes, false, s)) {
    for (uint32_t v = 0; v < i.vector; v++) {
      if (i.out[v].kind == Operand::None) continue;
      R *d = to<R>(w, i.out[v]);
      lanes(m, [&](uint32_t l) { d[l] = R(host<T>(s, l)[v]); });
    }
    return;
  }
  lanes(m, [&](uint32_t l) {
    T t[4];
    memcpy(t, resolve(w, i, l, addressOf(w, i.in[0], l) + uint64_t(i.offset), bytes, false), bytes);
    for (uint32_t v = 0; v < i.vector; v++)
      if (i.out[v].kind != Operand::None) to<R>(w, i.out[v])[l] = R(t[v]);
  });
}

template <class T, class R> void store(Warp &w, const Instr &i, uint32_t m) {
  Span s;
  uint32_t bytes = uint32_t(sizeof(T)) * i.vector;
  if (span(w, i, m, bytes, true, s)) {
    for (uint32_t v = 0; v < i.vector; v++) {
      const R *d = at<R>(w, i.in[1 + v]);
      lanes(m, [&](uint32_t l) { host<T>(s, l)[v] = T(d[l]); });
    }
    return;
  }
  lanes(m, [&](uint32_t l) {
    T t[4];
    for (uint32_t v = 0; v < i.vector; v++) t[v] = T(at<R>(w, i.in[1 + v])[l]);
    memcpy(resolve(w, i, l, addressOf(w, i.in[0], l) + uint64_t(i.offset), bytes, true), t, bytes);
  });
}

// loadParam reads a kernel's parameter: the same for all lanes unless the address is computed.
template <class T, class R> void loadParam(Warp &w, const Instr &i, uint32_t m) {
  for (uint32_t v = 0; v < i.vector; v++) {
    if (i.out[v].kind == Operand::None) continue;
    R *d = to<R>(w, i.out[v]);
    uint64_t same = at<uint64_t>(w, i.in[0])[0] + uint64_t(i.offset) + v * sizeof(T);
    if (i.in[0].kind == Operand::Constant && same + sizeof(T) <= w.block->code->paramBytes && same % sizeof(T) == 0) {
      T t;
      memcpy(&t, w.block->params + same, sizeof t);
      R r = R(t);
      lanes(m, [=](uint32_t l) { d[l] = r; });
      continue;
    }
    lanes(m, [&](uint32_t l) {
      uint64_t a = addressOf(w, i.in[0], l) + uint64_t(i.offset) + v * sizeof(T);
      if (a + sizeof(T) > w.block->code->paramBytes) trap(w, i, l, kIllegalAddress, "parameters: byte " + std::to_string(a) + " of " + std::to_string(w.block->code->paramBytes));
      aligned(w, i, l, a, sizeof(T), "parameter");
      T t;
      memcpy(&t, w.block->params + a, sizeof t);
      d[l] = R(t);
    });
  }
}

template <template <class, class> class F, class T> Execute pickRegister(uint32_t bytes) {
  if constexpr (sizeof(T) <= 2) if (bytes == 2) return F<T, uint16_t>::run;
  if constexpr (sizeof(T) <= 4) if (bytes == 4) return F<T, uint32_t>::run;
  return F<T, uint64_t>::run;
}
template <class T, class R> struct Load { static void run(Warp &w, const Instr &i, uint32_t m) { load<T, R>(w, i, m); } };
template <class T, class R> struct Store { static void run(Warp &w, const Instr &i, uint32_t m) { store<T, R>(w, i, m); } };
template <class T, class R> struct LoadParam { static void run(Warp &w, const Instr &i, uint32_t m) { loadParam<T, R>(w, i, m); } };

template <template <class, class> class F> Execute pickAccess(Type t, uint32_t reg) {
  switch (t) {
    case Type::B8: case Type::U8: return pickRegister<F, uint8_t>(reg);
    case Type::S8: return pickRegister<F, int8_t>(reg);
    case Type::B16: case Type::U16: case Type::F16: case Type::BF16: return pickRegister<F, uint16_t>(reg);
    case Type::S16: return pickRegister<F, int16_t>(reg);
    case Type::B32: case Type::U32: case Type::F32: case Type::F16x2: case Type::BF16x2: return pickRegister<F, uint32_t>(reg);
    case Type::S32: return pickRegister<F, int32_t>(reg);
    case Type::B64: case Type::U64: case Type::S64: case Type::F64: return pickRegister<F, uint64_t>(reg);
    default: throw Unknown{"not for this type"};
  }
}

void nothing(Warp &, const Instr &, uint32_t) {}

Space takeSpace(Decoder &d) {
  switch (d.choose({"global", "shared", "local", "param", "const"})) {
    case 0: case 4: return Space::Global;
    case 1: return Space::Shared;
    case 2: return Space::Local;
    case 3: return Space::Param;
    default: return Space::Generic;
  }
}

}  // namespace

uint8_t *globalAt(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes, bool write) {
  const Range &r = rangeOf(w, i, lane, a, bytes, write);
  aligned(w, i, lane, a, bytes, "global");
  mark(w, r, a, a + bytes, write);
  return reinterpret_cast<uint8_t *>(uintptr_t(a) + uintptr_t(r.delta));
}

uint8_t *sharedAt(Warp &w, const Instr &i, uint32_t lane, uint64_t a, uint32_t bytes, bool write, bool atomic) {
  Block &b = *w.block;
  if (a > b.shared.size() || a + bytes > b.shared.size())
    trap(w, i, lane, kIllegalAddress, std::string("shared memory: ") + verb(write) + " of " + std::to_string(bytes) + " bytes at " + std::to_string(a) + " of " + std::to_string(b.shared.size()));
  aligned(w, i, lane, a, bytes, "shared");
  if (b.options->sharedRace && !atomic) checkRace(w, i, lane, a, bytes, write);
  return b.shared.data() + a;
}

void decodeMemory(Decoder &d) {
  const std::string &op = d.op;
  if (op == "membar" || op == "fence") {
    // Memory is sequentially consistent here, so a fence has nothing to do.
    d.choose({"sc", "acq_rel"});
    if (d.choose({"cta", "gl", "gpu", "sys"}) < 0) throw Unknown{"a scope is missing"};
    return d.emit(nothing);
  }
  Instr &i = d.i;
  if (op == "prefetch") {
    i.space = takeSpace(d);
    if (d.choose({"L1", "L2"}) < 0) throw Unknown{"a level is missing"};
    d.address(0);
    return d.emit(nothing);
  }
  if (d.choose({"weak", "volatile", "relaxed", "acquire", "release"}) >= 2) d.choose({"cta", "gpu", "sys"});
  i.space = takeSpace(d);
  d.choose({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  d.take("nc");
  int v = d.choose({"v2", "v4"});
  i.vector = v < 0 ? 1 : v == 0 ? 2 : 4;
  Type t = i.type = d.takeType();
  if (op == "st") {
    d.address(0);
    d.inGroup(1, t, true);
    if (i.ins != 1 + i.vector) throw Unknown{"wrong number of values"};
  } else {
    d.outGroup(0, t, true);
    d.address(1);
    if (i.outs != i.vector) throw Unknown{"wrong number of results"};
  }
  uint32_t reg = 0;
  for (uint32_t k = 0; k < i.vector; k++) {
    const Operand &o = op == "st" ? i.in[1 + k] : i.out[k];
    if (o.kind == Operand::None) continue;
    if (reg && o.bytes != reg) throw Unknown{"registers of different widths"};
    reg = o.bytes;
  }
  if (i.space == Space::Param) {
    // Parameters of functions put in place are memory of the thread.
    std::string a = d.arg(op == "st" ? 0 : 1), name = trim(a.substr(1, a.find_first_of("+]") - 1));
    uint64_t at;
    bool dynamic;
    Space s = Space::Param;
    if (d.symbol(name, at, s, dynamic)) i.space = s;
  }
  if (i.space == Space::Param) {
    if (op == "st") throw Unknown{"parameters of kernels are read-only"};
    return d.emit(pickAccess<LoadParam>(t, reg));
  }
  d.emit(op == "st" ? pickAccess<Store>(t, reg) : pickAccess<Load>(t, reg));
}

// ---- atomics

namespace {

enum : uint8_t { kAdd, kMin, kMax, kExchange, kSwapIf, kAnd, kOr, kXor, kInc, kDec };

template <class T> T apply(uint8_t mode, T old, T b) {
  switch (mode) {
    case kAdd:
      if constexpr (std::is_floating_point_v<T>) return old + b;
      else return T(std::make_unsigned_t<T>(old) + std::make_unsigned_t<T>(b));
    case kMin: return std::min(old, b);
    case kMax: return std::max(old, b);
    case kExchange: return b;
    default: break;
  }
  if constexpr (!std::is_floating_point_v<T>) {
    switch (mode) {
      case kAnd: return old & b;
      case kOr: return old | b;
      case kXor: return old ^ b;
      case kInc: return old >= b ? 0 : old + 1;
      case kDec: return old == 0 || old > b ? b : old - 1;
      default: break;
    }
  }
  return old;
}

// atomic works on the bits U of T, so that blocks on other threads see whole values.
template <class T> void atomic(Warp &w, const Instr &i, uint32_t m) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  lanes(m, [&](uint32_t l) {
    U *p = reinterpret_cast<U *>(resolve(w, i, l, addressOf(w, i.in[0], l) + uint64_t(i.offset), sizeof(T), true, true));
    U b = at<U>(w, i.in[1])[l], old = __atomic_load_n(p, __ATOMIC_RELAXED), next;
    do {
      if (i.mode == kSwapIf) next = old == b ? at<U>(w, i.in[2])[l] : old;
      else next = bits<U>(apply<T>(i.mode, bits<T>(old), bits<T>(b)));
    } while (!__atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (i.outs && i.out[0].kind != Operand::None) to<U>(w, i.out[0])[l] = old;
  });
}

}  // namespace

void decodeAtomic(Decoder &d) {
  Instr &i = d.i;
  d.choose({"relaxed", "acquire", "release", "acq_rel"});
  d.choose({"cta", "gpu", "sys"});
  i.space = takeSpace(d);
  if (i.space == Space::Local || i.space == Space::Param) throw Unknown{"not in this space"};
  int mode = d.choose({"add", "min", "max", "exch", "cas", "and", "or", "xor", "inc", "dec"});
  if (mode < 0) throw Unknown{"an operation is missing"};
  i.mode = uint8_t(mode);
  Type t = i.type = d.takeType();
  size_t k = 0;
  if (d.op == "atom") d.out(k++, t);
  d.address(k++);
  d.in(k++, t);
  if (mode == kSwapIf) d.in(k++, t);
  if (k != d.operands()) throw Unknown{"wrong number of operands"};
  bool f = isFloat(t);
  if (f && mode != kAdd) throw Unknown{"only add for floats"};
  switch (t) {
    case Type::B32: case Type::U32: return d.emit(atomic<uint32_t>);
    case Type::S32: return d.emit(atomic<int32_t>);
    case Type::B64: case Type::U64: return d.emit(atomic<uint64_t>);
    case Type::S64: return d.emit(atomic<int64_t>);
    case Type::F32: return d.emit(atomic<float>);
    case Type::F64: return d.emit(atomic<double>);
    default: throw Unknown{"not for this type"};
  }
}

// ---- cp.async: done when it is waited for, so that a missing wait shows

namespace {

void finish(Warp &w, const Instr &i, std::vector<AsyncCopy> &copies) {
  for (auto &c : copies) {
    uint8_t *d = sharedAt(w, i, 0, c.shared, c.bytes, true, true);
    if (c.from) memcpy(d, globalAt(w, i, 0, c.global, c.from, false), c.from);
    memset(d + c.from, 0, c.bytes - c.from);
  }
  copies.clear();
}

void copyAsync(Warp &w, const Instr &i, uint32_t m) {
  lanes(m, [&](uint32_t l) {
    AsyncCopy c;
    c.shared = (addressOf(w, i.in[0], l) + uint64_t(i.offset)) & ~kSharedWindow;
    c.global = addressOf(w, i.in[1], l) + uint64_t(i.offset2);
    c.bytes = i.vector;
    c.from = i.ins > 2 ? std::min(c.bytes, at<uint32_t>(w, i.in[2])[l]) : c.bytes;
    sharedAt(w, i, l, c.shared, c.bytes, true);  // it may land from now on
    w.open.push_back(c);
  });
}

void commit(Warp &w, const Instr &, uint32_t) { w.groups.push_back(std::move(w.open)), w.open.clear(); }

void waitGroups(Warp &w, const Instr &i, uint32_t m) {
  if (i.mode) commit(w, i, m);
  for (; w.groups.size() > size_t(i.offset); w.groups.erase(w.groups.begin())) finish(w, i, w.groups.front());
}

}  // namespace

void decodeAsync(Decoder &d) {
  Instr &i = d.i;
  if (!d.take("async")) throw Unknown{"only cp.async"};
  if (d.take("commit_group")) return d.emit(commit);
  if (d.take("wait_all")) {
    i.mode = 1;
    return d.emit(waitGroups);
  }
  if (d.take("wait_group")) {
    i.offset = int64_t(number(i.line, d.arg(0), Type::U32));
    return d.emit(waitGroups);
  }
  d.choose({"ca", "cg"});
  d.choose({"L2::64B", "L2::128B", "L2::256B"});
  if (!d.take("shared") || !d.take("global")) throw Unknown{"only from global to shared"};
  d.address(1);
  i.offset2 = i.offset;
  Operand from = i.in[0];
  i.ins = 0;
  d.address(0);
  i.in[i.ins++] = from;
  i.vector = uint8_t(number(i.line, d.arg(2), Type::U32));
  if (i.vector != 4 && i.vector != 8 && i.vector != 16) throw Unknown{"size"};
  if (d.operands() > 3) d.in(3, Type::U32);
  d.emit(copyAsync);
}

}  // namespace ptx
