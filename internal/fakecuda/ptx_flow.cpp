//go:build ignore

// Where the sides of a branch meet again, and the instructions of control.
#include <algorithm>

#include "ptx_code.hpp"

namespace ptx {

namespace {

// Graph is the flow between basic blocks; node blocks is the exit.
struct Graph {
  std::vector<int> start;    // first instruction of a block
  std::vector<int> blockOf;  // of an instruction
  std::vector<std::vector<int>> next, before;
};

Graph build(const std::vector<Instr> &code) {
  Graph g;
  int n = int(code.size());
  std::vector<bool> leads(n + 1, false);
  leads[0] = true;
  for (int k = 0; k < n; k++) {
    if (code[k].control == Control::Branch) leads[code[k].target] = leads[k + 1] = true;
    if (code[k].control == Control::Exit) leads[k + 1] = true;
  }
  g.blockOf.resize(n);
  for (int k = 0; k < n; k++) {
    if (leads[k]) g.start.push_back(k);
    g.blockOf[k] = int(g.start.size()) - 1;
  }
  int blocks = int(g.start.size());
  g.next.resize(blocks + 1);
  g.before.resize(blocks + 1);
  for (int b = 0; b < blocks; b++) {
    int last = (b + 1 < blocks ? g.start[b + 1] : n) - 1;
    auto edge = [&](int to) {
      g.next[b].push_back(to);
      g.before[to].push_back(b);
    };
    const Instr &i = code[last];
    if (i.control == Control::Branch) edge(g.blockOf[i.target]);
    if (i.control == Control::Exit) edge(blocks);
    bool falls = (i.control != Control::Branch && i.control != Control::Exit) || i.guard >= 0;
    if (falls && b + 1 < blocks) edge(b + 1);
  }
  return g;
}

// postOrder numbers the nodes that reach the exit, children first, walking edges backwards.
std::vector<int> postOrder(const Graph &g, int exit) {
  std::vector<int> order, stack = {exit};
  std::vector<size_t> seenEdges(g.next.size(), 0);
  std::vector<bool> seen(g.next.size(), false);
  seen[exit] = true;
  while (!stack.empty()) {
    int v = stack.back();
    if (seenEdges[v] == g.before[v].size()) {
      order.push_back(v);
      stack.pop_back();
      continue;
    }
    int u = g.before[v][seenEdges[v]++];
    if (!seen[u]) {
      seen[u] = true;
      stack.push_back(u);
    }
  }
  return order;
}

}  // namespace

// Immediate post-dominators by the iteration of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on reversed edges.
void findReconvergence(std::vector<Instr> &code) {
  Graph g = build(code);
  int exit = int(g.start.size());
  std::vector<int> order = postOrder(g, exit), rank(exit + 1, -1), dominator(exit + 1, -1);
  for (size_t k = 0; k < order.size(); k++) rank[order[k]] = int(k);
  dominator[exit] = exit;
  auto meet = [&](int a, int b) {
    while (a != b) {
      while (rank[a] < rank[b]) a = dominator[a];
      while (rank[b] < rank[a]) b = dominator[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = order.size(); k-- > 0;) {
      int v = order[k], d = -1;
      if (v == exit) continue;
      for (int u : g.next[v]) if (dominator[u] >= 0) d = d < 0 ? u : meet(d, u);
      changed |= d != dominator[v];
      dominator[v] = d;
    }
  }
  for (size_t k = 0; k < code.size(); k++) {
    if (code[k].control != Control::Branch) continue;
    int d = dominator[g.blockOf[k]];
    code[k].reconverge = d < 0 || d == exit ? -1 : g.start[d];
  }
}

static void trapped(Warp &w, const Instr &i, uint32_t m) { trap(w, i, uint32_t(__builtin_ctz(m)), kIllegalInstruction, "trap"); }
static void nothing(Warp &, const Instr &, uint32_t) {}

// warpBarrier orders the shared memory of the lanes of a warp.
static void warpBarrier(Warp &w, const Instr &i, uint32_t m) {
  lanes(m, [&](uint32_t l) {
    uint32_t member = at<uint32_t>(w, i.in[0])[l] & w.alive;
    if (member & ~m) trap(w, i, l, kLaunchFailed, "bar.warp.sync: lane " + std::to_string(__builtin_ctz(member & ~m)) + " of the member mask is not here");
  });
  w.epoch++;
}

void decodeControl(Decoder &d) {
  if (d.op == "bra") {
    d.take("uni");
    return d.branch(d.arg(0));
  }
  if (d.op == "ret" || d.op == "exit") {
    d.take("uni");
    return d.exit();
  }
  if (d.op == "call") {
    d.take("uni");
    return d.call();
  }
  if (d.op == "trap" || d.op == "brkpt") return d.emit(trapped);
  if (d.op == "nanosleep") {
    d.take("u32");
    d.in(0, Type::U32);
    return d.emit(nothing);
  }
  if (d.take("warp")) {
    if (!d.take("sync")) throw Unknown{"only bar.warp.sync"};
    d.in(0, Type::B32);
    return d.emit(warpBarrier);
  }
  d.take("cta");
  d.take("aligned");
  if (!d.take("sync")) throw Unknown{"only bar.sync"};
  d.in(0, Type::U32);
  if (d.operands() > 1) d.in(1, Type::U32);
  d.i.control = Control::Barrier;
  d.emit(nullptr);
}

}  // namespace ptx
