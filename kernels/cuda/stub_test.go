//go:build !gpu || !cgo

package cuda_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/kernels/cuda"
)

func TestWithoutTheTagOpenSaysWhatIsMissing(t *testing.T) {
	dev, err := cuda.Open(cuda.Options{})
	if dev != nil || !errors.Is(err, cuda.ErrNotBuilt) {
		t.Errorf("got %v, %v: want ErrNotBuilt", dev, err)
	}
}
