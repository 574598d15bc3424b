package cpu_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/cputest"
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
