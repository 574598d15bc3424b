// Package emu is an emulated device for tests. It shows mistakes that a real device would hide most
// of the time: missing events, stale memory, leaks, unhandled errors.
//
// [Open] makes a [Device] with an address space of its own: device memory is invisible to the host,
// and holds poison until it is written. Streams are goroutines that run at the same time, delayed
// at random ([Options.Delay]) or idle until a call waits for them ([Options.Lazy]), so that a
// missing event changes results. In any case a checker computes which accesses are ordered, and
// reports two streams, or a stream and the host, that access the same bytes unordered
// ([Device.Races]). Every call can be made to fail ([Options.Fault]); [Device.Ledger] counts open
// resources and [Device.Traffic] copied bytes. Operations run by their float64 references, slowly.
package emu

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// The classes of error of this package, in addition to those of arena; other errors wrap them.
var (
	// ErrFatal: if an error that Options.Fault returns wraps it, the device fails as a whole. Every
	// later call returns that error, all queued work is dropped, and only closing and freeing still
	// work.
	ErrFatal = errors.New("fatal device error")
	// ErrForeign: memory, a stream or an event is not of this device. Go heap memory is not, for
	// example.
	ErrForeign = errors.New("not of this device")
	// ErrInUse: queued work still needs what was to be freed or closed.
	ErrInUse = errors.New("in use by queued work")
)

// Options configure Open. The zero value is a device of 1 GiB whose streams start work at once.
type Options struct {
	// Memory is the capacity in bytes. 0: 1 GiB. Pinned memory is not part of it.
	Memory int64
	// Seed fixes the random delays.
	Seed uint64
	// Delay is the longest random delay before each piece of queued work. 0: none; the work is
	// still asynchronous.
	Delay time.Duration
	// Lazy holds queued work back until a call waits for it: Sync or Close of the host, or a stream
	// that is itself waited for. Event.Done counts as waiting, so that polling ends.
	Lazy bool
	// Fault is called before each call that Calls names, and makes it fail by returning an error. n
	// counts the calls of that name from 1. Fault is called from several goroutines at once, with
	// no lock held.
	Fault func(call string, n int) error
	// OnRace is called with each race, in the goroutine that makes the second of the two accesses.
	// Nil: no call; see Device.Races.
	OnRace func(error)
}

// The calls that Options.Fault can let fail. Those that begin with "run" fail while the stream
// works, so that the next Sync returns their error; all others fail at once.
var calls = []string{
	"info", "alloc", "pin", "stream", "event", "bind",
	"copy", "fill", "record", "wait", "launch", "sync", "event sync",
	"run copy", "run fill", "run call",
}

// Calls returns the names of the calls for which Options.Fault is called.
func Calls() []string { return append([]string(nil), calls...) }

// Device is an emulated device. Open makes one; the methods of a nil Device, and of one that Open
// did not make, return errors that wrap arena.ErrClosed. All methods may be called from several
// goroutines at once.
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

	data    sync.Mutex // held for each piece of a transfer, so that races between streams are no data races of Go
	faultMu sync.Mutex
	counts  map[string]int // calls so far, by name
}

var (
	_ kernels.Device            = (*Device)(nil)
	_ kernels.HostAccessChecker = (*Device)(nil)
	_ kernels.WorkTimer         = (*Device)(nil)
)

// Open makes a device. Negative Memory or Delay are a [kernels.OptionError]. Close stops the
// device's goroutines.
func Open(o Options) (*Device, error) {
	switch {
	case o.Memory < 0:
		return nil, &kernels.OptionError{Device: "emu", Option: "Memory", Value: o.Memory}
	case o.Delay < 0:
		return nil, &kernels.OptionError{Device: "emu", Option: "Delay", Value: int64(o.Delay)}
	case o.Memory == 0:
		o.Memory = 1 << 30
	}
	d := &Device{opts: o, counts: make(map[string]int)}
	d.cond.L = &d.mu
	d.live.memories = make(map[*memory]bool)
	d.live.streams = make(map[*stream]bool)
	d.live.events = make(map[*event]bool)
	d.live.programs = make(map[*program]bool)
	d.check.host.clock = clock{0}
	return d, nil
}

// Name returns "emu".
func (d *Device) Name() string { return "emu" }

// Unified returns false: device memory is not the host's.
func (d *Device) Unified() bool { return false }

// Info returns the capacity and the bytes that are free.
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

// Close runs queued work to its end, releases all that is left (see Left), and returns the errors
// that no call has returned yet: those of queued work, and arena.ErrOverrun for a block that was
// written past its ends. A second call returns nil.
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
		errs = append(errs, p.closeSums())
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
func (d *Device) opened() bool { return d != nil && d.counts != nil }

// enter begins a call: it calls Options.Fault, takes the lock, and refuses a device that is closed
// or had a fatal error. It holds the lock only if it returns nil.
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
		d.keepFatal(err)
	default:
		return nil
	}
	d.mu.Unlock()
	return err
}

// keepFatal makes err the error of all later calls if it is fatal.
func (d *Device) keepFatal(err error) {
	if d.fatal == nil && errors.Is(err, ErrFatal) {
		d.fatal = err
		d.cond.Broadcast()
	}
}

// fault counts a call and returns the error to inject into it, or nil.
func (d *Device) fault(call string) error {
	if d.opts.Fault == nil {
		return nil
	}
	d.faultMu.Lock()
	d.counts[call]++
	n := d.counts[call]
	d.faultMu.Unlock()
	return d.opts.Fault(call, n)
}
