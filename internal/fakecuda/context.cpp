//go:build ignore

// Contexts: which one a thread works in, and what is left when one ends.
#include <algorithm>

#include "driver.hpp"

namespace fake {

static thread_local std::vector<Context *> stack;

Context *current() {
  if (stack.empty()) return nullptr;
  Context *c = stack.back();
  return c && alive(c, kContexts) ? c : nullptr;  // another thread may have destroyed it
}

// makeContext returns null where there is no memory for it. What the context takes for itself is no allocation: nobody reaches it.
static Context *makeContext(int device, unsigned flags) {
  State &g = state();
  auto *c = new Context;
  c->device = device;
  c->flags = flags;
  if ((c->ownBytes = g.config.context)) {
    if (allocateDevice(c->ownBytes, c, nullptr, &c->own)) {
      delete c;
      return nullptr;
    }
    g.allocations.erase(c->own);
  }
  c->legacy.reset(makeStream(c, true, true, 0));
  born(c, kContexts);
  return c;
}

// destroyContext frees all that the context owns, as CUDA does, and counts it as abandoned.
static void destroyContext(Context *c, Lock &lock) {
  synchronize(c, lock);
  State &g = state();
  std::vector<std::pair<void *, Kind>> objects(g.live.begin(), g.live.end());
  for (auto &[object, kind] : objects) {
    if (kind == kStreams && static_cast<Stream *>(object)->context == c) {
      auto *s = static_cast<Stream *>(object);
      c->streams.erase(s);
      stopStream(s, lock);
      dead(s);
      delete s;
    } else if (kind == kEvents && static_cast<Event *>(object)->context == c) {
      dead(object);
      delete static_cast<Event *>(object);
    } else if (kind == kModules && static_cast<Module *>(object)->context == c) {
      destroyModule(static_cast<Module *>(object));
    } else if (kind == kGraphs && static_cast<Graph *>(object)->context == c) {
      dead(object);
      delete static_cast<Graph *>(object);
    } else if (kind == kExecs && static_cast<Exec *>(object)->context == c) {
      dead(object);
      delete static_cast<Exec *>(object);
    } else {
      continue;
    }
    g.abandoned++;
  }
  std::vector<Allocation> memory;
  for (auto &[_, a] : g.allocations)
    if (a.context == c) memory.push_back(a);
  for (auto &a : memory) release(a);
  g.abandoned += memory.size();
  if (c->ownBytes) release({c->own, c->ownBytes, g.alias + (c->own - g.base), false, 0, c, nullptr});
  stopStream(c->legacy.get(), lock);
  dead(c);
  delete c;
}

}  // namespace fake

using namespace fake;

API cuCtxCreate_v2(Context **out, unsigned flags, int device) {
  ENTER_WITH(kInit);
  if (!out) return kInvalidValue;
  if (badDevice(device)) return kInvalidDevice;
  if (!(*out = makeContext(device, flags))) return kOutOfMemory;
  stack.push_back(*out);
  return kOk;
}

API cuCtxDestroy_v2(Context *c) {
  ENTER_WITH(kInit);
  if (!alive(c, kContexts) || c->primary) return kInvalidContext;
  stack.erase(std::remove(stack.begin(), stack.end(), c), stack.end());
  destroyContext(c, call.lock);
  return kOk;
}

API cuCtxGetCurrent(Context **out) {
  ENTER_WITH(kInit);
  if (!out) return kInvalidValue;
  *out = call.context;
  return kOk;
}

API cuCtxSetCurrent(Context *c) {
  ENTER_WITH(kInit);
  if (c && !alive(c, kContexts)) return kInvalidContext;
  if (!stack.empty()) stack.pop_back();
  if (c) stack.push_back(c);
  return kOk;
}

API cuCtxPushCurrent_v2(Context *c) {
  ENTER_WITH(kInit);
  if (!alive(c, kContexts)) return kInvalidContext;
  stack.push_back(c);
  return kOk;
}

API cuCtxPopCurrent_v2(Context **out) {
  ENTER_WITH(kInit);
  if (stack.empty()) return kInvalidContext;
  if (out) *out = stack.back();
  stack.pop_back();
  return kOk;
}

API cuCtxGetDevice(int *device) {
  ENTER();
  if (!device) return kInvalidValue;
  *device = call.context->device;
  return kOk;
}

API cuCtxGetFlags(unsigned *flags) {
  ENTER();
  if (!flags) return kInvalidValue;
  *flags = call.context->flags;
  return kOk;
}

API cuCtxGetApiVersion(Context *c, unsigned *version) {
  ENTER_WITH(kInit);
  if (c && !alive(c, kContexts)) return kInvalidContext;
  if (!version) return kInvalidValue;
  *version = 3020;
  return kOk;
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return kOk;
}

API cuCtxSynchronize(void) {
  ENTER();
  if (int code = refuseCapture(call.context)) return code;
  synchronize(call.context, call.lock);
  return call.context->sticky;
}

API cuDevicePrimaryCtxRetain(Context **out, int device) {
  ENTER_WITH(kInit);
  if (!out) return kInvalidValue;
  if (int code = badDevice(device)) return code;
  Primary &p = state().primaries[device];
  if (!p.context) {
    if (!(p.context = makeContext(device, p.flags))) return kOutOfMemory;
    p.context->primary = true;
  }
  p.context->uses++;
  *out = p.context;
  return kOk;
}

static int resetPrimary(int device, Lock &lock) {
  Context *&p = state().primaries[device].context, *c = p;
  p = nullptr;
  if (c) destroyContext(c, lock);
  return kOk;
}

API cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER_WITH(kInit);
  if (int code = badDevice(device)) return code;
  Context *c = state().primaries[device].context;
  if (!c) return kInvalidContext;
  return --c->uses > 0 ? kOk : resetPrimary(device, call.lock);
}

API cuDevicePrimaryCtxReset_v2(int device) {
  ENTER_WITH(kInit);
  if (int code = badDevice(device)) return code;
  return resetPrimary(device, call.lock);
}

API cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  ENTER_WITH(kInit);
  if (int code = badDevice(device)) return code;
  const Primary &p = state().primaries[device];
  if (flags) *flags = p.flags;
  if (active) *active = p.context != nullptr;
  return kOk;
}

API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  ENTER_WITH(kInit);
  if (int code = badDevice(device)) return code;
  Primary &p = state().primaries[device];
  p.flags = flags;
  if (p.context) p.context->flags = flags;
  return kOk;
}
