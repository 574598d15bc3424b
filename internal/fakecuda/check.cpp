//go:build ignore

// The checker: who last wrote and read each byte, and whether two accesses were ordered.
//
// Two accesses of which one writes conflict when neither's clock knows of the other. Accesses are recorded when an operation ends, in
// any order, so both directions are asked.
#include <cstdio>

#include "driver.hpp"

namespace fake {

namespace {

// Record is one operation's access.
struct Record {
  size_t stream;
  Clock clock;
  std::string what;
};
using RecordPtr = std::shared_ptr<const Record>;

// Segment is what is known of bytes from its key in segments to hi. Invariant: segments do not overlap.
struct Segment {
  uint64_t hi;
  RecordPtr writer;                // the last one, or null
  std::vector<RecordPtr> readers;  // since then, the last one of each stream
};
std::map<uint64_t, Segment> segments;

bool ordered(const Record &a, const Record &b) {
  if (a.stream == b.stream) return true;
  return at(b.clock, a.stream) >= at(a.clock, a.stream) || at(a.clock, b.stream) >= at(b.clock, b.stream);
}

// cut makes a segment begin at address, where one covers it.
void cut(uint64_t address) {
  auto it = segments.upper_bound(address);
  if (it == segments.begin()) return;
  --it;
  if (it->first == address || it->second.hi <= address) return;
  Segment right = it->second;
  it->second.hi = address;
  segments.emplace(address, std::move(right));
}

std::string who(const Record &r) {
  return r.stream ? r.what + " (stream " + std::to_string(r.stream) + ")" : r.what;
}

void reportRace(const Record &a, const Record &b, uint64_t lo, uint64_t hi) {
  Allocation *m = find(lo);
  std::string where = m ? std::to_string(lo - m->lo) + " to " + std::to_string(hi - m->lo) + " of " +
                              (m->pinned ? "pinned" : "device") + " allocation " + std::to_string(m->id)
                        : "of freed memory";
  report("race: " + who(a) + " and " + who(b) + " touch bytes " + where + " with no order between them");
}

// touch checks [lo, hi) against what is known, and remembers it. It answers whether it found nothing.
bool touch(const RecordPtr &r, uint64_t lo, uint64_t hi, bool write, bool quiet) {
  bool clean = true;
  cut(lo);
  cut(hi);
  auto it = segments.lower_bound(lo);
  for (uint64_t from = lo; from < hi;) {
    if (it == segments.end() || it->first > from) {  // nothing known up to the next segment
      uint64_t to = it == segments.end() ? hi : std::min(hi, it->first);
      it = segments.emplace_hint(it, from, Segment{to, nullptr, {}});
    }
    Segment &s = it->second;
    const Record *other = s.writer && !ordered(*s.writer, *r) ? s.writer.get() : nullptr;
    for (size_t i = 0; write && !other && i < s.readers.size(); i++)
      if (!ordered(*s.readers[i], *r)) other = s.readers[i].get();
    if (other && clean && !quiet) reportRace(*other, *r, from, s.hi);
    clean = clean && !other;
    if (write) {
      s.writer = r;
      s.readers.clear();
    } else {
      bool known = false;
      for (auto &reader : s.readers)
        if (reader->stream == r->stream) reader = r, known = true;
      if (!known) s.readers.push_back(r);
    }
    from = s.hi;
    ++it;
  }
  return clean;
}

}  // namespace

void checkAccesses(size_t stream, const std::string &what, const Clock &clock, const Accesses &accesses) {
  if (!state().config.check || accesses.empty()) return;
  bool quiet = false;  // one report an operation says enough
  std::map<const std::string *, RecordPtr> records;
  for (const Access &a : accesses) {
    if (a.lo >= a.hi) continue;
    RecordPtr &r = records[a.what.get()];
    if (!r) r = std::make_shared<Record>(Record{stream, clock, a.what ? *a.what + " in " + what : what});
    if (!touch(r, a.lo, a.hi, a.write, quiet)) quiet = true;
  }
}

void forget(uint64_t lo, uint64_t hi) {
  cut(lo);
  cut(hi);
  segments.erase(segments.lower_bound(lo), segments.lower_bound(hi));
}

void report(const std::string &text) {
  constexpr size_t kMost = 1000;  // more say nothing new, and would fill the memory
  if (state().reports.size() < kMost) state().reports.push_back(text);
  if (state().config.verbose) fprintf(stderr, "fakecuda: %s\n", text.c_str());
}

}  // namespace fake

using namespace fake;

// fakecuda_touch says that the host reads or writes pinned memory now.
API fakecuda_touch(void *address, size_t bytes, int write) {
  Lock lock(state().mu);
  uint64_t lo = (uint64_t)address;
  Allocation *a = find(lo);
  if (!a || !a->pinned || bytes > a->lo + a->bytes - lo) return kInvalidValue;
  Clock &host = state().host;
  if (host.empty()) host.resize(1);
  host[0]++;
  checkAccesses(0, write ? "a write of the host" : "a read of the host", host, {{lo, lo + bytes, write != 0, nullptr}});
  return kOk;
}
