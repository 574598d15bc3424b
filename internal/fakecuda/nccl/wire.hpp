// What the ranks of an emulated communicator share: a file in memory, mapped by each rank, whether ranks are threads of one process or
// processes of their own.
#pragma once
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace nccl {

constexpr int kMostRanks = 16;
constexpr size_t kChunk = 64 << 10;  // bytes of a rank that are exchanged at a time

// Slot is what a rank shows the others.
struct Slot {
  std::atomic<uint32_t> attached, phase;  // phase: barriers that it has come to
  std::atomic<uint32_t> gone;             // it needs nothing from the others any more
  int device;
  char doing[160];    // its collective: all ranks must have the same
};

struct Shared {
  std::atomic<uint32_t> bell;  // rung by each change
  Slot slots[kMostRanks];
  uint8_t chunks[kMostRanks][kChunk];
};

// Wire is a rank's end.
class Wire {
 public:
  // patience is called once in a wait that is long, with the ranks that are missing.
  std::function<void(const std::vector<int> &)> patience;
  std::function<void(int)> died;  // once, with a rank whose process has ended
  std::function<int64_t()> longWait;  // milliseconds
  std::atomic<bool> stop{false};  // ends all waits

  ~Wire() { close(); }

  // open attaches a rank. It answers an error's text.
  std::string open(const char *path, int ranks, int rank, int device) {
    ranks_ = ranks, rank_ = rank, path_ = path;
    fd_ = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0 || ftruncate(fd_, sizeof(Shared))) return "cannot make " + path_;
    void *p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (p == MAP_FAILED) return "cannot map " + path_;
    shared_ = static_cast<Shared *>(p);
    struct flock life = area(rank);
    if (fcntl(fd_, F_OFD_SETLK, &life)) return "rank " + std::to_string(rank) + " exists twice";  // released when the process ends
    mine().device = device;
    mine().attached = 1;
    ring();
    return "";
  }

  // unlink removes the name: nobody opens it any more.
  void unlink() { ::unlink(path_.c_str()); }

  void close() {
    if (shared_) {
      mine().gone = 1;
      ring();
      munmap(shared_, sizeof(Shared));
    }
    if (fd_ >= 0) ::close(fd_);
    shared_ = nullptr, fd_ = -1;
  }

  Slot &slot(int r) { return shared_->slots[r]; }
  Slot &mine() { return slot(rank_); }
  uint8_t *chunk(int r) { return shared_->chunks[r]; }

  // meet waits until every rank has attached; barrier, until every rank has come to its barrier of this number. They answer false when
  // stop ended the wait.
  bool meet() {
    return wait([this](int r) { return slot(r).attached != 0; });
  }
  bool barrier() {
    uint32_t phase = ++mine().phase;
    ring();
    return wait([this, phase](int r) { return int32_t(slot(r).phase - phase) >= 0; });
  }

  void ring() {
    shared_->bell++;
    syscall(SYS_futex, &shared_->bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

 private:
  static struct flock area(int rank) {
    struct flock f = {};
    f.l_type = F_WRLCK, f.l_whence = SEEK_SET, f.l_start = rank, f.l_len = 1;
    return f;
  }

  // ended reports whether the process of a rank that had attached holds its lock no more.
  bool ended(int r) {
    struct flock f = area(r);
    return slot(r).attached && !slot(r).gone && !fcntl(fd_, F_OFD_GETLK, &f) && f.l_type == F_UNLCK;
  }

  bool wait(const std::function<bool(int)> &here) {
    auto begin = std::chrono::steady_clock::now();
    bool told = false;
    for (uint64_t look = 0;; look++) {
      uint32_t bell = shared_->bell;
      if (stop) return false;
      std::vector<int> missing;
      for (int r = 0; r < ranks_; r++)
        if (r != rank_ && !here(r)) missing.push_back(r);
      if (missing.empty()) return true;
      for (int r : missing)
        if (look % 4 == 3 && !dead_ && ended(r) && (dead_ = true)) died(r);
      if (!told && std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(longWait())) {
        told = true;
        patience(missing);
      }
      struct timespec nap = {0, 5000000};
      syscall(SYS_futex, &shared_->bell, FUTEX_WAIT, bell, &nap, nullptr, 0);
    }
  }

  std::string path_;
  int fd_ = -1, ranks_ = 0, rank_ = 0;
  bool dead_ = false;
  Shared *shared_ = nullptr;
};

}  // namespace nccl
