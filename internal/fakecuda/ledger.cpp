//go:build ignore

// The ledger of living objects, and the counts of calls.
#include <cstdio>
#include <cstring>

#include "driver.hpp"

namespace fake {

void born(void *object, Kind kind) { state().live[object] = kind; }

void dead(void *object) { state().live.erase(object); }

bool alive(void *object, Kind kind) {
  auto it = state().live.find(object);
  return it != state().live.end() && it->second == kind;
}

}  // namespace fake

using namespace fake;

// fakecuda_ledger writes counts of living objects by Kind, then bytes of device memory, bytes of pinned memory, objects that outlived
// their context, and calls of what is not emulated: 12 numbers.
API fakecuda_ledger(uint64_t *out, int n) {
  Lock lock(state().mu);
  const State &g = state();
  uint64_t all[kKinds + 4] = {};
  for (auto &[_, kind] : g.live) all[kind]++;
  for (auto &[_, a] : g.allocations) {
    if (a.module) continue;  // its variables come and go with it
    all[a.pinned ? kPinnedMemory : kDeviceMemory]++;
    all[kKinds + a.pinned] += a.bytes;
  }
  all[kKinds + 2] = g.abandoned;
  all[kKinds + 3] = g.unsupported;
  if (!out || n != kKinds + 4) return kInvalidValue;
  memcpy(out, all, sizeof all);
  return kOk;
}

// fakecuda_calls returns how often a function was called; null: any.
EXPORT uint64_t fakecuda_calls(const char *name) {
  Lock lock(state().mu);
  const State &g = state();
  if (name) {
    auto it = g.calls.find(plainName(name));
    return it == g.calls.end() ? 0 : it->second;
  }
  uint64_t sum = 0;
  for (auto &[_, n] : g.calls) sum += n;
  return sum;
}

// fakecuda_called copies the name of function i, from 0, of those that were called, and returns its length; -1: there are no more.
API fakecuda_called(int i, char *name, int bytes) {
  Lock lock(state().mu);
  const State &g = state();
  if (i < 0 || (size_t)i >= g.calls.size()) return -1;
  const std::string &plain = std::next(g.calls.begin(), i)->first;
  if (name && bytes > 0) snprintf(name, bytes, "%s", plain.c_str());
  return (int)plain.size();
}

// fakecuda_copied returns how many bytes a function was asked to copy, by calls that were not captured.
EXPORT uint64_t fakecuda_copied(const char *name) {
  Lock lock(state().mu);
  const State &g = state();
  auto it = g.copied.find(plainName(name));
  return it == g.copied.end() ? 0 : it->second;
}

// fakecuda_report copies report i, from 0, and returns its length; -1: there is none.
API fakecuda_report(int i, char *text, int bytes) {
  Lock lock(state().mu);
  const State &g = state();
  if (i < 0 || (size_t)i >= g.reports.size()) return -1;
  if (text && bytes > 0) snprintf(text, bytes, "%s", g.reports[i].c_str());
  return (int)g.reports[i].size();
}

// fakecuda_forget takes all reports, counts of calls and counts of bytes back.
API fakecuda_forget(void) {
  Lock lock(state().mu);
  state().reports.clear();
  state().calls.clear();
  state().copied.clear();
  state().abandoned = state().unsupported = 0;
  return kOk;
}
