//go:build ignore

// Events.
#include "driver.hpp"

using namespace fake;

API cuEventCreate(Event **out, unsigned flags) {
  ENTER();
  constexpr unsigned kDisableTiming = 2, kInterprocess = 4;
  if (!out || flags & ~7u) return kInvalidValue;
  if (flags & kInterprocess) return kNotSupported;
  auto *e = new Event;
  e->context = call.context;
  e->timing = !(flags & kDisableTiming);
  born(e, kEvents);
  *out = e;
  return kOk;
}

API cuEventDestroy_v2(Event *e) {
  ENTER();
  if (!alive(e, kEvents)) return kInvalidHandle;
  dead(e);
  delete e;
  return kOk;
}

API cuEventRecord(Event *e, void *handle) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s || !alive(e, kEvents)) return kInvalidHandle;
  if (e->context != call.context) return kInvalidHandle;
  if (s->capture) {
    if (s->capture->invalid) return kCaptureInvalidated;
    e->capture = s->capture;
    e->tail = s->tail;
    return kOk;
  }
  Operation op;
  op.what = "record of an event";
  if (int code = enqueue(s, std::move(op))) return code;
  e->capture.reset();
  e->done = s->last;
  e->clock = s->clock;
  return kOk;
}

API cuEventRecordWithFlags(Event *e, void *handle, unsigned flags) { return flags ? kNotSupported : cuEventRecord(e, handle); }

API cuStreamWaitEvent(void *handle, Event *e, unsigned flags) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s || !alive(e, kEvents)) return kInvalidHandle;
  if (flags) return kNotSupported;
  if (e->capture) {
    if (s->legacy) return kCaptureImplicit;
    if (s->capture && s->capture != e->capture) {
      s->capture->invalid = e->capture->invalid = true;
      return kCaptureMerge;
    }
    if (!s->capture) s->tail.clear();
    s->capture = e->capture;
    s->tail.insert(s->tail.end(), e->tail.begin(), e->tail.end());
    return kOk;
  }
  if (!e->done) return kOk;  // never recorded: nothing to wait for
  if (s->capture) {
    s->capture->invalid = true;
    return kCaptureIsolation;
  }
  Operation op;
  op.what = "wait for an event";
  op.after.push_back(e->done);
  join(s->clock, e->clock);
  return enqueue(s, std::move(op));
}

API cuEventQuery(Event *e) {
  ENTER();
  if (!alive(e, kEvents)) return kInvalidHandle;
  if (e->capture) return kCapturedEvent;
  if (!e->done) return kOk;
  if (!e->done->done) return kNotReady;
  join(state().host, e->clock);
  return call.context->sticky;
}

API cuEventSynchronize(Event *e) {
  ENTER();
  if (!alive(e, kEvents)) return kInvalidHandle;
  if (e->capture) return kCapturedEvent;
  if (!e->done) return kOk;
  Clock clock = e->clock;  // as it is now: another thread may record it anew
  Context *c = call.context;
  await(e->done, call.lock);
  join(state().host, clock);
  return c->sticky;
}

API cuEventElapsedTime(float *ms, Event *a, Event *b) {
  ENTER();
  if (!ms) return kInvalidValue;
  if (!alive(a, kEvents) || !alive(b, kEvents) || !a->timing || !b->timing || !a->done || !b->done) return kInvalidHandle;
  if (a->capture || b->capture) return kCapturedEvent;
  if (!a->done->done || !b->done->done) return kNotReady;
  *ms = std::chrono::duration<float, std::milli>(b->done->when - a->done->when).count();
  return kOk;
}
API cuEventElapsedTime_v2(float *ms, Event *a, Event *b) { return cuEventElapsedTime(ms, a, b); }
