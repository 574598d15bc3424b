//go:build ignore

#include "comm.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace nccl {

const Driver *driver() {
  static Driver d;
  static std::once_flag once;
  static bool found = false;
  std::call_once(once, [] {
    auto find = [](auto *to, const char *name) { return (*(void **)to = dlsym(RTLD_DEFAULT, name)) != nullptr; };
    found = find(&d.work, "fakecuda_work") && find(&d.enter, "fakecuda_enter") && find(&d.tell, "fakecuda_tell") && find(&d.setting, "fakecuda_setting") &&
            find(&d.device, "cuCtxGetDevice") && find(&d.capturing, "cuStreamIsCapturing") && find(&d.context, "cuCtxGetCurrent") &&
            find(&d.setContext, "cuCtxSetCurrent") && find(&d.allocate, "cuMemAlloc_v2") && find(&d.free, "cuMemFree_v2");
  });
  return found ? &d : nullptr;
}

void tell(const std::string &text) { driver()->tell(("nccl: " + text).c_str()); }

std::string rankNames(const std::vector<int> &ranks) {
  std::string s = ranks.size() == 1 ? "rank" : "ranks";
  for (int r : ranks) s += " " + std::to_string(r);
  return s;
}

std::string Call::text() const {
  constexpr const char *kinds[] = {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast"};
  std::string s = std::string(kinds[kind]) + " of " + std::to_string(count) + " " + name(type);
  if (kind == kBroadcast) return s + " from rank " + std::to_string(root);
  return kind == kAllGather ? s : s + (reduction == kMax ? " max" : " sum");
}

// fail keeps the first error.
void Comm::fail(Result r, const std::string &text) {
  std::lock_guard<std::mutex> lock(mu);
  if (state != kSuccess && state != kInProgress) return;
  snprintf(error, sizeof error, "%s", text.c_str());
  state = r;
}

// join attaches to the other ranks, and checks that each has a device of its own.
void Comm::join(const std::string &path) {
  wire.longWait = [] { return driver()->setting("nccl_hang_ms"); };
  wire.patience = [this](const std::vector<int> &missing) {
    tell("hang: rank " + std::to_string(rank) + " waits for " + rankNames(missing) + " in ncclCommInitRankConfig");
  };
  wire.died = [this](int r) { fail(kRemoteError, "the process of rank " + std::to_string(r) + " has ended"); };
  std::string wrong = wire.open(path.c_str(), ranks, rank, device);
  if (!wrong.empty()) return fail(kInvalidUsage, wrong);
  if (!wire.meet()) return;
  for (int r = 0; r < ranks; r++)
    for (int o = 0; o < r; o++)
      if (wire.slot(r).device == wire.slot(o).device)
        return fail(kInvalidUsage, "duplicate GPU: ranks " + std::to_string(o) + " and " + std::to_string(r) + " both use device " + std::to_string(wire.slot(r).device));
  if (!wire.barrier()) return;
  wire.unlink();
  std::lock_guard<std::mutex> lock(mu);
  if (state == kInProgress) state = kSuccess;
}

static void runTask(void *arg, uint8_t **places) {
  auto *t = static_cast<Task *>(arg);
  for (size_t i = 0; i < t->calls.size(); i++) t->comm->run(t->calls[i], places[2 * i], places[2 * i + 1]);
  if (!t->captured && !t->ran) t->comm->flying--;
  t->ran = true;
}

static void dropTask(void *arg) {
  auto *t = static_cast<Task *>(arg);
  if (t->captured)
    t->comm->graphs--;
  else if (!t->ran)
    t->comm->flying--;
  delete t;
}

static int launch(std::unique_ptr<Task> t) {
  std::vector<Access> accesses;
  std::string text;
  int ranks = t->comm->ranks;
  for (const Call &c : t->calls) {
    size_t send = c.bytes() * (c.kind == kReduceScatter ? ranks : 1), recv = c.bytes() * (c.kind == kAllGather ? ranks : 1);
    bool root = c.kind == kBroadcast && t->comm->rank == c.root;
    if (c.kind == kBroadcast && !root) send = 0;
    accesses.push_back({c.send, send, 0});
    accesses.push_back({c.recv, recv, 1});
    if (text.size() < 200) text += (text.empty() ? "" : ", ") + c.text();
  }
  int status = 0;
  if (driver()->capturing(t->stream, &status)) return kInvalidArgument;
  t->captured = status != 0;
  Comm *comm = t->comm;
  (t->captured ? comm->graphs : comm->flying)++;
  void *stream = t->stream;
  return driver()->work(stream, text.c_str(), accesses.data(), (int)accesses.size(), runTask, t.release(), dropTask) ? kCudaError : kSuccess;
}

// submit enqueues a task: at once, or, where the setting nccl_polls says so, only when it has been polled often enough. Work that is
// enqueued before that would not come after it.
int Comm::submit(std::unique_ptr<Task> t) {
  std::lock_guard<std::mutex> lock(mu);
  polls = (int)driver()->setting("nccl_polls");
  if (polls <= 0) return launch(std::move(t));
  pending = std::move(t);
  state = kInProgress;
  return kInProgress;
}

// finalize ends when all that was enqueued has run.
int Comm::finalize() {
  std::lock_guard<std::mutex> lock(mu);
  if (finalizing) return kInvalidUsage;
  finalizing = true;
  polls = (int)driver()->setting("nccl_polls");
  return state = kInProgress;
}

// poll answers the state, after the work that belongs to it.
int Comm::poll() {
  std::lock_guard<std::mutex> lock(mu);
  if (pending && --polls <= 0) {
    int code = launch(std::move(pending));
    if (state == kInProgress) state = code;
  }
  if (finalizing && state == kInProgress && --polls <= 0 && flying == 0) state = kSuccess;
  return state;
}

// run runs a collective of this rank on its stream. It ends early if the communicator is aborted, and does nothing where ranks differ.
void Comm::run(const Call &c, uint8_t *send, uint8_t *recv) {
  std::string text = c.text();
  std::lock_guard<std::mutex> alone(running);
  wire.patience = [&](const std::vector<int> &missing) { tell("hang: rank " + std::to_string(rank) + " waits for " + rankNames(missing) + " in " + text); };
  snprintf(wire.mine().doing, sizeof wire.mine().doing, "%s", text.c_str());
  if (!wire.barrier()) return;
  int other = -1;
  std::string theirs;
  for (int r = 0; r < ranks && other < 0; r++)
    if (strcmp(wire.slot(r).doing, wire.mine().doing)) other = r, theirs = wire.slot(r).doing;
  if (!wire.barrier()) return;
  if (other >= 0) {
    tell("mismatch: rank " + std::to_string(rank) + " runs " + text + ", rank " + std::to_string(other) + " " + theirs);
    return fail(kInvalidUsage, "ranks run different collectives");
  }
  size_t w = width(c.type), part = c.bytes(), all = part * (c.kind == kReduceScatter ? ranks : 1), owner = 0;
  bool sends = c.kind != kBroadcast || rank == c.root;
  for (size_t at = 0; at < all; owner = part ? at / part : 0) {
    size_t n = std::min({kChunk, all - at, part - at % part}), in = at % part;
    if (sends) memcpy(wire.chunk(rank), send + at, n);
    if (!wire.barrier()) return;
    if (c.kind == kAllReduce || (c.kind == kReduceScatter && (int)owner == rank)) {
      uint8_t *to = recv + (c.kind == kAllReduce ? at : in);
      memcpy(to, wire.chunk(0), n);
      for (int r = 1; r < ranks; r++) reduce(c.type, c.reduction, to, wire.chunk(r), n / w);
    } else if (c.kind == kAllGather) {
      for (int r = 0; r < ranks; r++) memcpy(recv + r * part + at, wire.chunk(r), n);
    } else if (c.kind == kBroadcast) {
      memcpy(recv + at, wire.chunk(c.root), n);
    }
    if (!wire.barrier()) return;
    at += n;
  }
}

}  // namespace nccl
