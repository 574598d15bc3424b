//go:build ignore

// Copies and fills.
#include <cstring>

#include "driver.hpp"

namespace fake {

// Side says what kind of memory one side of a copy must be. Pinned memory may stand on both: addresses are unified.
enum Side { kDevice, kHost, kAny };

// place checks one side. pageable is set where it is memory that the driver does not know.
static int place(uint64_t address, uint64_t bytes, Side side, bool *pageable) {
  Allocation *a = find(address);
  *pageable = !a;
  if (!a) return side == kDevice || !address ? kInvalidValue : kOk;
  if (side == kHost && !a->pinned) return kInvalidValue;
  return bytes > a->lo + a->bytes - address ? kInvalidValue : kOk;
}

struct Copy {
  uint64_t to, from, bytes;
  bool pageableTo, pageableFrom;
};

// The bytes are reached when the copy runs: a graph may run long after it was captured.
static void perform(const Copy &c, const std::string &what, Accesses &accesses) {
  uint8_t *to = (uint8_t *)c.to, *from = (uint8_t *)c.from;
  {
    Lock lock(state().mu);
    if (!c.pageableTo) to = reach(c.to, c.bytes, what);
    if (!c.pageableFrom) from = reach(c.from, c.bytes, what);
  }
  memmove(to, from, c.bytes);
  if (!c.pageableTo) accesses.push_back({c.to, c.to + c.bytes, true, nullptr});
  if (!c.pageableFrom) accesses.push_back({c.from, c.from + c.bytes, false, nullptr});
}

// copying is all copies. wait: the host goes on when it is done. A copy from or to pageable memory waits too, and, where it was meant
// to be asynchronous, is reported: it is neither asynchronous nor safe from a garbage collector.
static int copying(Call &call, const char *name, uint64_t to, Side toSide, uint64_t from, Side fromSide, uint64_t bytes, void *handle,
                   bool async) {
  Context *context = call.context;
  Stream *s = streamOf(context, handle);
  if (!s) return kInvalidHandle;
  if (!bytes) return kOk;
  Copy c{to, from, bytes, false, false};
  if (int code = place(to, bytes, toSide, &c.pageableTo)) return code;
  if (int code = place(from, bytes, fromSide, &c.pageableFrom)) return code;
  if (!async)
    if (int code = refuseCapture(context)) return code;
  std::string what = plainName(name);
  bool pageable = c.pageableTo || c.pageableFrom;
  if (async && pageable)
    report("pageable: " + what + " of " + std::to_string(bytes) + " bytes " + (c.pageableFrom ? "from" : "to") +
           " memory that is not pinned");
  Operation op;
  op.what = what;
  op.work = [c, what](Accesses &a) { perform(c, what, a); };
  bool captured = s->capture != nullptr;
  if (int code = enqueue(s, std::move(op))) return code;
  if (!captured) state().copied[what] += bytes;
  // Between two places on the device even the synchronous form does not wait for it (CUDA, "API synchronization behavior").
  bool wait = pageable || (!async && (toSide != kDevice || fromSide != kDevice));
  if (!wait || captured) return kOk;
  synchronize(s, call.lock);
  return context->sticky;
}

// filling sets count values of width bytes.
static int filling(Call &call, const char *name, uint64_t to, uint32_t value, unsigned width, uint64_t count, void *handle) {
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!count) return kOk;
  uint64_t bytes = count * width;
  bool pageable;
  if (count > UINT64_MAX / width || to % width) return kInvalidValue;
  if (int code = place(to, bytes, kDevice, &pageable)) return code;
  std::string what = plainName(name);
  Operation op;
  op.what = what;
  op.work = [=](Accesses &a) {
    uint8_t *p;
    {
      Lock lock(state().mu);
      p = reach(to, bytes, what);
    }
    for (uint64_t i = 0; i < count; i++) memcpy(p + i * width, &value, width);
    a.push_back({to, to + bytes, true, nullptr});
  };
  return enqueue(s, std::move(op));
}

}  // namespace fake

using namespace fake;

#define COPY(to, toSide, from, fromSide, n, stream, async) \
  ENTER(); \
  return copying(call, __func__, (uint64_t)(to), toSide, (uint64_t)(from), fromSide, n, stream, async)

API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { COPY(to, kDevice, from, kHost, n, nullptr, false); }
API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { COPY(to, kHost, from, kDevice, n, nullptr, false); }
API cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) { COPY(to, kDevice, from, kDevice, n, nullptr, false); }
API cuMemcpy(uint64_t to, uint64_t from, size_t n) { COPY(to, kAny, from, kAny, n, nullptr, false); }
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) { COPY(to, kDevice, from, kHost, n, s, true); }
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) { COPY(to, kHost, from, kDevice, n, s, true); }
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) { COPY(to, kDevice, from, kDevice, n, s, true); }
API cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void *s) { COPY(to, kAny, from, kAny, n, s, true); }

#define FILL(width, stream) \
  ENTER(); \
  return filling(call, __func__, to, value, width, n, stream)

API cuMemsetD8_v2(uint64_t to, uint8_t value, size_t n) { FILL(1, nullptr); }
API cuMemsetD16_v2(uint64_t to, uint16_t value, size_t n) { FILL(2, nullptr); }
API cuMemsetD32_v2(uint64_t to, uint32_t value, size_t n) { FILL(4, nullptr); }
API cuMemsetD8Async(uint64_t to, uint8_t value, size_t n, void *s) { FILL(1, s); }
API cuMemsetD16Async(uint64_t to, uint16_t value, size_t n, void *s) { FILL(2, s); }
API cuMemsetD32Async(uint64_t to, uint32_t value, size_t n, void *s) { FILL(4, s); }
