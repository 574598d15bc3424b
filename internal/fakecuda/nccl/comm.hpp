// Communicators of the emulated NCCL, and what their collectives do on a stream.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "reduce.hpp"
#include "wire.hpp"

namespace nccl {

// ncclResult_t.
enum Result : int { kSuccess, kCudaError, kSystemError, kInternalError, kInvalidArgument, kInvalidUsage, kRemoteError, kInProgress };

struct Access {
  uint64_t address, bytes;
  int write;
};

// Driver is the functions of the emulated driver in this process.
struct Driver {
  int (*work)(void *, const char *, const Access *, int, void (*)(void *, uint8_t **), void *, void (*)(void *));
  int (*enter)(const char *);          // counts a call, and answers the code that it shall return
  void (*tell)(const char *);          // adds a report
  int64_t (*setting)(const char *);
  int (*device)(int *);                // of the current context
  int (*capturing)(void *, int *);
  int (*context)(void **);             // the current one
  int (*setContext)(void *);
  int (*allocate)(uint64_t *, size_t);
  int (*free)(uint64_t);
};
const Driver *driver();  // null: it is not loaded

enum Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast };

// Call is one collective. send and recv are device addresses.
struct Call {
  Kind kind;
  uint64_t send, recv;
  size_t count;  // NCCL's: of each rank's part where data have parts
  int type, reduction, root;
  std::string text() const;
  size_t bytes() const { return count * width(type); }
};

constexpr size_t kOwnBytes = 1 << 20;

struct Comm;

// Task is calls that are enqueued as one piece of work.
struct Task {
  Comm *comm;
  void *stream;
  std::vector<Call> calls;
  bool captured = false, ran = false;
};

struct Comm {
  int rank, ranks, device;
  void *context;
  uint64_t own = 0;  // device memory that every communicator takes, as NVIDIA's does
  Wire wire;
  std::thread start;  // joins the other ranks
  std::atomic<int> state{kInProgress};
  std::atomic<int> graphs{0}, flying{0};  // tasks in graphs, and tasks that are enqueued and have not run
  std::mutex running;  // held by the collective that runs: they come one after another, on whatever streams

  std::mutex mu;      // guards what follows
  char error[256] = "";
  std::unique_ptr<Task> pending;  // enqueued when polls has come to 0
  int polls = 0;
  bool finalizing = false;

  void fail(Result r, const std::string &text);
  void join(const std::string &path);
  int submit(std::unique_ptr<Task> t);
  int finalize();
  int poll();
  void run(const Call &c, uint8_t *send, uint8_t *recv);
};

std::string rankNames(const std::vector<int> &ranks);
void tell(const std::string &text);

}  // namespace nccl
