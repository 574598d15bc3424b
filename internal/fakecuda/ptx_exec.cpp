//go:build ignore

// The scheduler: warps with a stack of diverged paths, barriers of a block, blocks on several host threads; and what a launch touched.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "ptx_code.hpp"

namespace ptx {

std::string hex(uint64_t v) {
  char b[24];
  snprintf(b, sizeof b, "0x%llx", static_cast<unsigned long long>(v));
  return b;
}

static std::string place(const Block &b, uint32_t thread) {
  auto dim = [](uint32_t x, uint32_t y, uint32_t z) { return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")"; };
  return "kernel " + b.code->name + ", block " + dim(b.index.x, b.index.y, b.index.z) + ", thread " +
      dim(thread % b.size.x, thread / b.size.x % b.size.y, thread / (b.size.x * b.size.y));
}

void trap(const Warp &w, const Instr &i, uint32_t lane, int code, const std::string &what) {
  const Block &b = *w.block;
  throw Fault{code, what + ": " + place(b, w.id * 32 + lane) + ", PTX line " + std::to_string(i.line) + ": " + b.code->lines[size_t(i.line) - 1]};
}

uint32_t random(Warp &w) {
  // The generator of Knuth's MMIX.
  w.block->random = w.block->random * 6364136223846793005ull + 1442695040888963407ull;
  return uint32_t(w.block->random >> 33);
}

int approxUlp(const Warp &w) { return w.block->options->approxUlp; }

uint64_t get(const Warp &w, const Operand &o, uint32_t lane) {
  switch (o.bytes) {
    case 2: return at<uint16_t>(w, o)[lane];
    case 4: return at<uint32_t>(w, o)[lane];
    default: return at<uint64_t>(w, o)[lane];
  }
}

void put(Warp &w, const Operand &o, uint32_t lane, uint64_t v) {
  if (o.kind != Operand::Register) return;
  switch (o.bytes) {
    case 2: to<uint16_t>(w, o)[lane] = uint16_t(v); break;
    case 4: to<uint32_t>(w, o)[lane] = uint32_t(v); break;
    default: to<uint64_t>(w, o)[lane] = v;
  }
}

// ---- footprint

void Footprint::mark(size_t range, uint64_t lo, uint64_t hi, bool write) {
  uint64_t base = ranges[range].lo / kGranule, first = lo / kGranule - base, last = (hi - 1) / kGranule - base;
  std::vector<Page> &p = pages[2 * range + write];
  if (p.empty()) p.resize(((ranges[range].hi - 1) / kGranule - base) / kPage + 1);
  for (uint64_t g = first; g <= last; g++) {
    Page &page = p[g / kPage];
    if (!page) page.reset(new uint64_t[kPage / 64]());
    page[g % kPage / 64] |= 1ull << (g % 64);
  }
}

void Footprint::merge(const Footprint &f) {
  for (size_t k = 0; k < pages.size(); k++) {
    if (pages[k].empty()) pages[k].resize(f.pages[k].size());
    for (size_t q = 0; q < f.pages[k].size(); q++) {
      if (!f.pages[k][q]) continue;
      if (!pages[k][q]) pages[k][q].reset(new uint64_t[kPage / 64]());
      for (size_t v = 0; v < kPage / 64; v++) pages[k][q][v] |= f.pages[k][q][v];
    }
  }
}

std::vector<Interval> Footprint::intervals(size_t range, bool write) const {
  std::vector<Interval> r;
  const Range &x = ranges[range];
  uint64_t base = x.lo / kGranule;
  const std::vector<Page> &p = pages[2 * range + write];
  for (size_t q = 0; q < p.size(); q++) {
    for (uint64_t v = 0; p[q] && v < kPage / 64; v++) {
      for (uint64_t word = p[q][v]; word; word &= word - 1) {
        uint64_t g = base + q * kPage + v * 64 + uint64_t(__builtin_ctzll(word));
        uint64_t lo = std::max(g * kGranule, x.lo), hi = std::min((g + 1) * kGranule, x.hi);
        if (!r.empty() && r.back().hi == lo) r.back().hi = hi; else r.push_back({lo, hi});
      }
    }
  }
  return r;
}

std::vector<Touch> Footprint::touch() const {
  std::vector<Touch> t(ranges.size());
  for (size_t k = 0; k < t.size(); k++) t[k] = {intervals(k, false), intervals(k, true)};
  return t;
}

// ---- warps

namespace {

uint32_t special(const Block &b, Special s, uint32_t warp, uint32_t lane) {
  uint32_t t = warp * 32 + lane, bit = 1u << lane;
  switch (s) {
    case Special::TidX: return t % b.size.x;
    case Special::TidY: return t / b.size.x % b.size.y;
    case Special::TidZ: return t / (b.size.x * b.size.y);
    case Special::NtidX: return b.size.x;
    case Special::NtidY: return b.size.y;
    case Special::NtidZ: return b.size.z;
    case Special::CtaX: return b.index.x;
    case Special::CtaY: return b.index.y;
    case Special::CtaZ: return b.index.z;
    case Special::NctaX: return b.grid.x;
    case Special::NctaY: return b.grid.y;
    case Special::NctaZ: return b.grid.z;
    case Special::Lane: return lane;
    case Special::WarpId: return warp;
    case Special::Warps: return (b.threads + 31) / 32;
    case Special::MaskEq: return bit;
    case Special::MaskLt: return bit - 1;
    case Special::MaskLe: return bit | (bit - 1);
    case Special::MaskGt: return ~(bit | (bit - 1));
    case Special::MaskGe: return ~(bit - 1);
    default: return b.dynamicShared;
  }
}

// branch splits the paths of a warp: the lanes that jump wait on the stack, below them all lanes wait where both sides meet.
void branch(Warp &w, const Instr &i, uint32_t m) {
  uint32_t meet = uint32_t(i.reconverge), target = uint32_t(i.target);
  if (m == w.mask) {
    w.pc = target;
    return;
  }
  if (meet != w.stop) w.stack.push_back({meet, w.stop, w.mask});
  if (target != meet) w.stack.push_back({target, meet, m});
  w.mask &= ~m;
  w.pc++;
  w.stop = meet;
}

void arrive(Warp &w, const Instr &i, uint32_t m) {
  if (m != w.alive) trap(w, i, uint32_t(__builtin_ctz(w.alive & ~m)), kLaunchFailed, "bar.sync is reached by a part of the warp: this thread is elsewhere");
  uint32_t first = uint32_t(__builtin_ctz(m));
  w.barrier = uint32_t(get(w, i.in[0], first));
  w.barrierThreads = i.ins > 1 ? uint32_t(get(w, i.in[1], first)) : 0;
  if (w.barrier > 15 || w.barrierThreads % 32) trap(w, i, first, kIllegalInstruction, "bar.sync " + std::to_string(w.barrier) + ", " + std::to_string(w.barrierThreads));
  w.waiting = true;
  w.pc++;
}

// runWarp runs until the warp ends, waits at a barrier, or has executed most instructions.
void runWarp(Warp &w, uint64_t most) {
  Block &b = *w.block;
  const Instr *code = b.code->instructions.data();
  uint64_t n = 0, laneCount = 0;
  while (n < most && !w.waiting) {
    if (!w.mask || w.pc == w.stop) {
      if (w.stack.empty()) {
        w.done = true;
        break;
      }
      Split s = w.stack.back();
      w.stack.pop_back();
      w.pc = s.pc;
      w.stop = s.stop;
      w.mask = s.mask & w.alive;
      continue;
    }
    const Instr &i = code[w.pc];
    uint32_t m = w.mask;
    if (i.guard >= 0) {
      uint32_t p = *reinterpret_cast<uint32_t *>(w.registers + i.guard);
      m &= i.guardNegated ? ~p : p;
    }
    n++;
    laneCount += uint32_t(__builtin_popcount(m));
    if (!m) {
      w.pc++;
      continue;
    }
    switch (i.control) {
      case Control::Plain:
        i.execute(w, i, m);
        w.pc++;
        break;
      case Control::Branch: branch(w, i, m); break;
      case Control::Exit:
        w.alive &= ~m;
        w.mask &= ~m;
        w.pc++;
        break;
      case Control::Barrier: arrive(w, i, m); break;
    }
  }
  b.warpInstructions += n;
  b.laneInstructions += laneCount;
}

void startBlock(Block &b) {
  constexpr uint8_t poison = 0xcd;  // memory that nobody has written reads as large numbers
  const Code &c = *b.code;
  std::fill(b.shared.begin(), b.shared.end(), poison);
  std::fill(b.shadow.begin(), b.shadow.end(), Shadow{});
  b.epoch = 1;
  b.started = b.warpInstructions;
  uint8_t *base = reinterpret_cast<uint8_t *>(alignUp(reinterpret_cast<uintptr_t>(b.registers.data()), 64));
  for (uint32_t k = 0; k < b.warps.size(); k++) {
    Warp &w = b.warps[k];
    bool first = !w.block;
    w.block = &b;
    w.id = k;
    w.registers = base + size_t(k) * alignUp(c.registerBytes, 64);
    w.constants = c.constants.data();
    uint32_t left = b.threads - 32 * k;
    w.alive = w.mask = left >= 32 ? ~0u : (1u << left) - 1;
    w.pc = w.epoch = 0;
    w.stop = ~0u;
    w.waiting = w.done = false;
    w.stack.clear();
    w.open.clear();
    w.groups.clear();
    w.local.assign(size_t(32) * c.localBytes, poison);
    for (auto &s : c.specials) {
      bool ofBlock = s.first >= Special::CtaX && s.first <= Special::CtaZ;
      if (!first && !ofBlock) continue;  // the same in every block
      uint32_t *r = reinterpret_cast<uint32_t *>(w.registers + s.second);
      if (ofBlock) std::fill(r, r + 32, special(b, s.first, k, 0));
      else for (uint32_t l = 0; l < 32; l++) r[l] = special(b, s.first, k, l);
    }
  }
}

// release lets the warps of a complete barrier go on.
bool release(Block &b) {
  uint32_t alive = 0, at[16] = {}, need[16] = {};
  for (auto &w : b.warps) {
    if (w.done) continue;
    alive += 32;
    if (!w.waiting) continue;
    at[w.barrier] += 32;
    need[w.barrier] = std::max(need[w.barrier], w.barrierThreads);
  }
  bool any = false;
  for (uint32_t k = 0; k < 16; k++) {
    if (!at[k] || at[k] != (need[k] ? need[k] : alive)) continue;
    for (auto &w : b.warps) if (!w.done && w.waiting && w.barrier == k) w.waiting = false;
    b.epoch++;
    any = true;
  }
  return any;
}

void runBlock(Block &b) {
  startBlock(b);
  std::vector<uint32_t> order(b.warps.size());
  for (uint32_t k = 0; k < order.size(); k++) order[k] = k;
  const Options &o = *b.options;
  uint64_t most = o.maxInstructions ? std::min<uint64_t>(o.maxInstructions, 1 << 20) : 1 << 20;
  for (;;) {
    bool progress = false, done = true;
    if (o.seed) for (size_t k = order.size(); k > 1; k--) std::swap(order[k - 1], order[random(b.warps[0]) % k]);
    for (uint32_t k : order) {
      Warp &w = b.warps[k];
      if (w.done || w.waiting) continue;
      runWarp(w, o.seed ? 1 + random(w) % 64 : most);
      progress = true;
      if (o.maxInstructions && b.warpInstructions - b.started > o.maxInstructions)
        trap(w, b.code->instructions[std::min<size_t>(w.pc, b.code->instructions.size() - 1)], 0, kLaunchTimeout, "the limit of " + std::to_string(o.maxInstructions) + " instructions is reached");
    }
    for (auto &w : b.warps) done &= w.done;
    if (done) return;
    if (release(b) || progress) continue;
    for (auto &w : b.warps)
      if (w.waiting) trap(w, b.code->instructions[w.pc - 1], 0, kLaunchTimeout, "threads wait at barrier " + std::to_string(w.barrier) + " that others never reach");
  }
}

// Worker runs blocks and keeps what they did.
struct Worker {
  Footprint footprint;
  uint64_t warpInstructions = 0, laneInstructions = 0;
  explicit Worker(const std::vector<Range> &r) : footprint(r) {}
};

}  // namespace

Result run(const Kernel &k, Dim grid, Dim size, uint32_t dynamicShared, const uint8_t *params, const std::vector<Range> &ranges, const Options &options) {
  uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Fault fault{};
  auto work = [&](Worker &worker) {
    Block b;
    b.code = k.code.get();
    b.params = params;
    b.ranges = &ranges;
    b.options = &options;
    b.footprint = options.touch ? &worker.footprint : nullptr;
    b.grid = grid;
    b.size = size;
    b.threads = size.x * size.y * size.z;
    b.dynamicShared = dynamicShared;
    b.shared.resize(k.sharedBytes + dynamicShared);
    if (options.sharedRace) b.shadow.resize(b.shared.size());
    b.warps.resize((b.threads + 31) / 32);
    b.registers.resize(b.warps.size() * alignUp(b.code->registerBytes, 64) + 64);
    try {
      for (uint64_t q = next++; q < blocks && !failed; q = next++) {
        b.index = {uint32_t(q % grid.x), uint32_t(q / grid.x % grid.y), uint32_t(q / grid.x / grid.y)};
        b.random = (options.seed + 1) * 0x9e3779b97f4a7c15ull + q;  // of the block, so that host threads do not change results
        runBlock(b);
      }
    } catch (Fault &f) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!failed.exchange(true)) fault = f;
    }
    worker.warpInstructions = b.warpInstructions;
    worker.laneInstructions = b.laneInstructions;
  };
  std::vector<Worker> workers;
  uint64_t count = std::max<uint64_t>(1, std::min<uint64_t>(uint64_t(std::max(options.threads, 1)), blocks));
  for (uint64_t q = 0; q < count; q++) workers.emplace_back(ranges);
  std::vector<std::thread> threads;
  for (uint64_t q = 1; q < count; q++) threads.emplace_back(work, std::ref(workers[q]));
  work(workers[0]);
  for (auto &t : threads) t.join();
  if (failed) throw fault;
  Result r;
  for (uint64_t q = 0; q < count; q++) {
    if (q) workers[0].footprint.merge(workers[q].footprint);
    r.warpInstructions += workers[q].warpInstructions;
    r.laneInstructions += workers[q].laneInstructions;
  }
  if (options.touch) r.touch = workers[0].footprint.touch();
  return r;
}

}  // namespace ptx
