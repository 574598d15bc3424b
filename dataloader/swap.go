package dataloader

import (
	"context"
	"sync"
)

// swap is memory for one field of a sample as a dataset stores it, while dst has room for what
// becomes of it.
type swap struct {
	field  int
	name   string
	memory sync.Pool // of *[]byte
}

// newSwap returns memory for field k.
func newSwap(k int, f Field) *swap {
	s := &swap{field: k, name: f.Name}
	size := f.Bytes()
	s.memory.New = func() any {
		b := make([]byte, size)
		return &b
	}
	return s
}

// fetch fetches a sample of ds, with the field in the memory that it returns. The caller puts that
// back.
func (s *swap) fetch(ctx context.Context, ds Dataset, at At, dst [][]byte) (*[]byte, error) {
	b := s.memory.Get().(*[]byte)
	out := dst[s.field]
	dst[s.field] = *b
	err := ds.Fetch(ctx, at, dst)
	other := replaced(dst[s.field], *b)
	dst[s.field] = out
	switch {
	case err != nil:
		return nil, err // the dataset may still write to the memory
	case other:
		return nil, &FieldError{Index: s.field, Name: s.name, Problem: errReplace.Error()}
	}
	return b, nil
}

// replaced reports whether a Fetch has put other memory in the place of own.
func replaced(now, own []byte) bool { return len(now) != len(own) || &now[0] != &own[0] }
