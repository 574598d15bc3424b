// Package emu is a hostile device for tests: everything that a real device may do to a program, it does.
//
// [Open] makes a [Device] with an address space of its own: what lies in device memory is poison until written, and the host
// never sees it. Streams are goroutines that run beside each other, delayed at random ([Options.Delay]) or idle until somebody
// waits ([Options.Lazy]), so that a forgotten event shows. Whether it shows or not, a checker follows who is ordered
// before whom and reports two streams, or a stream and the host, that touch the same bytes unordered ([Device.Races]).
// Every call can be made to fail ([Options.Fault]), and a ledger counts what is open ([Device.Ledger]).
package emu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/arena"
)

// The classes of error of this package, beside those of arena.
var (
	// ErrFatal makes an injected error fatal when it wraps this: every later call fails with it, all queued work is
	// dropped, and only closing and freeing still work.
	ErrFatal = errors.New("fatal device error")
	// ErrForeign is wrapped by errors about memory, streams and events that are not this device's: Go heap memory first of all.
	ErrForeign = errors.New("not of this device")
	// ErrInUse is wrapped by errors about freeing or closing what queued work still needs.
	ErrInUse = errors.New("in use by queued work")
)

// Options configure a device. The zero value is a device of 1 GiB whose streams run at once.
type Options struct {
	// Memory is the capacity in bytes, 1 GiB by default. Pinned memory is not part of it.
	Memory int64
	// Seed fixes the random delays.
	Seed uint64
	// Delay is the longest random delay before each piece of queued work. 0: none, but the work is still asynchronous.
	Delay time.Duration
	// Lazy lets no queued work run before somebody waits for it: the host in a Sync or Close, or a stream that is itself
	// waited for. Event.Done answers and counts as waiting, so that polling comes to an end.
	Lazy bool
	// Fault is asked at each call named in Calls, and makes it fail by returning an error. n counts the calls
	// of that name from 1. It is called from several goroutines at once, with no lock held.
	Fault func(call string, n int) error
	// OnRace is called with each race as it is found, in the goroutine of the call that completes it.
	OnRace func(error)
}

// The calls that Fault is asked about. Those that begin with "run" fail while the stream works, so that
// the next Sync returns their error; all others fail where they are made.
var calls = []string{
	"info", "alloc", "pin", "stream", "event", "bind",
	"copy", "fill", "record", "wait", "launch", "sync", "event sync",
	"run copy", "run fill", "run call",
}

// Calls returns the names that Options.Fault is asked about.
func Calls() []string { return append([]string(nil), calls...) }

// Device is an emulated device, made by Open: others answer with errors. It implements kernels.Device. All methods may be called from
// any goroutine.
type Device struct {
	opts Options

	mu     sync.Mutex // guards everything below, and all fields of streams, events, memories and programs
	cond   sync.Cond  // signalled when work is added, demanded or done
	fatal  error
	closed bool
	live   struct {
		memories map[*memory]bool
		streams  map[*stream]bool
		events   map[*event]bool
		programs map[*program]bool
	}
	streams int // ever made
	ledger  Ledger
	left    Ledger
	traffic Traffic
	check   checker

	data    sync.Mutex // held for each piece of a transfer, so that racing streams never race in Go's eyes
	faultMu sync.Mutex
	asked   map[string]int // calls so far, by name
}

// Open makes a device. Close it to stop its goroutines.
func Open(o Options) *Device {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	d := &Device{opts: o, asked: make(map[string]int)}
	d.cond.L = &d.mu
	d.live.memories = make(map[*memory]bool)
	d.live.streams = make(map[*stream]bool)
	d.live.events = make(map[*event]bool)
	d.live.programs = make(map[*program]bool)
	d.check.host.clock = clock{0}
	return d
}

// Name returns "emu".
func (d *Device) Name() string { return "emu" }

// Unified returns false: device memory is not the host's.
func (d *Device) Unified() bool { return false }

// Info returns the capacity and what is left of it.
func (d *Device) Info() (arena.Info, error) {
	if err := d.enter("info"); err != nil {
		return arena.Info{}, err
	}
	defer d.mu.Unlock()
	return arena.Info{Total: d.opts.Memory, Free: d.opts.Memory - d.ledger.DeviceBytes}, nil
}

// NewStream makes a stream, served by a goroutine until it is closed.
func (d *Device) NewStream(name string) (arena.Stream, error) {
	if err := d.enter("stream"); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return d.newStream(name), nil
}

// newStream is NewStream with the lock held.
func (d *Device) newStream(name string) *stream {
	d.streams++
	s := &stream{d: d, name: name, clock: make(clock, d.streams+1),
		rand: rand.New(rand.NewPCG(d.opts.Seed, uint64(d.streams)))}
	s.id = int32(d.streams)
	d.live.streams[s] = true
	d.ledger.Streams.open()
	go s.run()
	return s
}

// NewEvent makes an event that was never recorded.
func (d *Device) NewEvent() (arena.Event, error) {
	if err := d.enter("event"); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	e := &event{d: d}
	d.live.events[e] = true
	d.ledger.Events.open()
	return e, nil
}

// Close runs what is queued to its end, then releases everything that is left, and returns what went wrong that nobody has been
// told: errors of work, overwritten red zones. Left says what it had to release. A second call returns nil.
func (d *Device) Close() error {
	if !d.opened() {
		return nil
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	d.left = d.ledger
	var streams []*stream
	for s := range d.live.streams {
		streams = append(streams, s)
	}
	d.mu.Unlock()

	var errs []error
	for _, s := range streams {
		errs = append(errs, s.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.live.programs {
		p.release()
	}
	for e := range d.live.events {
		e.release()
	}
	for m := range d.live.memories {
		m.lost = true
		errs = append(errs, m.release())
	}
	return errors.Join(errs...)
}

// opened reports whether Open made the device.
func (d *Device) opened() bool { return d != nil && d.asked != nil }

// enter begins a call: it asks for a fault, takes the lock and refuses a device that is closed or had a fatal error.
// It holds the lock only when it returns nil.
func (d *Device) enter(call string) error {
	if !d.opened() {
		return fmt.Errorf("emu: %s: not opened, use emu.Open: the device is %w", call, arena.ErrClosed)
	}
	err := d.fault(call)
	d.mu.Lock()
	switch {
	case d.closed:
		err = fmt.Errorf("emu: %s: the device was %w", call, arena.ErrClosed)
	case d.fatal != nil:
		err = fmt.Errorf("emu: %s: %w", call, d.fatal)
	case err != nil:
		err = fmt.Errorf("emu: %s: %w", call, err)
		d.poison(err)
	default:
		return nil
	}
	d.mu.Unlock()
	return err
}

// poison makes err the device's end if it is fatal.
func (d *Device) poison(err error) {
	if d.fatal == nil && errors.Is(err, ErrFatal) {
		d.fatal = err
		d.cond.Broadcast()
	}
}

// fault counts a call and returns the error that is to be injected into it.
func (d *Device) fault(call string) error {
	if d.opts.Fault == nil {
		return nil
	}
	d.faultMu.Lock()
	d.asked[call]++
	n := d.asked[call]
	d.faultMu.Unlock()
	return d.opts.Fault(call, n)
}
