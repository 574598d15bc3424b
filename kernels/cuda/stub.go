//go:build !gpu || !cgo

package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// Device is a GPU, which this program was built without.
type Device struct{}

var _ kernels.Device = (*Device)(nil)

// Open answers ErrNotBuilt.
func Open(Options) (*Device, error) { return nil, fmt.Errorf("cuda: open: %w", ErrNotBuilt) }

func missing(what string) error {
	return fmt.Errorf("cuda: %s: %w: the device is %w", what, ErrNotBuilt, arena.ErrClosed)
}

// Name returns "cuda".
func (*Device) Name() string { return "cuda" }

// Graphs returns false.
func (*Device) Graphs() bool { return false }

// Unified returns false.
func (*Device) Unified() bool { return false }

// Info answers ErrNotBuilt.
func (*Device) Info() (arena.Info, error) { return arena.Info{}, missing("info") }

// Alloc answers ErrNotBuilt.
func (*Device) Alloc(int64) (arena.Memory, error) { return nil, missing("alloc") }

// Pin answers ErrNotBuilt.
func (*Device) Pin(int64) (arena.Memory, error) { return nil, missing("pin") }

// NewStream answers ErrNotBuilt.
func (*Device) NewStream(string) (arena.Stream, error) { return nil, missing("stream") }

// NewEvent answers ErrNotBuilt.
func (*Device) NewEvent() (arena.Event, error) { return nil, missing("event") }

// Supports answers ErrNotBuilt.
func (*Device) Supports(*kernels.Op, any, []kernels.Spec, []kernels.Spec) error {
	return missing("supports")
}

// Workspace returns 0.
func (*Device) Workspace(*kernels.Op, any, []kernels.Spec, []kernels.Spec) int64 { return 0 }

// Bind answers ErrNotBuilt.
func (*Device) Bind([]kernels.Call, kernels.Binding) (kernels.Program, error) {
	return nil, missing("bind")
}

// Staged returns 0.
func (*Device) Staged(*kernels.Op, []kernels.Spec, []kernels.Spec) int64 { return 0 }

// Allocated returns nothing.
func (*Device) Allocated() (bytes int64, blocks int) { return 0, 0 }

// Err returns nil.
func (*Device) Err() error { return nil }

// Close does nothing.
func (*Device) Close() error { return nil }
