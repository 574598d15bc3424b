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

// Options say what OpenWith opens. The zero value is a good default.
type Options struct {
	// Threads is how many goroutines compute at once, the caller's among them. 0: GOMAXPROCS.
	Threads int
	// Memory is the size in bytes that the device pretends to have. 0: what the system lets this process have, which
	// remains the limit of what can be allocated.
	Memory int64
	// Spin is how long a thread without work looks for more before it sleeps. Waking it costs up to 100 µs, spinning takes the
	// processor from other programs; goroutines get it in between. 0: 200 µs. Below 0: it sleeps at once.
	Spin time.Duration
	// Instructions are what the kernels are made of. Best: the widest that the processor has. A device for instructions
	// that it lacks answers every call with an InstructionsError.
	Instructions Instructions
}

// Device is the host, made by Open or OpenWith: others answer with errors. All methods may be called from any goroutine.
type Device struct {
	pool          *pool
	limit         int64        // bytes, 0: the system's
	instructions  Instructions // what the kernels are made of
	level         asm.Level
	bfloat16Pairs *gemm.Kernels // for products of bfloat16. Nil: those of float32 compute them
	unsupported   error         // the instructions that the device was opened for and the processor does not have

	closed atomic.Bool // set under mu, so that nothing is allocated after it
	mu     sync.Mutex
	live   map[*memory]struct{} // every allocation that was not freed
	used   int64                // bytes in live
}

var _ kernels.Device = (*Device)(nil)

// Open opens the host as a device with as many threads as GOMAXPROCS.
func Open() *Device { return OpenWith(Options{}) }

// OpenWith opens the host as a device.
func OpenWith(o Options) *Device {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	made, err := o.Instructions.resolve()
	d := &Device{pool: newPool(o.Threads, o.Spin), limit: max(o.Memory, 0), instructions: made, level: made.level(), unsupported: err, live: map[*memory]struct{}{}}
	if made == AVX512BF16 {
		d.bfloat16Pairs = gemm.Bfloat16Pairs()
	}
	return d
}

// Name returns "cpu".
func (d *Device) Name() string { return "cpu" }

// Unified returns true: device memory is host memory.
func (d *Device) Unified() bool { return true }

// Instructions returns what the kernels are made of, or an error where the device cannot be used.
func (d *Device) Instructions() (Instructions, error) {
	if err := d.usable("instructions"); err != nil {
		return Best, err
	}
	return d.instructions, nil
}

// usable returns an error that wraps arena.ErrClosed where the device was closed, or never opened, and an
// InstructionsError where the processor lacks what it was opened for.
func (d *Device) usable(what string) error {
	if d == nil || d.pool == nil {
		return fmt.Errorf("cpu: %s: not opened, use cpu.Open(): the device is %w", what, arena.ErrClosed)
	}
	if d.closed.Load() {
		return fmt.Errorf("cpu: %s: the device was %w", what, arena.ErrClosed)
	}
	if d.unsupported != nil {
		return fmt.Errorf("cpu: %s: %w", what, d.unsupported)
	}
	return nil
}

// Info returns the memory of the system, or of the pretended size.
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

// Alloc makes one zeroed block, aligned to 4096 bytes.
func (d *Device) Alloc(bytes int64) (arena.Memory, error) { return d.alloc("alloc", bytes) }

// Pin makes the same kind of block as Alloc: on the host every block can be copied from and to.
func (d *Device) Pin(bytes int64) (arena.Memory, error) { return d.alloc("pin", bytes) }

func (d *Device) alloc(what string, bytes int64) (arena.Memory, error) {
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
		total = min(total, d.limit) // Go ends the process that asks for more than there is
	}
	if bytes > total-d.used {
		return nil, fmt.Errorf("cpu: %s: need %d bytes, have %d of %d: %w", what, bytes, total-d.used, total, arena.ErrCapacity)
	}
	m := &memory{dev: d, size: bytes, bytes: newBlock(bytes)}
	d.live[m] = struct{}{}
	d.used += bytes
	return m, nil
}

// NewStream makes a queue that runs what is enqueued at once, in the caller.
func (d *Device) NewStream(name string) (arena.Stream, error) {
	if err := d.usable("stream"); err != nil {
		return nil, err
	}
	return &stream{dev: d, name: name}, nil
}

// NewEvent makes a marker. Since streams run at once, it is done whenever someone looks.
func (d *Device) NewEvent() (arena.Event, error) {
	if err := d.usable("event"); err != nil {
		return nil, err
	}
	return &event{dev: d}, nil
}

// Allocated returns the bytes and the number of blocks that were not freed.
func (d *Device) Allocated() (bytes int64, blocks int) {
	if d == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used, len(d.live)
}

// Close frees all memory that is left and ends the workers. No goroutine of the device remains. What was made on the device
// answers with errors that wrap arena.ErrClosed from then on. Safe to call twice.
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
