// The emulated driver: what all of its files share.
//
// One mutex, state.mu, guards everything but the bytes of memory and running operations. A stream is a thread that takes operations
// from its queue. Order is computed twice: operations really wait for one another (Done), and carry vector clocks (Clock) from which
// check.cpp decides whether two accesses were ordered at all, whatever the threads happened to do.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ptx.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))
#define API EXPORT int

namespace fake {

// CUresults of cuda.h.
enum : int {
  kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200,
  kInvalidContext = 201, kNoBinary = 209, kUnsupportedPtx = 222, kFileNotFound = 301, kInvalidHandle = 400, kNotFound = 500,
  kNotReady = 600, kIllegalAddress = 700, kOutOfResources = 701, kPrimaryActive = 708, kLaunchFailed = 719, kNotSupported = 801,
  kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureMerge = 902, kCaptureUnmatched = 903, kCaptureUnjoined = 904,
  kCaptureIsolation = 905, kCaptureImplicit = 906, kCapturedEvent = 907,
};

// kOmitted is no CUresult: a fault of this code makes a call do nothing and answer success.
constexpr int kOmitted = -1;

// Kind is a kind of object that the ledger counts.
enum Kind { kDeviceMemory, kPinnedMemory, kContexts, kStreams, kEvents, kModules, kGraphs, kExecs, kKinds };

// Config is set by the environment, FAKECUDA_ and the name in capitals, and by fakecuda_set.
struct Config {
  int64_t memory = 1ll << 30;   // bytes of device memory, read by cuInit
  int64_t context = 1 << 20;    // bytes of it that each context takes for itself
  int64_t devices = 1;          // 0: cuInit answers CUDA_ERROR_NO_DEVICE. All share the memory
  int64_t capability = 80;      // compute capability times ten
  int64_t processors = 8;       // multiprocessors
  int64_t delay_us = 0;         // most microseconds that an operation is delayed by, from seed
  int64_t seed = 1;
  int64_t check = 1;            // report accesses without order
  int64_t poison = 1;           // fill new memory with NaNs
  int64_t shared_race = 0;      // find races in shared memory
  int64_t shuffle = 0;          // run warps in an order from seed
  int64_t approx_ulp = 0;       // disturb approximate instructions
  int64_t threads = 1;          // that run a kernel's blocks
  int64_t skip_kernels = 0;     // launches do nothing: to measure the host
  int64_t hold = 0;             // until it is 0 again: 1 no work of streams begins, 2 no kernel and no graph
  int64_t at_once = 0;          // work that waits for nothing runs in the call that enqueues it: to measure the host, without its threads
  int64_t verbose = 0;          // write reports to standard error too
  int64_t nccl_version = 22703; // of the emulated NCCL
  int64_t nccl_polls = 2;       // calls of ncclCommGetAsyncError until a call that does not block has ended; 0: none
  int64_t nccl_hang_ms = 5000;  // a wait for other ranks that is longer is reported
};

// Clock has a component for each stream, and the host's as component 0: how many of its operations came before.
using Clock = std::vector<uint64_t>;
void join(Clock &into, const Clock &from);
inline uint64_t at(const Clock &c, size_t i) { return i < c.size() ? c[i] : 0; }

// Done is whether an operation has run, and when.
struct Done {
  bool done = false;
  std::chrono::steady_clock::time_point when;
};
using DonePtr = std::shared_ptr<Done>;

// Access is bytes [lo, hi) that an operation read or wrote.
struct Access {
  uint64_t lo, hi;
  bool write;
  std::shared_ptr<const std::string> what;  // the graph's node; null: the operation itself
};
using Accesses = std::vector<Access>;
using Work = std::function<void(Accesses &)>;  // throws ptx::Fault

struct Operation {
  std::string what;
  Work work;                    // none: only order
  bool computes = false;        // a kernel, or a graph
  std::vector<DonePtr> after;   // of other streams
  DonePtr done;
  Clock clock;
};

// Node is an operation of a graph; after are nodes before it in the list.
struct Node {
  std::string what;
  Work work;
  std::vector<int> after;
};

struct Context;
struct Stream;

struct Graph {
  Context *context;
  std::vector<Node> nodes;
};

// Exec is a graph fit to be launched. ordered[i][j] says whether j < i happens before i; empty: the nodes are one chain.
struct Exec {
  Context *context;
  std::vector<Node> nodes;
  std::vector<std::vector<bool>> ordered;
};

// Capture is what the streams that take part in a capture share.
struct Capture {
  std::vector<Node> nodes;
  Stream *origin;
  bool invalid = false;
  int mode = 0;                  // 0: no thread may make calls that captures forbid, 1: the capturing one may not, 2: all may
  std::thread::id thread;        // that began it
};

struct Stream {
  Context *context;
  size_t id;  // component of clocks
  bool blocking, legacy;
  int priority;
  std::deque<Operation> queue;
  DonePtr last;
  Clock clock;
  std::thread thread;
  std::condition_variable wake;
  bool quit = false;
  uint64_t random;
  std::shared_ptr<Capture> capture;
  std::vector<int> tail;  // nodes that the next captured one comes after
};

struct Event {
  Context *context;
  bool timing;
  DonePtr done;  // null: never recorded
  Clock clock;
  std::shared_ptr<Capture> capture;
  std::vector<int> tail;
};

struct Module;
struct Function {
  Module *module;
  const ptx::Kernel *kernel;
  uint32_t dynamicShared;  // most bytes that a launch may ask for
};

struct Module {
  Context *context;
  std::unique_ptr<ptx::Module> code;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Allocation is device or pinned memory [lo, lo + bytes). Pinned memory has the same address on host and device.
struct Allocation {
  uint64_t lo, bytes;
  uint8_t *host;  // where the driver reaches it
  bool pinned;
  int id;
  Context *context;
  Module *module;  // whose variable it is, or null
};

struct Context {
  int sticky = 0;       // the error that poisoned it
  int device = 0;
  bool primary = false;
  int uses = 0;         // of a primary one
  uint64_t own = 0, ownBytes = 0;  // device memory that it takes for itself
  unsigned flags = 0;
  std::unique_ptr<Stream> legacy;
  std::set<Stream *> streams;
};

// Primary is the primary context of a device, while it is retained.
struct Primary {
  Context *context = nullptr;
  unsigned flags = 0;
};

struct State {
  std::mutex mu;
  std::condition_variable changed;  // an operation is done
  Config config;
  bool initialized = false;
  uint64_t base = 0;           // of device memory: pages that nobody can touch
  uint8_t *alias = nullptr;    // the same memory, for the driver
  uint64_t used = 0;           // bytes
  std::map<uint64_t, uint64_t> free;  // address to bytes, no two touch
  std::map<uint64_t, Allocation> allocations;
  std::shared_ptr<const std::vector<ptx::Range>> ranges;  // null: allocations changed
  int nextAllocation = 1;
  size_t nextStream = 1;
  Clock host;
  std::map<int, Primary> primaries;  // by device
  std::map<void *, Kind> live;
  std::set<Function *> functions;
  uint64_t abandoned = 0;    // objects alive when their context was destroyed
  uint64_t unsupported = 0;  // calls of what is not emulated
  std::map<std::string, uint64_t> calls;
  std::map<std::string, uint64_t> copied;  // bytes, by function
  std::vector<std::string> reports;
};
State &state();

using Lock = std::unique_lock<std::mutex>;

// Call is what every function of the API begins with: it takes the lock, counts, fails if it was told to, and finds the context.
struct Call {
  enum Needs { kNothing, kInit, kContext, kContextEvenPoisoned };
  Call(const char *name, Needs needs);
  Lock lock;
  Context *context = nullptr;
  int code = kOk;
  int answer() const { return code == kOmitted ? kOk : code; }
};
#define ENTER_WITH(needs) \
  fake::Call call(__func__, fake::Call::needs); \
  if (call.code) return call.answer()
#define ENTER() ENTER_WITH(kContext)

// driver.cpp, context.cpp
std::string plainName(const std::string &name);  // without _v2, _ptsz
int64_t attribute(int a);                        // of the device; -1: unknown
int badDevice(int device);
Context *current();

// fault.cpp
int injected(const std::string &name);  // the code that this call shall answer, 0: none
bool poisons(int code);
void readFaults(const char *text);

// memory.cpp
int reserveMemory();
int allocateDevice(uint64_t bytes, Context *context, Module *module, uint64_t *address);
void release(const Allocation &a);
Allocation *find(uint64_t address);
// reach returns where the driver reaches device-accessible bytes; it throws a Fault if they are not all allocated.
uint8_t *reach(uint64_t address, uint64_t bytes, const std::string &what);
std::shared_ptr<const std::vector<ptx::Range>> ranges();

// stream.cpp
Stream *makeStream(Context *c, bool blocking, bool legacy, int priority);
void stopStream(Stream *s, Lock &lock);
Stream *streamOf(Context *c, void *handle);       // null: no such stream
int enqueue(Stream *s, Operation op);             // or captures
void await(DonePtr done, Lock &lock);
void synchronize(Stream *s, Lock &lock);
void synchronize(Context *c, Lock &lock);
bool capturing(Context *c);
int refuseCapture(Context *c);                    // for calls that a capture does not allow

// event.cpp, module.cpp, graph.cpp
void destroyModule(Module *m);

// check.cpp
void checkAccesses(size_t stream, const std::string &what, const Clock &clock, const Accesses &accesses);
void forget(uint64_t lo, uint64_t hi);
void report(const std::string &text);

// ledger.cpp
void born(void *object, Kind kind);
void dead(void *object);
bool alive(void *object, Kind kind);

}  // namespace fake
