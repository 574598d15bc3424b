//go:build ignore

// Faults on demand: the n-th call of a function fails with a given code, or is left out.
#include <cstdlib>

#include "driver.hpp"

namespace fake {

struct Fault {
  uint64_t in;  // calls until it fails; 1: the next
  int code;
};
static std::map<std::string, std::vector<Fault>> faults;

int injected(const std::string &name) {
  auto it = faults.find(name);
  if (it == faults.end()) return kOk;
  int code = kOk;
  auto &list = it->second;
  for (auto f = list.begin(); f != list.end();) {
    if (--f->in) {
      ++f;
      continue;
    }
    code = f->code;
    f = list.erase(f);
  }
  return code;
}

// The codes after which cuda.h says that the process must be terminated and relaunched, or the context destroyed.
bool poisons(int code) { return code == 700 || code == 702 || code == 710 || (code >= 714 && code <= 719) || code == 999; }

// orders reports whether a function makes nothing but order between work, or between work and the host.
static bool orders(const std::string &name) {
  return name == "cuEventRecord" || name == "cuStreamWaitEvent" || name == "cuEventSynchronize" || name == "cuStreamSynchronize";
}

// readFaults reads NAME:N:CODE,…
void readFaults(const char *text) {
  std::string all = text;
  for (size_t from = 0; from < all.size();) {
    size_t to = all.find(',', from);
    if (to == std::string::npos) to = all.size();
    std::string one = all.substr(from, to - from);
    size_t a = one.find(':'), b = one.rfind(':');
    if (a == std::string::npos || a == b || atoi(&one[b + 1]) < 0)
      report("setting: FAKECUDA_FAIL: " + one + " is not NAME:N:CODE");
    else
      faults[plainName(one.substr(0, a))].push_back({strtoull(&one[a + 1], nullptr, 10), atoi(&one[b + 1])});
    from = to + 1;
  }
}

}  // namespace fake

using namespace fake;

// fakecuda_fail makes the n-th call of name from now on answer code, or, where that is kOmitted, do nothing and answer success, which only
// calls that order work can. n 0 takes all faults of name back, and of all functions where name
// is null.
API fakecuda_fail(const char *name, uint64_t n, int code) {
  Lock lock(state().mu);
  if (!n && !name)
    faults.clear();
  else if (!n)
    faults.erase(plainName(name));
  else if (!name || (code == kOmitted && !orders(plainName(name))))
    return kInvalidValue;
  else
    faults[plainName(name)].push_back({n, code});
  return kOk;
}
