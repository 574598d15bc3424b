package safetensors_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// Every type of an arena has one of files, with elements of as many bytes, which leads back to it.
func TestEveryTypeOfAnArenaHasOneOfFiles(t *testing.T) {
	for d := arena.DType(1); d.Size() > 0; d++ {
		f := safetensors.TypeOf(d)
		if int64(f.Bits()) != 8*d.Size() || f.Stored() != d {
			t.Errorf("%v is %q of %d bits, which is %v", d, f, f.Bits(), f.Stored())
		}
	}
	for _, d := range []safetensors.DType{safetensors.Bool, safetensors.Uint64, safetensors.F8E5M2, "X"} {
		if got := d.Stored(); got != 0 {
			t.Errorf("%q is stored as %v", d, got)
		}
	}
	if got := safetensors.TypeOf(0); got != "" {
		t.Errorf("no type is %q", got)
	}
}
