package cpu_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// resident returns the resident set of this process in bytes, 0 where the system does not say.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}

func TestABlockIsThereFromTheStart(t *testing.T) {
	switch {
	case resident() == 0:
		t.Skip("no /proc/self/status")
	case cputest.Race:
		t.Skip("the race detector keeps memory beside the block's: run without -race")
	}
	const size = 48 << 20
	d := open(t, cpu.Options{Threads: 1})
	debug.FreeOSMemory() // what other tests of this package have freed could become the block
	before := resident()
	m, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	after := resident()
	// Where the block took memory that the process had, less is new: other tests of this package free a few MB.
	if after-before < size*3/4 {
		t.Errorf("a block of %d bytes made the process larger by %d", size, after-before)
	}
	b := m.Bytes()
	for i := range b {
		b[i] = 1
	}
	if grown := resident() - after; grown > 1<<20 {
		t.Errorf("writing to the block made the process larger by %d bytes", grown)
	}
}

func TestAFreedBlockLeavesTheProcessAtOnce(t *testing.T) {
	if resident() == 0 {
		t.Skip("no /proc/self/status")
	}
	const size = 48 << 20
	d := open(t, cpu.Options{Threads: 1})
	m, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	b, before := m.Bytes(), resident()
	if err := m.Free(); err != nil {
		t.Fatal(err)
	}
	if fell := before - resident(); fell < size*9/10 {
		t.Errorf("the process fell by %d bytes after a block of %d was freed", fell, size)
	}
	runtime.KeepAlive(b)
}

// An owner that has not freed its block when the device closes may still write to it, as readers of
// data do.
func TestWritingAfterTheDeviceClosedHarmsNobody(t *testing.T) {
	const size = 16 << 20
	d := cputest.Open(t, cpu.Options{Threads: 1})
	m, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	b, before := m.Bytes(), resident()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if fell := before - resident(); before > 0 && fell < size*3/4 {
		t.Errorf("the process fell by %d bytes when the device with a block of %d closed", fell, size)
	}
	for i := range b {
		b[i] = 1
	}
	if err := m.Free(); !errors.Is(err, arena.ErrClosed) {
		t.Errorf("free after the device's Close: got %v, want ErrClosed", err)
	}
}

func TestWorkKeepsItsMemoryUntilItIsDone(t *testing.T) {
	d := open(t, cpu.Options{Threads: 1})
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	var m arena.Memory
	var freed error
	p, m := hostProgram(t, d, func(_, out [][]byte) error {
		freed = m.Free()
		out[0][0] = 7 // still mapped
		return nil
	})
	if err := errors.Join(p.Launch(s), s.Sync()); err != nil || freed != nil {
		t.Fatalf("a launch that frees its memory: got %v and %v, want no error", err, freed)
	}
	if err := p.Launch(s); !errors.Is(err, arena.ErrFreed) {
		t.Errorf("launch after Free: got %v, want ErrFreed", err)
	}
	if err := s.Fill(arena.Span{Memory: m, Size: 1}, 1); !errors.Is(err, arena.ErrFreed) {
		t.Errorf("fill after Free: got %v, want ErrFreed", err)
	}
	if _, err := d.Bind(nil, kernels.Binding{Memory: m, Base: []int64{0}}); !errors.Is(err, arena.ErrFreed) {
		t.Errorf("bind after Free: got %v, want ErrFreed", err)
	}
	if err := errors.Join(p.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
