package arena

// Device is what an arena needs of a machine: memory, and queues of work on it.
// All methods may be called from any goroutine. Once the device is closed, or where it never was opened, those of the device, and of all
// that was made on it, return errors that wrap ErrClosed, but for Close, which returns nil.
type Device interface {
	// Name says which device this is, for people: "cpu", "emu".
	Name() string
	// Unified reports whether device memory is host memory. Then Memory.Bytes is never nil,
	// and a slot needs no pinned twin: what the loader writes is where the kernels read.
	Unified() bool
	// Info returns the memory of the device as it is now.
	Info() (Info, error)
	// Alloc makes one block of device memory, aligned to Align or better.
	Alloc(bytes int64) (Memory, error)
	// Pin makes one block of host memory that asynchronous copies may use.
	Pin(bytes int64) (Memory, error)
	// NewStream makes a queue whose work runs in order, beside that of other streams.
	NewStream(name string) (Stream, error)
	// NewEvent makes a marker that streams record and wait for.
	NewEvent() (Event, error)
	// Close releases everything that is left. Safe to call twice.
	Close() error
}

// Info is a device's memory, in bytes.
type Info struct {
	Total   int64 // what the device has
	Free    int64 // what could be allocated now
	Context int64 // what the device's own context takes, outside any arena
}

// Memory is one allocation.
type Memory interface {
	// Size is the length in bytes.
	Size() int64
	// Bytes is the allocation as the host sees it, or nil where the host cannot.
	Bytes() []byte
	// Free gives the memory back. A second call is an error that wraps ErrFreed; the first one after the device's Close, which freed
	// the memory, is one that wraps ErrClosed.
	Free() error
}

// Span is a part of an allocation.
type Span struct {
	Memory Memory
	Offset int64 // bytes
	Size   int64 // bytes
}

// Stream is a queue of work on one device, executed in order.
// Calls enqueue and return; what goes wrong later is kept and returned by the next Sync, first error first. Until then work that is
// enqueued is dropped.
type Stream interface {
	// Copy enqueues a copy of equally long spans. Each lies in device or pinned memory.
	Copy(dst, src Span) error
	// Fill enqueues setting every byte of dst.
	Fill(dst Span, b byte) error
	// Record marks the work enqueued so far; e is done when that work is.
	Record(e Event) error
	// Wait holds back work enqueued from now on until the last record of e is done. Where work before that record went wrong, its
	// error counts as this stream's own: what would follow computes from values that were never made.
	Wait(e Event) error
	// Sync blocks until all work enqueued so far is done.
	Sync() error
	// Close waits for the work, releases the stream, and returns the error that no Sync has. Safe to call twice.
	Close() error
}

// Event is a marker in a stream. One that was never recorded counts as done.
type Event interface {
	// Sync blocks until the last record is done, and returns the first error of the work before it.
	Sync() error
	// Done reports, without blocking, whether Sync would return at once.
	Done() bool
	// Close releases the event. Safe to call twice.
	Close() error
}
