//go:build ignore

// Instructions of a whole warp, and of its matrices.
#include "ptx_code.hpp"

namespace ptx {

namespace {

// present checks that the lanes of a member mask are here: on a device the instruction would wait for them.
void present(Warp &w, const Instr &i, const Operand &members, uint32_t m) {
  const uint32_t *p = at<uint32_t>(w, members);
  lanes(m, [&](uint32_t l) {
    if (!(p[l] & laneBits.bit[l])) trap(w, i, l, kIllegalInstruction, "the member mask " + hex(p[l]) + " leaves out the lane itself");
    uint32_t absent = p[l] & w.alive & ~m;
    if (absent) trap(w, i, l, kLaunchFailed, "lane " + std::to_string(__builtin_ctz(absent)) + " of the member mask is not here: the warp has diverged");
  });
}

enum : uint8_t { kUp, kDown, kButterfly, kIndex };
void shuffle(Warp &w, const Instr &i, uint32_t m) {
  present(w, i, i.in[3], m);
  const uint32_t *b = at<uint32_t>(w, i.in[1]), *c = at<uint32_t>(w, i.in[2]);
  uint32_t v[32], r[32], inside = 0;
  memcpy(v, at<uint32_t>(w, i.in[0]), sizeof v);
  lanes(m, [&](uint32_t l) {
    uint32_t segment = c[l] >> 8 & 31, clamp = c[l] & 31, first = l & segment, last = first | (clamp & ~segment), n = b[l] & 31, from = l;
    bool ok = true;
    switch (i.mode) {
      case kUp: from = l - n; ok = int(from) >= int(last); break;
      case kDown: from = l + n; ok = from <= last; break;
      case kButterfly: from = l ^ n; ok = from <= last; break;
      default: from = first | (n & ~segment); ok = from <= last;
    }
    if (!ok) from = l;
    if (!(m & laneBits.bit[from])) trap(w, i, l, kIllegalInstruction, "shfl.sync reads lane " + std::to_string(from) + ", which does not take part");
    r[l] = v[from];
    inside |= ok ? laneBits.bit[l] : 0;
  });
  if (i.out[0].kind != Operand::None) {
    uint32_t *d = to<uint32_t>(w, i.out[0]);
    lanes(m, [&](uint32_t l) { d[l] = r[l]; });
  }
  if (i.outs > 1) setPredicate(w, i.out[1], inside, m);
}

enum : uint8_t { kAll, kAny, kUniform, kBallot };
void vote(Warp &w, const Instr &i, uint32_t m) {
  present(w, i, i.in[1], m);
  uint32_t p = predicate(w, i.in[0]);
  const uint32_t *members = at<uint32_t>(w, i.in[1]);
  uint32_t r = 0;
  lanes(m, [&](uint32_t l) {
    uint32_t among = members[l] & m, yes = p & among;
    bool v = i.mode == kAll ? yes == among : i.mode == kAny ? yes != 0 : yes == among || yes == 0;
    r |= v ? laneBits.bit[l] : 0;
    if (i.mode == kBallot) to<uint32_t>(w, i.out[0])[l] = yes;
  });
  if (i.mode != kBallot) setPredicate(w, i.out[0], r, m);
}

// match gives the lanes with the same value; with mode 1 (all) none unless all have it.
void match(Warp &w, const Instr &i, uint32_t m) {
  present(w, i, i.in[1], m);
  uint32_t r[32], all = 0;
  lanes(m, [&](uint32_t l) {
    uint64_t v = get(w, i.in[0], l);
    uint32_t among = at<uint32_t>(w, i.in[1])[l] & m;
    r[l] = 0;
    for (uint32_t q = among; q; q &= q - 1) {
      uint32_t k = uint32_t(__builtin_ctz(q));
      if (get(w, i.in[0], k) == v) r[l] |= laneBits.bit[k];
    }
    if (r[l] == among) all |= laneBits.bit[l]; else if (i.mode) r[l] = 0;
  });
  lanes(m, [&](uint32_t l) { put(w, i.out[0], l, r[l]); });
  if (i.outs > 1) setPredicate(w, i.out[1], all, m);
}

enum : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
void reduce(Warp &w, const Instr &i, uint32_t m) {
  present(w, i, i.in[1], m);
  uint32_t r[32];
  lanes(m, [&](uint32_t l) {
    uint32_t q = at<uint32_t>(w, i.in[1])[l] & m, v = at<uint32_t>(w, i.in[0])[__builtin_ctz(q)];
    for (q &= q - 1; q; q &= q - 1) {
      uint32_t x = at<uint32_t>(w, i.in[0])[__builtin_ctz(q)];
      bool less = isSigned(i.type) ? int32_t(x) < int32_t(v) : x < v;
      v = i.mode == kAdd ? v + x : i.mode == kMin ? (less ? x : v) : i.mode == kMax ? (less ? v : x) : i.mode == kAnd ? v & x : i.mode == kOr ? v | x : v ^ x;
    }
    r[l] = v;
  });
  lanes(m, [&](uint32_t l) { to<uint32_t>(w, i.out[0])[l] = r[l]; });
}

void active(Warp &w, const Instr &i, uint32_t m) {
  uint32_t *d = to<uint32_t>(w, i.out[0]);
  lanes(m, [=](uint32_t l) { d[l] = m; });
}

}  // namespace

void decodeWarp(Decoder &d) {
  Instr &i = d.i;
  if (d.op == "activemask") {
    Type t = d.takeType();
    d.out(0, t);
    return d.emit(active);
  }
  if (!d.take("sync")) throw Unknown{"only the form with .sync"};
  int mode = d.op == "shfl" ? d.choose({"up", "down", "bfly", "idx"}) : d.op == "vote" ? d.choose({"all", "any", "uni", "ballot"})
      : d.op == "match" ? d.choose({"any", "all"}) : d.choose({"add", "min", "max", "and", "or", "xor"});
  if (mode < 0) throw Unknown{"the kind is missing"};
  i.mode = uint8_t(mode);
  Type t = i.type = d.takeType();
  if (d.op == "vote") {
    if ((t == Type::Pred) == (mode == kBallot)) throw Unknown{"not for this type"};
    d.out(0, t);
    d.in(1, Type::Pred);
    d.in(2, Type::B32);
    return d.emit(vote);
  }
  if (d.op == "match") {
    d.outPair(0, Type::B32, Type::Pred);
    d.in(1, t);
    d.in(2, Type::B32);
    return d.emit(match);
  }
  if (bytesOf(t) != 4) throw Unknown{"not for this type"};
  d.outPair(0, t, Type::Pred);
  d.in(1, t);
  d.in(2, Type::B32);
  if (d.op == "redux") return d.emit(reduce);
  d.in(3, Type::B32);
  d.in(4, Type::B32);
  d.emit(shuffle);
}

// ---- matrices. Layouts of the fragments: PTX ISA 7.0, "Matrix Fragments for mma.m16n8k*".

namespace {

void whole(Warp &w, const Instr &i, uint32_t m) {
  if (m != ~0u) trap(w, i, uint32_t(__builtin_ctz(~m)), kIllegalInstruction, "needs all 32 lanes");
}

float tf32(uint32_t v) { return bits<float>(v & 0xffffe000u); }  // the low 13 bits are not read

// multiply computes D = A B + C for A [16, K], B [K, 8], C and D [16, 8] in float32. mode is K. Products are exact and summed in
// double: a device sums in an order and precision of its own, so bits may differ from it.
void multiply(Warp &w, const Instr &i, uint32_t m) {
  whole(w, i, m);
  uint32_t K = i.mode, perK = i.from == Type::TF32 ? 4 : 8;  // of K that a register of each lane covers
  uint32_t parts = 2 * (K / perK), half = parts / 2;
  float A[16][16], B[16][8], C[16][8];
  auto word = [&](uint32_t k, uint32_t l) { return at<uint32_t>(w, i.in[k])[l]; };
  auto open = [&](uint32_t v) { return i.from == Type::BF16 ? bfloatToFloat(uint16_t(v)) : halfToFloat(uint16_t(v)); };
  for (uint32_t l = 0; l < 32; l++) {
    uint32_t g = l / 4, t = l % 4;
    for (uint32_t q = 0; q < parts; q++) {
      uint32_t row = g + 8 * (q & 1), v = word(q, l);
      if (i.from == Type::TF32) A[row][t + 4 * (q >> 1)] = tf32(v);
      else for (uint32_t h = 0; h < 2; h++) A[row][2 * t + h + 8 * (q >> 1)] = open(v >> (16 * h));
    }
    for (uint32_t q = 0; q < half; q++) {
      uint32_t v = word(parts + q, l);
      if (i.from == Type::TF32) B[t + 4 * q][g] = tf32(v);
      else for (uint32_t h = 0; h < 2; h++) B[2 * t + h + 8 * q][g] = open(v >> (16 * h));
    }
    for (uint32_t q = 0; q < 4; q++) C[g + 8 * (q >> 1)][2 * t + (q & 1)] = bits<float>(word(parts + half + q, l));
  }
  for (uint32_t r = 0; r < 16; r++) {
    double sum[8];
    for (uint32_t c = 0; c < 8; c++) sum[c] = C[r][c];
    for (uint32_t k = 0; k < K; k++)
      for (uint32_t c = 0; c < 8; c++) sum[c] += double(A[r][k]) * B[k][c];
    for (uint32_t c = 0; c < 8; c++) C[r][c] = float(sum[c]);
  }
  for (uint32_t l = 0; l < 32; l++)
    for (uint32_t q = 0; q < 4; q++) to<float>(w, i.out[q])[l] = C[l / 4 + 8 * (q >> 1)][2 * (l % 4) + (q & 1)];
}

// loadMatrix loads 8x8 matrices of 16-bit elements, whose rows' addresses lanes 8q to 8q+7 hold. mode: transposed.
void loadMatrix(Warp &w, const Instr &i, uint32_t m) {
  whole(w, i, m);
  for (uint32_t q = 0; q < i.outs; q++) {
    uint16_t M[8][8];
    for (uint32_t r = 0; r < 8; r++) {
      uint32_t l = 8 * q + r;
      uint64_t a = i.in[0].bytes == 4 ? at<uint32_t>(w, i.in[0])[l] : at<uint64_t>(w, i.in[0])[l];
      memcpy(M[r], sharedAt(w, i, l, (a + uint64_t(i.offset)) & ~kSharedWindow, 16, false), 16);
    }
    for (uint32_t l = 0; l < 32; l++) {
      uint32_t r = l / 4, c = 2 * (l % 4);
      uint32_t first = i.mode ? M[c][r] : M[r][c], second = i.mode ? M[c + 1][r] : M[r][c + 1];
      to<uint32_t>(w, i.out[q])[l] = first | second << 16;
    }
  }
}

}  // namespace

void decodeMatrix(Decoder &d) {
  Instr &i = d.i;
  if (!d.take("sync") || !d.take("aligned")) throw Unknown{"only .sync.aligned"};
  if (d.op == "ldmatrix") {
    if (!d.take("m8n8") || !d.take("b16")) throw Unknown{"only .m8n8 of .b16"};
    int n = d.choose({"x1", "x2", "x4"});
    i.mode = d.take("trans");
    d.take("shared");
    d.outGroup(0, Type::B32);
    if (n < 0 || i.outs != 1 << n) throw Unknown{"wrong number of results"};
    d.address(1);
    return d.emit(loadMatrix);
  }
  int shape = d.choose({"m16n8k4", "m16n8k8", "m16n8k16"});
  if (shape < 0 || !d.take("row") || !d.take("col")) throw Unknown{"shape or layout"};
  i.mode = uint8_t(4 << shape);
  Type out = d.takeType(), a = d.takeType(), b = d.takeType(), c = d.takeType();
  bool tf = a == Type::TF32;
  if (out != Type::F32 || c != Type::F32 || a != b || !(tf || a == Type::F16 || a == Type::BF16) || (tf ? shape == 2 : shape == 0)) throw Unknown{"types"};
  i.from = a;
  uint32_t parts = 2u * i.mode / (tf ? 4 : 8);
  d.outGroup(0, Type::F32);
  d.inGroup(1, Type::B32);
  d.inGroup(2, Type::B32);
  d.inGroup(3, Type::F32);
  if (i.outs != 4 || i.ins != parts + parts / 2 + 4) throw Unknown{"wrong number of operands"};
  d.emit(multiply);
}

}  // namespace ptx
