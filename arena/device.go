package arena

// Device is the memory and the streams of a machine, as an arena uses them. It is safe for
// concurrent use.
//
// After Close, or on a device that was never opened, every method with an error result returns an
// error that wraps ErrClosed. This holds for the device and for everything opened on it. The only
// exception is Close of a device, a stream or an event, which returns nil.
type Device interface {
	// Name returns the name of the device, for people, such as "cpu", or "emu" for the emulated
	// device.
	Name() string
	// Unified reports whether device memory is host memory. Then Memory.Bytes is never nil, and
	// kernels can read what the host writes, so that input needs no copy through pinned memory.
	Unified() bool
	// Info returns the current state of the device's memory.
	Info() (Info, error)
	// Alloc allocates one block of device memory, aligned to at least Align. If there is too little
	// memory, the error wraps ErrCapacity.
	Alloc(bytes int64) (Memory, error)
	// Pin allocates one block of pinned host memory, which asynchronous copies need. If there is
	// too little memory, the error wraps ErrCapacity.
	Pin(bytes int64) (Memory, error)
	// NewStream opens a stream: a queue of work that runs in order. Work in two streams may
	// overlap.
	NewStream(name string) (Stream, error)
	// NewEvent opens an event: a marker that streams record and wait for.
	NewEvent() (Event, error)
	// Close releases the device and everything opened on it. A second call does nothing.
	Close() error
}

// Info is a device's memory, in bytes.
type Info struct {
	Total   int64 // all memory of the device
	Free    int64 // memory that could be allocated now
	Context int64 // memory that the driver has allocated for itself, outside any arena
}

// Memory is one allocated block.
type Memory interface {
	// Size returns the length in bytes.
	Size() int64
	// Bytes returns the block itself, or nil if the host cannot see it. Slices of it must not be used
	// after Free: the memory may be gone from the process.
	Bytes() []byte
	// Free releases the block. No work in streams may use it. A second call returns an error that wraps ErrFreed; the first call
	// after the device's Close, which released the block, returns one that wraps ErrClosed.
	Free() error
}

// Span is a range of a block.
type Span struct {
	Memory Memory
	Offset int64 // bytes
	Size   int64 // bytes
}

// Stream is a queue of work on one device, executed in order. Calls enqueue work and return. The
// first error of the work is kept and returned by the next Sync; until then further work is
// dropped.
type Stream interface {
	// Copy enqueues a copy between spans of one size, in device memory or pinned memory.
	Copy(dst, src Span) error
	// Fill enqueues setting every byte of dst to b.
	Fill(dst Span, b byte) error
	// Record places e after the work enqueued so far: e is done when that work is.
	Record(e Event) error
	// Wait delays work enqueued from now on until the last record of e is done. An error of the
	// work before that record becomes an error of this stream, because later work would read values
	// that were not computed.
	Wait(e Event) error
	// Sync blocks until all work enqueued so far is done.
	Sync() error
	// Close waits for the work, releases the stream, and returns an error that no Sync has
	// returned. A second call does nothing.
	Close() error
}

// Event is a marker in a stream. An event that was never recorded is done.
type Event interface {
	// Sync blocks until the last record is done, and returns the first error of the work before it.
	Sync() error
	// Done reports, without blocking, whether Sync would return at once.
	Done() bool
	// Close releases the event. A second call does nothing.
	Close() error
}
