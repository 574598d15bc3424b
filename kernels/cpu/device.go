package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm"
	"github.com/evenkeel/evenkeel/kernels/cpu/internal/asm/gemm"
)

// Options configure Open. The zero value is a good default.
type Options struct {
	// Threads is the number of goroutines that compute at the same time, including the one that
	// launches. 0: GOMAXPROCS.
	Threads int
	// Memory limits what can be allocated, in bytes. 0: the memory that the system grants this
	// process, which is always an upper limit.
	Memory int64
	// Spin is how long an idle worker polls for work before it sleeps. To wake a worker costs up to
	// 100 µs; polling takes processor time from other programs. 0: 200 µs. Negative: sleep at once.
	Spin time.Duration
	// Instructions select the kernels. Best, the default: the widest instructions that the
	// processor has.
	Instructions Instructions
}

// Device is the host as a device. Open makes one; the methods of a nil Device, and of one that Open
// did not make, return errors that wrap arena.ErrClosed. All methods may be called from several
// goroutines at once.
type Device struct {
	pool          *pool
	limit         int64        // bytes, 0: the system's
	instructions  Instructions // of the kernels, never Best
	level         asm.Level
	bfloat16Pairs *gemm.Kernels // for products of bfloat16. Nil: those of float32 compute them

	closed atomic.Bool // set under mu, so that nothing is allocated after it
	mu     sync.Mutex
	live   map[*memory]struct{} // every allocation that was not freed
	used   int64                // bytes in live
}

var (
	_ kernels.Device          = (*Device)(nil)
	_ kernels.ReferenceRunner = (*Device)(nil)
	_ kernels.GoAllocator     = (*Device)(nil)
	_ kernels.WeightPrepacker = (*Device)(nil)
	_ kernels.WorkTimer       = (*Device)(nil)
)

// Open starts the workers and returns the device. Negative Threads or Memory are a
// [kernels.OptionError]; instructions that this build or processor lacks are an
// [InstructionsError]. Close ends the workers.
func Open(o Options) (*Device, error) {
	switch {
	case o.Threads < 0:
		return nil, &kernels.OptionError{Device: "cpu", Option: "Threads", Value: int64(o.Threads)}
	case o.Memory < 0:
		return nil, &kernels.OptionError{Device: "cpu", Option: "Memory", Value: o.Memory}
	case o.Threads == 0:
		o.Threads = runtime.GOMAXPROCS(0)
	}
	instructions, err := o.Instructions.resolve()
	if err != nil {
		return nil, fmt.Errorf("cpu: open: %w", err)
	}
	d := &Device{pool: newPool(o.Threads, o.Spin), limit: o.Memory, instructions: instructions, level: instructions.level(),
		live: map[*memory]struct{}{}}
	if instructions == AVX512BF16 {
		d.bfloat16Pairs = gemm.BFloat16Pairs()
	}
	return d, nil
}

// Name returns "cpu".
func (d *Device) Name() string { return "cpu" }

// Unified returns true: device memory is host memory.
func (d *Device) Unified() bool { return true }

// Instructions returns the set of instructions that Open has chosen, so never Best. On a device
// that is not open the error wraps arena.ErrClosed.
func (d *Device) Instructions() (Instructions, error) {
	if err := d.usable("instructions"); err != nil {
		return Best, err
	}
	return d.instructions, nil
}

// usable returns an error that wraps arena.ErrClosed if the device is closed or was never opened.
func (d *Device) usable(what string) error {
	if d == nil || d.pool == nil {
		return fmt.Errorf("cpu: %s: not opened, use cpu.Open: the device is %w", what, arena.ErrClosed)
	}
	if d.closed.Load() {
		return fmt.Errorf("cpu: %s: the device was %w", what, arena.ErrClosed)
	}
	return nil
}

// Info returns the memory of the system, or of Options.Memory, in bytes.
func (d *Device) Info() (arena.Info, error) {
	if err := d.usable("info"); err != nil {
		return arena.Info{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.limit > 0 {
		return arena.Info{Total: d.limit, Free: d.limit - d.used}, nil
	}
	total, free, err := systemMemory()
	if err != nil {
		return arena.Info{}, fmt.Errorf("cpu: info: %w", err)
	}
	return arena.Info{Total: total, Free: free}, nil
}

// Alloc makes one zeroed block, aligned to 4096 bytes, outside the Go heap: it goes back to the
// system at its Free. Slices of it must not be used after that. Systems other than Linux: AllocGo.
func (d *Device) Alloc(bytes int64) (arena.Memory, error) {
	return d.alloc("alloc", bytes, d.mapMemory)
}

// Pin makes the same kind of block as Alloc: on the host every block can be copied from and to.
func (d *Device) Pin(bytes int64) (arena.Memory, error) { return d.alloc("pin", bytes, d.mapMemory) }

// AllocGo makes the same kind of block as Alloc in Go memory: slices of it stay valid after its Free.
func (d *Device) AllocGo(bytes int64) (arena.Memory, error) {
	return d.alloc("alloc", bytes, d.goMemory)
}

func (d *Device) alloc(what string, bytes int64, newBlock func(int64) (*memory, error)) (arena.Memory, error) {
	if err := d.usable(what); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(what); err != nil { // closed in between
		return nil, err
	}
	if bytes < 0 {
		return nil, fmt.Errorf("cpu: %s: %d bytes", what, bytes)
	}
	total, _, err := systemMemory()
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", what, err)
	}
	if d.limit > 0 {
		total = min(total, d.limit) // the system ends a process that uses more than there is
	}
	if bytes > total-d.used {
		return nil, fmt.Errorf("cpu: %s: need %d bytes, have %d of %d: %w", what, bytes, total-d.used, total, arena.ErrCapacity)
	}
	m, err := newBlock(bytes)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", what, err)
	}
	d.live[m] = struct{}{}
	d.used += bytes
	return m, nil
}

// NewStream makes a stream that runs work at once, in the goroutine that enqueues it.
func (d *Device) NewStream(name string) (arena.Stream, error) {
	if err := d.usable("stream"); err != nil {
		return nil, err
	}
	return &stream{dev: d, name: name}, nil
}

// NewEvent makes an event. Since streams run work at once, it is always done.
func (d *Device) NewEvent() (arena.Event, error) {
	if err := d.usable("event"); err != nil {
		return nil, err
	}
	return &event{dev: d}, nil
}

// Allocated returns the bytes and the number of blocks that are not freed.
func (d *Device) Allocated() (bytes int64, blocks int) {
	if d == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used, len(d.live)
}

// Close frees all memory that is left and ends the workers; no goroutine of the device remains.
// From then on the methods of its memory, streams, events and programs return errors that wrap
// arena.ErrClosed. Safe to call twice.
func (d *Device) Close() error {
	if d == nil || d.pool == nil {
		return nil
	}
	d.mu.Lock()
	d.closed.Store(true)
	left := make([]*memory, 0, len(d.live))
	for m := range d.live {
		left = append(left, m)
	}
	d.mu.Unlock()
	for _, m := range left {
		m.release(stateLost)
	}
	d.pool.close()
	return nil
}
