//go:build ignore

// Stream capture and graphs.
#include "driver.hpp"

namespace fake {

// conflict answers the bytes on which two nodes' accesses conflict; lo = hi: none.
static std::pair<uint64_t, uint64_t> conflict(const Accesses &a, const Accesses &b) {
  for (const Access &x : a)
    for (const Access &y : b)
      if ((x.write || y.write) && x.lo < y.hi && y.lo < x.hi) return {std::max(x.lo, y.lo), std::min(x.hi, y.hi)};
  return {0, 0};
}

// order answers the nodes in an order that their dependencies allow: as captured, or, where delays are on, one from the seed, since a
// device may run nodes that do not depend on each other in any order.
static std::vector<size_t> order(const std::vector<Node> &nodes, uint64_t random, bool shuffled) {
  std::vector<size_t> out, ready;
  std::vector<size_t> waits(nodes.size());
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t i = 0; i < nodes.size(); i++) {
    waits[i] = nodes[i].after.size();
    for (int d : nodes[i].after) next[d].push_back(i);
    if (!waits[i]) ready.push_back(i);
  }
  while (!ready.empty()) {
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    size_t k = shuffled ? (random >> 33) % ready.size() : 0;
    size_t i = ready[k];
    ready.erase(ready.begin() + k);
    out.push_back(i);
    for (size_t n : next[i])
      if (!--waits[n]) ready.push_back(n);
  }
  return out;
}

static void checkNodes(const Exec &e, const std::vector<Accesses> &each) {
  for (size_t i = 0; i < e.ordered.size(); i++)
    for (size_t j = 0; j < i; j++) {
      if (e.ordered[i][j]) continue;
      auto [lo, hi] = conflict(each[j], each[i]);
      if (lo == hi) continue;
      Lock lock(state().mu);
      Allocation *m = find(lo);
      uint64_t base = m ? m->lo : 0;
      report("race: " + e.nodes[j].what + " and " + e.nodes[i].what + " of one graph touch bytes " + std::to_string(lo - base) +
             " to " + std::to_string(hi - base) + " of allocation " + std::to_string(m ? m->id : 0) + " with no order between them");
      return;
    }
}

// runGraph runs one launch. random differs from launch to launch.
static void runGraph(const Exec &e, uint64_t random, bool shuffled, Accesses &accesses) {
  std::vector<Accesses> each(e.nodes.size());
  for (size_t i : order(e.nodes, random, shuffled && !e.ordered.empty())) e.nodes[i].work(each[i]);
  checkNodes(e, each);
  for (size_t i = 0; i < each.size(); i++) {
    auto what = std::make_shared<const std::string>(e.nodes[i].what);
    for (Access &a : each[i]) {
      a.what = what;
      accesses.push_back(a);
    }
  }
}

// relations fills e.ordered, unless the nodes are one chain.
static void relations(Exec &e) {
  bool chain = true;
  for (size_t i = 1; i < e.nodes.size(); i++) chain = chain && e.nodes[i].after == std::vector<int>{(int)i - 1};
  if (chain) return;
  e.ordered.resize(e.nodes.size());
  for (size_t i = 0; i < e.nodes.size(); i++) {
    e.ordered[i].resize(i);
    for (int d : e.nodes[i].after) {
      e.ordered[i][d] = true;
      for (int k = 0; k < d; k++)
        if (e.ordered[d][k]) e.ordered[i][k] = true;
    }
  }
}

// leave ends a capture for all streams that take part.
static void leave(Context *c, const std::shared_ptr<Capture> &capture) {
  for (Stream *s : c->streams)
    if (s->capture == capture) {
      s->capture.reset();
      s->tail.clear();
    }
}

// joined reports whether the origin comes after all nodes.
static bool joined(const Capture &c) {
  std::vector<bool> seen(c.nodes.size());
  std::vector<int> todo = c.origin->tail;
  size_t n = 0;
  while (!todo.empty()) {
    int i = todo.back();
    todo.pop_back();
    if (seen[i]) continue;
    seen[i] = true;
    n++;
    todo.insert(todo.end(), c.nodes[i].after.begin(), c.nodes[i].after.end());
  }
  return n == c.nodes.size();
}

}  // namespace fake

using namespace fake;

API cuStreamBeginCapture_v2(void *handle, int mode) {
  ENTER();
  constexpr int kRelaxed = 2;
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (mode < 0 || mode > kRelaxed) return kInvalidValue;
  if (s->legacy) return kCaptureUnsupported;
  if (s->capture) return kInvalidValue;
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s;
  s->capture->mode = mode;
  s->capture->thread = std::this_thread::get_id();
  s->tail.clear();
  return kOk;
}

API cuStreamEndCapture(void *handle, Graph **out) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!out || !s->capture) return kInvalidValue;
  auto capture = s->capture;
  if (capture->origin != s) {
    capture->invalid = true;
    return kCaptureUnmatched;
  }
  bool whole = joined(*capture);
  leave(call.context, capture);
  *out = nullptr;
  if (capture->invalid) return kCaptureInvalidated;
  if (!whole) return kCaptureUnjoined;
  *out = new Graph{call.context, capture->nodes};
  born(*out, kGraphs);
  return kOk;
}

API cuStreamIsCapturing(void *handle, int *status) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!status) return kInvalidValue;
  *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
  return kOk;
}

// A graph that is made node by node is not emulated beyond an empty one.
API cuGraphCreate(Graph **out, unsigned flags) {
  ENTER();
  if (!out || flags) return kInvalidValue;
  *out = new Graph{call.context, {}};
  born(*out, kGraphs);
  return kOk;
}

API cuGraphDestroy(Graph *graph) {
  ENTER();
  if (!alive(graph, kGraphs)) return kInvalidValue;
  dead(graph);
  delete graph;
  return kOk;
}

API cuGraphGetNodes(Graph *graph, void **nodes, size_t *n) {
  ENTER();
  if (!alive(graph, kGraphs) || !n) return kInvalidValue;
  if (nodes) return kNotSupported;
  *n = graph->nodes.size();
  return kOk;
}

static int instantiate(Call &call, Exec **out, Graph *graph) {
  if (!out || !alive(graph, kGraphs)) return kInvalidValue;
  *out = new Exec{call.context, graph->nodes, {}};
  relations(**out);
  born(*out, kExecs);
  return kOk;
}

API cuGraphInstantiateWithFlags(Exec **out, Graph *graph, unsigned long long flags) {
  ENTER();
  if (flags) return kNotSupported;
  return instantiate(call, out, graph);
}

API cuGraphInstantiate_v2(Exec **out, Graph *graph, void **node, char *log, size_t bytes) {
  ENTER();
  if (node) *node = nullptr;
  if (log && bytes) *log = 0;
  return instantiate(call, out, graph);
}

API cuGraphExecDestroy(Exec *e) {
  ENTER();
  if (!alive(e, kExecs)) return kInvalidValue;
  Context *c = call.context;
  synchronize(c, call.lock);  // it may be running
  dead(e);
  delete e;
  return c->sticky;
}

API cuGraphUpload(Exec *e, void *handle) {
  ENTER();
  if (!alive(e, kExecs)) return kInvalidValue;
  return streamOf(call.context, handle) ? kOk : kInvalidHandle;
}

API cuGraphLaunch(Exec *e, void *handle) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!alive(e, kExecs)) return kInvalidValue;
  if (s->capture) {
    s->capture->invalid = true;
    return kNotSupported;  // graphs in graphs
  }
  s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
  Operation op;
  op.what = "a graph";
  op.computes = true;
  op.work = [e, random = s->random, shuffled = state().config.delay_us > 0](Accesses &a) { runGraph(*e, random, shuffled, a); };
  return enqueue(s, std::move(op));
}
