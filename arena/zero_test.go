package arena_test

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

func TestAnArenaThatWasNotMadeAnswersWithErrors(t *testing.T) {
	for name, a := range map[string]*arena.Arena{"nil": nil, "zero": new(arena.Arena)} {
		_, handle := a.Handle(arena.Ref{}, "x")
		for what, err := range map[string]error{"handle": handle, "reset": a.Reset(0)} {
			if !errors.Is(err, arena.ErrInvalid) {
				t.Errorf("%s: %s: got %v, want ErrInvalid", name, what, err)
			}
		}
		if a.Memory() != nil || a.Base(0) != -1 || a.Stats().Reserved != 0 {
			t.Errorf("%s: it has memory", name)
		}
		if err := errors.Join(a.Close(), a.Close()); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	if _, err := arena.New(nil, new(arena.Layout), 0); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("no device: got %v, want ErrInvalid", err)
	}
	if _, err := arena.New(new(fakeDevice), nil, 0); !errors.Is(err, arena.ErrInvalid) {
		t.Errorf("no layout: got %v, want ErrInvalid", err)
	}
}
