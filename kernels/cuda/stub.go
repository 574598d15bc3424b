//go:build !gpu || !cgo

package cuda

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
)

// Device is a GPU. This documentation was made without the tag gpu: Open makes no Device, and every
// method fails. See go doc -tags gpu, or kernels.Device, for what the methods do with the tag.
type Device struct{}

var (
	_ kernels.Device     = (*Device)(nil)
	_ kernels.HostStager = (*Device)(nil)
	_ kernels.WorkTimer  = (*Device)(nil)
)

// Open returns ErrNotBuilt.
func Open(Options) (*Device, error) { return nil, fmt.Errorf("cuda: open: %w", ErrNotBuilt) }

func missing(what string) error {
	return fmt.Errorf("cuda: %s: %w: the device is %w", what, ErrNotBuilt, arena.ErrClosed)
}

// Name returns "cuda".
func (*Device) Name() string { return "cuda" }

// Graphs returns false. With the tag gpu it reports whether programs are launched as CUDA graphs.
func (*Device) Graphs() bool { return false }

// Unified returns false.
func (*Device) Unified() bool { return false }

// Info returns ErrNotBuilt.
func (*Device) Info() (arena.Info, error) { return arena.Info{}, missing("info") }

// Alloc returns ErrNotBuilt.
func (*Device) Alloc(int64) (arena.Memory, error) { return nil, missing("alloc") }

// Pin returns ErrNotBuilt.
func (*Device) Pin(int64) (arena.Memory, error) { return nil, missing("pin") }

// NewStream returns ErrNotBuilt.
func (*Device) NewStream(string) (arena.Stream, error) { return nil, missing("stream") }

// NewEvent returns ErrNotBuilt.
func (*Device) NewEvent() (arena.Event, error) { return nil, missing("event") }

// Supports returns ErrNotBuilt.
func (*Device) Supports(*kernels.Op, any, []kernels.Spec, []kernels.Spec) error {
	return missing("supports")
}

// Workspace returns 0.
func (*Device) Workspace(*kernels.Op, any, []kernels.Spec, []kernels.Spec) int64 { return 0 }

// Bind returns ErrNotBuilt.
func (*Device) Bind([]kernels.Call, kernels.Binding) (kernels.Program, error) {
	return nil, missing("bind")
}

// TimeWork returns ErrNotBuilt.
func (*Device) TimeWork(arena.Stream, *kernels.Timeline) error { return missing("time work") }

// StagingBytes returns 0. With the tag gpu it returns the bytes of pinned memory that a call of
// kernels.Host needs.
func (*Device) StagingBytes(*kernels.Op, any, []kernels.Spec, []kernels.Spec) int64 { return 0 }

// Allocated returns 0, 0. With the tag gpu it returns the bytes and the number of blocks that are
// not freed.
func (*Device) Allocated() (bytes int64, blocks int) { return 0, 0 }

// Err returns nil. With the tag gpu it returns the first fatal error, after which only Close works.
func (*Device) Err() error { return nil }

// Close does nothing.
func (*Device) Close() error { return nil }

// Join returns ErrNotBuilt. With the tag gpu it joins the devices of a group by NCCL.
func (*Device) Join(context.Context, group.Group, group.Options) (*Comm, error) {
	return nil, missing("join")
}

// Comm is a group whose devices are joined by NCCL. Without the tag gpu there is none: Join makes no
// Comm.
type Comm struct{ group.Group }

// Enqueue returns ErrNotBuilt. With the tag gpu it enqueues a collective on device memory.
func (*Comm) Enqueue(arena.Stream, Collective) error { return missing("enqueue") }

// Version returns "".
func (*Comm) Version() string { return "" }

// Close does nothing.
func (*Comm) Close() error { return nil }

func (*Comm) owns(*properties) bool { return false }
