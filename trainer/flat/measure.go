package flat

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/trainer/internal/process"
)

// amount is how much there is of a resource.
type amount struct {
	resource, unit string
	n, allowed     int64 // allowed: by which it may grow
	exact          bool  // it changes in calls only: what is left has no moment to go
}

// allocator is a device that counts what it has allocated, device memory and pinned memory.
type allocator interface {
	Allocated() (bytes int64, blocks int)
}

// measure returns how much there is of everything.
func (c Checker) measure() (all []amount) {
	add := func(resource, unit string, n, allowed int64) {
		all = append(all, amount{resource: resource, unit: unit, n: n, allowed: allowed})
	}
	if c.Trainer != nil {
		s := c.Trainer.Stats()
		add("arena in use", "bytes", s.Arena.InUse, 0)
		add("arena reserved", "bytes", s.Arena.Reserved, 0)
		add("pinned memory of the trainer", "bytes", s.Pinned, 0)
		add("heap of the trainer", "bytes", s.Host, 0)
		add("programs", "", int64(s.Programs), 0)
	}
	if d, ok := c.Device.(allocator); ok {
		bytes, blocks := d.Allocated()
		add("memory of the device", "bytes", bytes, 0)
		add("blocks of the device", "", int64(blocks), 0)
	} else if c.Device != nil {
		if info, err := c.Device.Info(); err == nil {
			add("memory of the device", "bytes", info.Total-info.Free, 0)
		}
	}
	for i := range all {
		all[i].exact = true
	}
	add("goroutines", "", int64(runtime.NumGoroutine()), 0)
	if n, ok := descriptors(); ok {
		add("file descriptors", "", n, 0)
	}
	runtime.GC()         // which queues finalizers
	debug.FreeOSMemory() // collects what they have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	add("heap", "bytes", int64(m.HeapAlloc), c.Heap)
	if n, ok := process.Resident(); ok {
		add("resident memory", "bytes", n, c.Resident)
	}
	return all
}

// Pauses between two measurements, until everything is as it was or they add up to half a second.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 256 * time.Millisecond
)

// settled measures until nothing exceeds before, for half a second at most, and returns what still does.
func (c Checker) settled(before []amount) (leaks []Leak) {
	for pause := firstPause; ; pause *= 2 {
		leaks = nil
		waits := false // for something that may go by itself
		for _, a := range c.measure() {
			i := slices.IndexFunc(before, func(b amount) bool { return b.resource == a.resource })
			if i < 0 { // it could not be measured before
				continue
			}
			if b := before[i]; a.n > b.n+b.allowed {
				leaks = append(leaks, Leak{Resource: a.resource, Unit: a.unit, Before: b.n, After: a.n, Allowed: b.allowed, Rounds: c.Rounds})
				waits = waits || !a.exact
			}
		}
		if !waits || pause > lastPause {
			return leaks
		}
		time.Sleep(pause)
	}
}

// descriptors returns the number of open file descriptors; ok is false where the system does not list
// them.
func descriptors() (n int64, ok bool) {
	d, err := os.ReadDir("/proc/self/fd")
	return int64(len(d)), err == nil
}
