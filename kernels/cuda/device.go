//go:build gpu && cgo

package cuda

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"gorgonia.org/cu"
)

// Device is a GPU. Open makes one; the methods of a nil Device, and of one that Open did not make,
// return errors that wrap arena.ErrClosed. All methods may be called from several goroutines at
// once: each sets the device's context on its thread.
type Device struct {
	opened bool
	gpu    cu.Device
	ctx    cu.CUContext
	props  properties
	limit  int64 // bytes, 0: all of the GPU
	graphs bool
	sync   bool
	before atomic.Int64 // bytes in use when the context had been made, and those that NCCL takes

	gate   sync.RWMutex // read by every call, written by Close: nothing is released under a call
	closed bool
	first  atomic.Pointer[error] // the first fatal error

	mu      sync.Mutex
	live    map[releaser]struct{} // all that was made and not closed; guarded by mu
	used    int64                 // bytes of device memory in live; guarded by mu
	loads   sync.Mutex            // held while a program is bound
	modules map[module]*loaded    // guarded by loads
	capture cu.Stream             // guarded by loads
	staging staging
	blas    *blas // nil: products are kernels of ours
}

var (
	_ kernels.Device     = (*Device)(nil)
	_ kernels.HostStager = (*Device)(nil)
	_ kernels.WorkTimer  = (*Device)(nil)
)

// releaser is a resource of a device. release returns it to the driver; it is called with the
// context set.
type releaser interface{ release() error }

// Open opens a GPU. A GPU that does not exist is a [NoDeviceError], negative Memory a
// [kernels.OptionError], a missing cuBLAS a [NoLibraryError]. On a machine without a driver or a
// GPU, package cu ends the program at its start, before Open is called.
func Open(o Options) (*Device, error) {
	if o.Memory < 0 {
		return nil, &kernels.OptionError{Device: "cuda", Option: "Memory", Value: o.Memory}
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("cuda: open: %w", fromCu("cuDeviceGetCount", err))
	}
	if o.Device < 0 || o.Device >= n {
		return nil, &NoDeviceError{o.Device, n}
	}
	d := &Device{limit: o.Memory, sync: o.Sync, live: map[releaser]struct{}{}, modules: map[module]*loaded{}}
	if d.gpu, err = cu.GetDevice(o.Device); err != nil {
		return nil, fmt.Errorf("cuda: open device %d: %w", o.Device, fromCu("cuDeviceGet", err))
	}
	if err := d.props.read(d.gpu); err != nil {
		return nil, fmt.Errorf("cuda: open device %d: %w", o.Device, err)
	}
	if err := d.props.choose(o.Products); err != nil {
		return nil, fmt.Errorf("cuda: open device %d: %w", o.Device, err)
	}
	if d.ctx, err = d.gpu.RetainPrimaryCtx(); err != nil {
		return nil, fmt.Errorf("cuda: open device %d: %w", o.Device, fromCu("cuDevicePrimaryCtxRetain", err))
	}
	d.opened = true
	if err := d.start(o); err != nil {
		return nil, errors.Join(fmt.Errorf("cuda: open device %d (%s): %w", o.Device, d.props.name, err), d.Close())
	}
	return d, nil
}

// start makes the resources that every device has.
func (d *Device) start(o Options) error {
	if err := d.enter("open"); err != nil {
		return err
	}
	defer d.leave()
	if o.CuBLAS {
		var err error
		if d.blas, err = openBLAS(); err != nil {
			return err
		}
		d.props.cublas = true
	}
	free, total, err := cu.MemInfo()
	if err != nil {
		return fromCu("cuMemGetInfo", err)
	}
	d.before.Store(total - free)
	if d.capture, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return fromCu("cuStreamCreate", err)
	}
	if o.Graphs == Never || o.Sync {
		return nil
	}
	d.graphs, err = d.tryGraph()
	return err
}

// tryGraph reports whether the driver captures a kernel into a graph.
func (d *Device) tryGraph() (bool, error) {
	s := step{module: module{family: "probe"}, function: "nothing", grid: line(1).whole(), block: line(1).whole()}
	f, m, err := d.function(s)
	if err != nil {
		return false, err
	}
	b := newBatch([]step{s}, []cu.Function{f}, nil, &sideStream{})
	_, err = d.captured(b)
	err = errors.Join(err, b.release(), d.unload(m))
	var e *DriverError
	if errors.As(err, &e) && e.unsupported() {
		return false, nil
	}
	return err == nil, err
}

// captured captures b into a graph. After an error the stream may still be capturing and is
// unusable: a new one replaces it. at is the step that failed, -1 for none. It is called with loads
// held, or before other goroutines know the device.
func (d *Device) captured(b *batch) (at int, err error) {
	at, err = b.capture(d.capture)
	var e *DriverError
	if err == nil || errors.As(err, &e) && e.fatal() {
		return at, err
	}
	next, made := cu.MakeStream(cu.NonBlocking)
	if made != nil {
		return at, errors.Join(err, fromCu("cuStreamCreate", made))
	}
	old := d.capture
	d.capture = next
	return at, errors.Join(err, fromCu("cuStreamDestroy", old.Destroy()))
}

// read queries the properties of a GPU.
func (p *properties) read(gpu cu.Device) error {
	var err error
	if p.name, err = gpu.Name(); err != nil {
		return fromCu("cuDeviceGetName", err)
	}
	var major, minor int
	const sharedOptIn cu.DeviceAttribute = 97 // which cu lacks
	for _, a := range []struct {
		to  *int
		key cu.DeviceAttribute
	}{
		{&major, cu.ComputeCapabilityMajor}, {&minor, cu.ComputeCapabilityMinor}, {&p.processors, cu.MultiprocessorCount},
		{&p.warp, cu.WarpSize}, {&p.threads, cu.MaxThreadsPerBlock}, {&p.shared, cu.MaxSharedMemoryPerBlock},
		{&p.sharedMost, sharedOptIn},
		{&p.gridX, cu.MaxGridDimX}, {&p.gridY, cu.MaxGridDimY},
	} {
		if *a.to, err = gpu.Attribute(a.key); err != nil {
			return fromCu("cuDeviceGetAttribute", err)
		}
	}
	p.capability = 10*major + minor
	p.sharedMost = max(p.sharedMost, p.shared)
	return nil
}

// fromCu is the error of a call made through package cu, whose own error holds only the code.
func fromCu(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return newDriverError(call, int(v.Int()))
	}
	return fmt.Errorf("%s: %w", call, err)
}

// enter begins a call: it sets the context on this thread until leave, or returns the error that
// prevents the call.
func (d *Device) enter(what string) error {
	if d == nil || !d.opened {
		return fmt.Errorf("cuda: %s: not opened, use cuda.Open: the device is %w", what, arena.ErrClosed)
	}
	d.gate.RLock()
	if d.closed {
		d.gate.RUnlock()
		return fmt.Errorf("cuda: %s: the device was %w", what, arena.ErrClosed)
	}
	if p := d.first.Load(); p != nil {
		d.gate.RUnlock()
		return fmt.Errorf("cuda: %s: %w", what, &poisonedError{*p})
	}
	runtime.LockOSThread()
	if err := cu.SetCurrentContext(d.ctx); err != nil {
		d.leave()
		return fmt.Errorf("cuda: %s: %w", what, d.note(fromCu("cuCtxSetCurrent", err)))
	}
	return nil
}

func (d *Device) leave() {
	runtime.UnlockOSThread()
	d.gate.RUnlock()
}

// note keeps err if it is the first fatal error, and returns it.
func (d *Device) note(err error) error {
	var e *DriverError
	if errors.As(err, &e) && e.fatal() {
		d.first.CompareAndSwap(nil, &err)
	}
	return err
}

// Err returns the first fatal error, after which nothing works but Close.
func (d *Device) Err() error {
	if d == nil {
		return nil
	}
	if p := d.first.Load(); p != nil {
		return *p
	}
	return nil
}

// Name returns "cuda".
func (d *Device) Name() string { return "cuda" }

// Graphs reports whether programs are CUDA graphs: true unless Options exclude it or the driver
// cannot capture them.
func (d *Device) Graphs() bool { return d != nil && d.graphs }

// Unified returns false.
func (d *Device) Unified() bool { return false }

// Info returns the memory of the GPU in bytes. Context is the memory in use when the device had
// been opened: that of its context, and of other programs.
func (d *Device) Info() (arena.Info, error) {
	if err := d.enter("info"); err != nil {
		return arena.Info{}, err
	}
	defer d.leave()
	free, total, err := cu.MemInfo()
	if err != nil {
		return arena.Info{}, fmt.Errorf("cuda: info: %w", d.note(fromCu("cuMemGetInfo", err)))
	}
	if d.limit > 0 && d.limit < total {
		d.mu.Lock()
		defer d.mu.Unlock()
		return arena.Info{Total: d.limit, Free: max(0, min(free, d.limit-d.used)), Context: d.before.Load()}, nil
	}
	return arena.Info{Total: total, Free: free, Context: d.before.Load()}, nil
}

// Supports returns nil for an operation that has a kernel, on operands that fit it, of up to 8
// dimensions.
func (d *Device) Supports(op *kernels.Op, attrs any, in, out []kernels.Spec) error {
	if d == nil || !d.opened {
		return d.enter("supports")
	}
	if err := supports(op, attrs, in, out); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	return nil
}

// Workspace returns the scratch bytes of a call.
func (d *Device) Workspace(op *kernels.Op, attrs any, in, out []kernels.Spec) int64 {
	if d == nil || !d.opened {
		return 0
	}
	return workspace(&d.props, op, attrs, in, out)
}

// StagingBytes returns the bytes of pinned memory that a call needs for a function of the host. All
// calls share one block.
func (d *Device) StagingBytes(op *kernels.Op, attrs any, in, out []kernels.Spec) int64 {
	return stagingBytes(op, attrs, in, out)
}

// Allocated returns the bytes and the number of blocks, of device memory and of pinned memory, that
// were not freed.
func (d *Device) Allocated() (bytes int64, blocks int) {
	if d == nil {
		return 0, 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.live {
		if m, ok := r.(*memory); ok {
			bytes, blocks = bytes+m.size, blocks+1
		}
	}
	return bytes, blocks
}

// keep adds r to the live resources; drop removes it and reports whether it was there.
func (d *Device) keep(r releaser) {
	d.mu.Lock()
	d.live[r] = struct{}{}
	d.mu.Unlock()
}

func (d *Device) drop(r releaser) (was bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, was = d.live[r]; was {
		delete(d.live, r)
		if m, ok := r.(*memory); ok && m.host == nil {
			d.used -= m.size
		}
	}
	return was
}

// discard releases r, unless that has been done. On a device that is unusable or closed there is
// nothing to release: the memory went with the context. If the context cannot be set, Close
// releases r.
func (d *Device) discard(what string, r releaser) error {
	switch err := d.enter(what); {
	case errors.Is(err, ErrPoisoned), errors.Is(err, arena.ErrClosed):
		d.drop(r)
		return nil
	case err != nil:
		return err
	}
	defer d.leave()
	if !d.drop(r) {
		return nil
	}
	if err := r.release(); err != nil {
		return fmt.Errorf("cuda: %s: %w", what, d.note(err))
	}
	return nil
}

// Close waits for the work, and releases everything that is left, and the context. Safe to call
// twice. After a fatal error it waits for nothing and returns nil: Err returns that error. Close
// returns a fatal error that it finds itself.
func (d *Device) Close() error {
	if d == nil || !d.opened {
		return nil
	}
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var errs []error
	blind := false // without its context set, which is the one error to report then
	check := func(call string, err error) {
		if err != nil && !blind && d.first.Load() == nil {
			errs = append(errs, d.note(fromCu(call, err)))
		}
	}
	check("cuCtxSetCurrent", cu.SetCurrentContext(d.ctx))
	blind = len(errs) > 0
	check("cuCtxSynchronize", cu.Synchronize())
	d.mu.Lock()
	left, comms := make([]releaser, 0, len(d.live)), []releaser(nil)
	for r := range d.live {
		if c, ok := r.(*Comm); ok {
			comms = append(comms, c) // they end after the programs that use them
		} else {
			left = append(left, r)
		}
	}
	clear(d.live)
	d.used = 0
	d.mu.Unlock()
	for _, r := range append(left, comms...) {
		check("release", r.release())
	}
	for _, m := range d.modules {
		check("cuModuleUnload", m.module.Unload())
	}
	clear(d.modules)
	if d.capture != cu.NoStream {
		check("cuStreamDestroy", d.capture.Destroy())
	}
	if d.blas != nil {
		if err := d.blas.close(); err != nil && d.first.Load() == nil {
			errs = append(errs, err)
		}
	}
	check("cuCtxSetCurrent", cu.SetCurrentContext(cu.CUContext{}))
	check("cuDevicePrimaryCtxRelease", d.gpu.ReleasePrimaryCtx())
	if len(errs) > 0 {
		return fmt.Errorf("cuda: close: %w", errors.Join(errs...))
	}
	return nil
}
