//go:build ignore

// Work of other emulated libraries on a stream.
#include "driver.hpp"

using namespace fake;

// fakecuda_access is device-accessible bytes that work reads or writes.
struct fakecuda_access {
  uint64_t address, bytes;
  int write;
};

// fakecuda_work enqueues, or captures, a function: run(arg, places) with the place of each access, as the host reaches it. It may run many times,
// or never; drop(arg) is called when it never will again.
API fakecuda_work(void *handle, const char *name, const fakecuda_access *accesses, int n, void (*run)(void *, uint8_t **), void *arg, void (*drop)(void *)) {
  std::shared_ptr<void> held(arg, drop);
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  std::vector<fakecuda_access> all(accesses, accesses + n);
  std::string what = name;
  Operation op;
  op.what = what;
  op.work = [=](Accesses &seen) {
    std::vector<uint8_t *> places;
    {
      Lock lock(state().mu);
      for (auto &a : all) places.push_back(a.bytes ? reach(a.address, a.bytes, what) : nullptr);
    }
    run(held.get(), places.data());
    for (auto &a : all)
      if (a.bytes) seen.push_back({a.address, a.address + a.bytes, a.write != 0, nullptr});
  };
  return enqueue(s, std::move(op));
}

// fakecuda_enter counts a call of another library, and answers the code that it shall return: 0, one of fakecuda_fail, or -1, to do nothing and
// answer success.
API fakecuda_enter(const char *name) {
  Lock lock(state().mu);
  state().calls[plainName(name)]++;
  return injected(plainName(name));
}

// fakecuda_tell adds a report of another library.
EXPORT void fakecuda_tell(const char *text) {
  Lock lock(state().mu);
  report(text);
}
