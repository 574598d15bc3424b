//go:build ignore

// Memory: one range of device addresses that the host cannot touch, and pinned memory.
//
// Device addresses are real addresses of pages without any permission: a program that follows a device pointer dies at once. The bytes
// live in a second mapping that only the driver knows.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "driver.hpp"

namespace fake {

constexpr uint64_t kAlign = 512;  // bytes, as cuMemAlloc does
static uint64_t rounded(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

int reserveMemory() {
  State &g = state();
  g.config.memory = g.config.memory / kAlign * kAlign;
  void *closed = mmap(nullptr, g.config.memory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void *open = mmap(nullptr, g.config.memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (closed == MAP_FAILED || open == MAP_FAILED) return kOutOfMemory;
  g.base = (uint64_t)closed;
  g.alias = (uint8_t *)open;
  g.free[g.base] = g.config.memory;
  return kOk;
}

// allocateDevice takes the first hole that is large enough.
int allocateDevice(uint64_t bytes, Context *context, Module *module, uint64_t *address) {
  State &g = state();
  uint64_t need = rounded(bytes);
  if (need < bytes) return kOutOfMemory;
  for (auto it = g.free.begin(); it != g.free.end(); ++it) {
    auto [lo, size] = *it;
    if (size < need) continue;
    g.free.erase(it);
    if (size > need) g.free[lo + need] = size - need;
    g.used += need;
    uint8_t *host = g.alias + (lo - g.base);
    if (g.config.poison) memset(host, 0xff, need);
    g.allocations[lo] = {lo, bytes, host, false, g.nextAllocation++, context, module};
    g.ranges.reset();
    *address = lo;
    return kOk;
  }
  return kOutOfMemory;
}

static void addHole(uint64_t lo, uint64_t size) {
  auto &holes = state().free;
  auto next = holes.lower_bound(lo);
  if (next != holes.end() && next->first == lo + size) {
    size += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == lo) {
      before->second += size;
      return;
    }
  }
  holes[lo] = size;
}

void release(const Allocation &a) {
  State &g = state();
  Allocation gone = a;
  forget(gone.lo, gone.lo + gone.bytes);
  g.allocations.erase(gone.lo);
  g.ranges.reset();
  if (gone.pinned) {
    munmap(gone.host, gone.bytes);
    return;
  }
  uint64_t size = rounded(gone.bytes);
  // The pages that are its alone go back to the machine.
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = ((uintptr_t)gone.host + page - 1) / page * page, to = ((uintptr_t)gone.host + size) / page * page;
  if (from < to) madvise((void *)from, to - from, MADV_DONTNEED);
  g.used -= size;
  addHole(gone.lo, size);
}

Allocation *find(uint64_t address) {
  auto &all = state().allocations;
  auto it = all.upper_bound(address);
  if (it == all.begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? &it->second : nullptr;
}

uint8_t *reach(uint64_t address, uint64_t bytes, const std::string &what) {
  Allocation *a = find(address);
  if (!a || bytes > a->lo + a->bytes - address)
    throw ptx::Fault{kIllegalAddress, what + " of " + std::to_string(bytes) + " bytes leaves its allocation"};
  return a->host + (address - a->lo);
}

std::shared_ptr<const std::vector<ptx::Range>> ranges() {
  State &g = state();
  if (!g.ranges) {
    auto list = std::make_shared<std::vector<ptx::Range>>();
    for (auto &[lo, a] : g.allocations) list->push_back({lo, lo + a.bytes, (int64_t)((uint64_t)a.host - lo), a.id});
    g.ranges = list;
  }
  return g.ranges;
}

}  // namespace fake

using namespace fake;

API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER();
  if (!address || !bytes) return kInvalidValue;
  if (int code = refuseCapture(call.context)) return code;
  return allocateDevice(bytes, call.context, nullptr, address);
}

// freeing waits for the device, as CUDA does.
static int freeing(Call &call, uint64_t address, bool pinned) {
  if (!address && !pinned) return kOk;
  if (int code = refuseCapture(call.context)) return code;
  Allocation *a = find(address);
  if (!a || a->lo != address || a->pinned != pinned || a->module) return kInvalidValue;
  Context *c = call.context;
  synchronize(c, call.lock);
  a = find(address);
  if (!a) return kInvalidValue;
  release(*a);
  return c->sticky;
}

API cuMemFree_v2(uint64_t address) {
  ENTER();
  return freeing(call, address, false);
}

API cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  ENTER();
  constexpr unsigned kKnown = 7;  // portable, device map, write-combined
  if (!out || !bytes || flags & ~kKnown) return kInvalidValue;
  if (int code = refuseCapture(call.context)) return code;
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return kOutOfMemory;
  State &g = state();
  g.allocations[(uint64_t)p] = {(uint64_t)p, bytes, (uint8_t *)p, true, g.nextAllocation++, call.context, nullptr};
  g.ranges.reset();
  *out = p;
  return kOk;
}
API cuMemAllocHost_v2(void **out, size_t bytes) { return cuMemHostAlloc(out, bytes, 0); }

API cuMemFreeHost(void *p) {
  ENTER();
  return freeing(call, (uint64_t)p, true);
}

API cuMemHostGetDevicePointer_v2(uint64_t *address, void *p, unsigned flags) {
  ENTER();
  Allocation *a = find((uint64_t)p);
  if (!address || flags || !a || !a->pinned) return kInvalidValue;
  *address = (uint64_t)p;
  return kOk;
}

API cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER();
  if (free) *free = state().config.memory - state().used;
  if (total) *total = state().config.memory;
  return kOk;
}

API cuMemGetAddressRange_v2(uint64_t *lo, size_t *bytes, uint64_t address) {
  ENTER();
  Allocation *a = find(address);
  if (!a) return kNotFound;
  if (lo) *lo = a->lo;
  if (bytes) *bytes = a->bytes;
  return kOk;
}
