package mapped_test

import (
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels/internal/mapped"
)

func TestABlockIsZeroAlignedAndFreedOnce(t *testing.T) {
	for _, n := range []int64{0, 1, 4096, 4097, 2<<20 - 1, 2 << 20, 5<<20 + 3} {
		b, err := mapped.New(n)
		if err != nil {
			t.Fatal(err)
		}
		s := b.Bytes()
		if int64(len(s)) != n || cap(s) != len(s) {
			t.Fatalf("%d bytes: got %d of %d", n, len(s), cap(s))
		}
		if a := uintptr(unsafe.Pointer(unsafe.SliceData(s))); a%mapped.Align != 0 {
			t.Errorf("%d bytes lie at %#x", n, a)
		}
		for i, v := range s {
			if v != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, v)
			}
			s[i] = byte(i) | 1
		}
		b.Discard()
		for i := range s { // the addresses are still there
			s[i] = 1
		}
		if err := errors.Join(b.Free(), b.Free()); err != nil || b.Bytes() != nil {
			t.Errorf("%d bytes: got %v from two calls of Free, bytes %v", n, err, b.Bytes() != nil)
		}
	}
}

func TestAnImpossibleBlockIsAnError(t *testing.T) {
	for n, want := range map[int64]error{-1: arena.ErrInvalid, math.MaxInt64: arena.ErrInvalid, 1 << 60: arena.ErrCapacity} {
		if _, err := mapped.New(n); !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", n, err, want)
		}
	}
}
