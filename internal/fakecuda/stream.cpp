//go:build ignore

// Streams: threads that run operations in order, and wait for those of others.
#include <unistd.h>

#include <algorithm>

#include "driver.hpp"

namespace fake {

void join(Clock &into, const Clock &from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

// perform runs an operation's work and answers its fault's code. The mutex, which the caller holds, is free meanwhile. An operation of a
// poisoned context does nothing.
static int perform(Stream *s, Operation &op, Accesses &accesses) {
  if (!op.work || s->context->sticky) return kOk;
  uint64_t delay = state().config.delay_us;
  s->random = s->random * 6364136223846793005ull + 1442695040888963407ull;
  if (delay) delay = (s->random >> 33) % delay;
  int code = kOk;
  std::string message;
  state().mu.unlock();
  if (delay) usleep(delay);
  try {
    op.work(accesses);
  } catch (const ptx::Fault &f) {
    code = f.code;
    message = f.msg;
  }
  state().mu.lock();
  if (code) report("fault: " + op.what + ": " + message);
  return code;
}

// run runs an operation that waits for nothing more.
static void run(Stream *s, Operation &op) {
  Accesses accesses;
  int code = perform(s, op, accesses);
  if (code && !s->context->sticky) s->context->sticky = code;
  checkAccesses(s->id, op.what, op.clock, accesses);
  op.done->done = true;
  op.done->when = std::chrono::steady_clock::now();
  state().changed.notify_all();
}

// holds reports whether an operation may not begin yet. Streams that are being destroyed finish their work.
static bool holds(const Operation &op) {
  int64_t hold = state().config.hold;
  return hold == 1 || (hold == 2 && op.computes);
}

static void serve(Stream *s) {
  Lock lock(state().mu);
  for (;;) {
    s->wake.wait(lock, [&] { return s->quit || !s->queue.empty(); });
    if (s->queue.empty()) return;
    Operation op = std::move(s->queue.front());
    s->queue.pop_front();
    for (auto &d : op.after) await(d, lock);
    if (op.work)
      state().changed.wait(lock, [&] { return !holds(op) || s->quit; });
    run(s, op);
  }
}

Stream *makeStream(Context *c, bool blocking, bool legacy, int priority) {
  State &g = state();
  auto *s = new Stream;
  s->context = c;
  s->id = g.nextStream++;
  s->blocking = blocking;
  s->legacy = legacy;
  s->priority = priority;
  s->random = (g.config.seed + 1) * 0x9e3779b97f4a7c15ull + s->id * 0xbf58476d1ce4e5b9ull;
  s->thread = std::thread(serve, s);
  return s;
}

// stopStream ends the stream's thread after the work that it has. The caller deletes it.
void stopStream(Stream *s, Lock &lock) {
  s->quit = true;
  s->wake.notify_all();
  state().changed.notify_all();
  lock.unlock();
  if (s->thread.joinable()) s->thread.join();
  lock.lock();
}

// streamOf answers the legacy stream for 0 and 1 (CU_STREAM_LEGACY). The per-thread stream, 2, is not emulated.
Stream *streamOf(Context *c, void *handle) {
  if ((uintptr_t)handle <= 1) return c->legacy.get();
  auto *s = static_cast<Stream *>(handle);
  return c->streams.count(s) ? s : nullptr;
}

void await(DonePtr done, Lock &lock) {
  if (done) state().changed.wait(lock, [&] { return done->done; });
}

void synchronize(Stream *s, Lock &lock) {
  Clock clock = s->clock;  // as it is now: other threads may add work while we wait
  await(s->last, lock);
  join(state().host, clock);
}

void synchronize(Context *c, Lock &lock) {
  std::vector<std::pair<DonePtr, Clock>> all{{c->legacy->last, c->legacy->clock}};
  for (Stream *s : c->streams) all.push_back({s->last, s->clock});
  for (auto &[done, clock] : all) {
    await(done, lock);
    join(state().host, clock);
  }
}

// forbids reports whether the calling thread may not make calls that wait or allocate, because of a capture.
static bool forbids(const Capture &c) { return c.mode == 0 || (c.mode == 1 && c.thread == std::this_thread::get_id()); }

bool capturing(Context *c) {
  for (Stream *s : c->streams)
    if (s->capture && forbids(*s->capture)) return true;
  return false;
}

int refuseCapture(Context *c) {
  if (!capturing(c)) return kOk;
  for (Stream *s : c->streams)
    if (s->capture && forbids(*s->capture)) s->capture->invalid = true;
  return kCaptureUnsupported;
}

static int captureNode(Stream *s, Operation &op) {
  Capture &c = *s->capture;
  if (c.invalid) return kCaptureInvalidated;
  std::sort(s->tail.begin(), s->tail.end());
  s->tail.erase(std::unique(s->tail.begin(), s->tail.end()), s->tail.end());
  c.nodes.push_back({op.what, op.work, s->tail});
  s->tail = {(int)c.nodes.size() - 1};
  return kOk;
}

// enqueue also orders the legacy stream: its work comes after all earlier work of blocking streams, and before all later.
int enqueue(Stream *s, Operation op) {
  Context *c = s->context;
  if (s->capture) return captureNode(s, op);
  if (s->legacy) {
    for (Stream *o : c->streams) {
      if (!o->blocking) continue;
      if (o->capture) {
        o->capture->invalid = true;
        return kCaptureImplicit;
      }
      if (o->last && !o->last->done) op.after.push_back(o->last);
      join(s->clock, o->clock);
    }
  } else if (s->blocking) {
    if (c->legacy->last && !c->legacy->last->done) op.after.push_back(c->legacy->last);
    join(s->clock, c->legacy->clock);
  }
  join(s->clock, state().host);
  if (s->clock.size() <= s->id) s->clock.resize(s->id + 1);
  s->clock[s->id]++;
  op.clock = s->clock;
  if (state().config.at_once && s->last) op.after.push_back(s->last);
  bool ready = std::all_of(op.after.begin(), op.after.end(), [](const DonePtr &d) { return d->done; });
  op.done = s->last = std::make_shared<Done>();
  if (state().config.at_once && ready && !holds(op)) {
    run(s, op);
    return kOk;
  }
  s->queue.push_back(std::move(op));
  s->wake.notify_one();
  return kOk;
}

}  // namespace fake

using namespace fake;

API cuStreamCreateWithPriority(Stream **out, unsigned flags, int priority) {
  ENTER();
  constexpr unsigned kNonBlocking = 1;
  if (!out || flags & ~kNonBlocking) return kInvalidValue;
  priority = std::max(-5, std::min(0, priority));
  Stream *s = makeStream(call.context, !(flags & kNonBlocking), false, priority);
  call.context->streams.insert(s);
  born(s, kStreams);
  *out = s;
  return kOk;
}

API cuStreamCreate(Stream **out, unsigned flags) {
  ENTER();
  if (!out || flags & ~1u) return kInvalidValue;
  Stream *s = makeStream(call.context, !(flags & 1), false, 0);
  call.context->streams.insert(s);
  born(s, kStreams);
  *out = s;
  return kOk;
}

// A stream that is destroyed still finishes its work.
API cuStreamDestroy_v2(Stream *s) {
  ENTER();
  Context *c = call.context;
  if (!c->streams.count(s)) return kInvalidHandle;
  c->streams.erase(s);
  if (s->capture) s->capture->invalid = true;
  dead(s);
  stopStream(s, call.lock);
  delete s;
  return kOk;
}

API cuStreamSynchronize(void *handle) {
  ENTER();
  Context *c = call.context;
  Stream *s = streamOf(c, handle);
  if (!s) return kInvalidHandle;
  if (s->capture) {
    s->capture->invalid = true;
    return kCaptureUnsupported;
  }
  synchronize(s, call.lock);
  return c->sticky;
}

API cuStreamQuery(void *handle) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (s->capture) {
    s->capture->invalid = true;
    return kCaptureUnsupported;
  }
  if (s->last && !s->last->done) return kNotReady;
  join(state().host, s->clock);
  return kOk;
}

API cuStreamGetFlags(void *handle, unsigned *flags) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!flags) return kInvalidValue;
  *flags = !s->blocking;
  return kOk;
}

API cuStreamGetPriority(void *handle, int *priority) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s) return kInvalidHandle;
  if (!priority) return kInvalidValue;
  *priority = s->priority;
  return kOk;
}
