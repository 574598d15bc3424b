//go:build ignore

// libnccl.so.2 without a GPU: the calls of NCCL that kernels/cuda makes, on the emulated driver of this process. It is stricter than
// NVIDIA's: collectives that differ between ranks, a call before the last one has ended, and a communicator that is destroyed before its graphs
// are refused and reported; so is a rank that others wait for.
// It has no communicators that block.
#include "comm.hpp"

#define API extern "C" __attribute__((visibility("default")))

using namespace nccl;

namespace {

struct Id {
  char path[128];
};

// Config is ncclConfig_t as far as version 2.14 has it.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

std::mutex aliveMu;
std::set<Comm *> alive;

bool known(Comm *c) {
  std::lock_guard<std::mutex> lock(aliveMu);
  return alive.count(c) != 0;
}

// enter begins a call: it answers a code that the call returns at once, or -1 to go on.
int enter(const char *name) {
  if (!driver()) return kInternalError;
  int code = driver()->enter(name);
  return code == 0 ? -1 : code < 0 ? (int)kSuccess : code;
}
#define ENTER() \
  if (int code = enter(__func__); code >= 0) return code

// ready is enter of a call on a communicator that must be idle.
int ready(const char *name, Comm *c) {
  if (!known(c)) {
    tell(std::string("usage: ") + name + " of a communicator that is not there");
    return kInvalidArgument;
  }
  int state = c->state;
  if (state == kInProgress) {
    tell(std::string("usage: ") + name + " of rank " + std::to_string(c->rank) + " before ncclCommGetAsyncError has answered that the call before has ended");
    return kInvalidUsage;
  }
  return state;
}

// Calls between ncclGroupStart and ncclGroupEnd of a thread, by communicator and stream.
thread_local int depth = 0;
thread_local std::vector<std::unique_ptr<Task>> grouped;

int collect(const char *name, Comm *c, void *stream, Call call) {
  if (int code = ready(name, c)) return code;
  bool bad = !width(call.type) || (call.kind <= kReduceScatter && call.reduction != kSum && call.reduction != kMax) || call.root < 0 || call.root >= c->ranks ||
             (call.count && !(call.send && call.recv)) || (call.send | call.recv) % (width(call.type) ? width(call.type) : 1);
  if (bad) return kInvalidArgument;
  if (!depth) {
    auto t = std::make_unique<Task>(Task{c, stream, {call}});
    return c->submit(std::move(t));
  }
  for (auto &t : grouped)
    if (t->comm == c && t->stream == stream) {
      t->calls.push_back(call);
      return kSuccess;
    }
  grouped.push_back(std::make_unique<Task>(Task{c, stream, {call}}));
  return kSuccess;
}

// forget ends a communicator, when its graphs are gone.
void forget(Comm *c) {
  {
    std::lock_guard<std::mutex> lock(aliveMu);
    alive.erase(c);
  }
  if (c->start.joinable()) c->start.join();
  c->wire.unlink();
  for (int waited = 0; c->graphs > 0 || c->flying > 0; waited++) {
    if (waited == driver()->setting("nccl_hang_ms"))
      tell("hang: rank " + std::to_string(c->rank) + " ends its communicator, of which " + std::to_string(c->graphs) + " pieces of graphs are left");
    usleep(1000);
  }
  void *before = nullptr;
  driver()->context(&before);
  if (!driver()->setContext(c->context)) driver()->free(c->own);  // else it went with its context
  driver()->setContext(before);
  delete c;
}

}  // namespace

API int ncclGetVersion(int *version) {
  ENTER();
  if (!version) return kInvalidArgument;
  *version = (int)driver()->setting("nccl_version");
  return kSuccess;
}

API int ncclGetUniqueId(Id *id) {
  ENTER();
  if (!id) return kInvalidArgument;
  uint64_t random[2];
  if (getentropy(random, sizeof random)) return kSystemError;
  memset(id, 0, sizeof *id);
  snprintf(id->path, sizeof id->path, "/dev/shm/fakecuda-nccl-%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
  return kSuccess;
}

API int ncclCommInitRankConfig(Comm **out, int ranks, Id id, int rank, const Config *config) {
  ENTER();
  constexpr unsigned kMagic = 0xcafebeef;
  int device;
  if (!out || ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks || strncmp(id.path, "/dev/shm/fakecuda-nccl-", 23) || !config || config->magic != kMagic ||
      config->size < sizeof(Config) || config->version < 21400 || config->blocking)
    return kInvalidArgument;
  void *context = nullptr;
  uint64_t own;
  if (driver()->device(&device) || driver()->context(&context) || driver()->allocate(&own, kOwnBytes)) return kCudaError;
  auto *c = new Comm;
  c->context = context, c->own = own;
  c->rank = rank, c->ranks = ranks, c->device = device;
  {
    std::lock_guard<std::mutex> lock(aliveMu);
    alive.insert(c);
  }
  *out = c;
  c->start = std::thread([c, path = std::string(id.path)] { c->join(path); });
  return kInProgress;
}

API int ncclCommGetAsyncError(Comm *c, int *state) {
  ENTER();
  if (!state || !known(c)) return kInvalidArgument;
  *state = c->poll();
  return kSuccess;
}

API int ncclCommFinalize(Comm *c) {
  ENTER();
  if (int code = ready(__func__, c)) return code;
  return c->finalize();
}

API int ncclCommDestroy(Comm *c) {
  ENTER();
  if (!known(c)) return kInvalidArgument;
  if (c->graphs > 0) {
    tell("usage: rank " + std::to_string(c->rank) + " destroys its communicator before the graphs that it is in");
    return kInvalidUsage;
  }
  forget(c);
  return kSuccess;
}

// ncclCommAbort ends all that waits, and returns when the graphs of the communicator are gone, as NVIDIA's.
API int ncclCommAbort(Comm *c) {
  ENTER();
  if (!known(c)) return kInvalidArgument;
  c->wire.stop = true;
  if (c->start.joinable()) c->start.join();
  {
    std::lock_guard<std::mutex> lock(c->mu);
    c->pending.reset();
  }
  forget(c);
  return kSuccess;
}

API const char *ncclGetErrorString(int code) {
  constexpr const char *texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
                                   "remote process exited or there was a network error", "NCCL operation in progress"};
  return code >= 0 && code <= kInProgress ? texts[code] : "unknown result code";
}

API const char *ncclGetLastError(Comm *c) { return known(c) ? c->error : ""; }

API int ncclAllReduce(const void *send, void *recv, size_t count, int type, int reduction, Comm *c, void *stream) {
  ENTER();
  return collect(__func__, c, stream, {kAllReduce, (uint64_t)send, (uint64_t)recv, count, type, reduction, 0});
}

API int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int reduction, Comm *c, void *stream) {
  ENTER();
  return collect(__func__, c, stream, {kReduceScatter, (uint64_t)send, (uint64_t)recv, count, type, reduction, 0});
}

API int ncclAllGather(const void *send, void *recv, size_t count, int type, Comm *c, void *stream) {
  ENTER();
  return collect(__func__, c, stream, {kAllGather, (uint64_t)send, (uint64_t)recv, count, type, kSum, 0});
}

API int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, Comm *c, void *stream) {
  ENTER();
  return collect(__func__, c, stream, {kBroadcast, (uint64_t)send, (uint64_t)recv, count, type, kSum, root});
}

API int ncclGroupStart() {
  ENTER();
  depth++;
  return kSuccess;
}

API int ncclGroupEnd() {
  if (int code = enter(__func__); code >= 0) {
    depth = 0;
    grouped.clear();
    return code;
  }
  if (!depth) return kInvalidUsage;
  if (--depth) return kSuccess;
  int code = kSuccess;
  for (auto &t : grouped) {
    Comm *c = t->comm;
    if (int got = c->submit(std::move(t)); code == kSuccess || code == kInProgress) code = got ? got : code;
  }
  grouped.clear();
  return code;
}
