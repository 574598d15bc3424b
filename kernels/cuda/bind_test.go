package cuda

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

func TestArgumentsLieInTheLowBytesOfTheirSlots(t *testing.T) {
	b := &binding{index: 3}
	b.launch("f", "k", dim{x: 2}, line(32), 0,
		address(7), int32(-1), uint32(9), int64(-2), uint64(5), float32(1.5), 2.5)
	want := []uint64{7, 0xffffffff, 9, 0xfffffffffffffffe, 5, uint64(math.Float32bits(1.5)), math.Float64bits(2.5)}
	if s := b.steps[0]; !slices.Equal(s.args, want) || s.call != 3 || s.grid != (dim{2, 1, 1}) || s.module.family != "f" {
		t.Errorf("got %+v, want arguments %x", s, want)
	}
	b.launch("f", "k", dim{}, line(32), 0)
	b.launchText("text", "k", dim{}, line(32), 0)
	b.copy(8, 8, 100)
	b.fill(8, 0, 0)
	if len(b.steps) != 1 {
		t.Errorf("%d steps, want nothing for a grid without blocks, a copy onto itself and a fill of nothing", len(b.steps)-1)
	}
}

func TestBindNamesEveryCallThatIsWrong(t *testing.T) {
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{4}}
	at := func(offset int64) []kernels.Operand {
		return []kernels.Operand{{Spec: x, Ref: arena.Ref{Offset: offset, Size: 16}}}
	}
	unknown := *kernels.Reshape // an operation that nobody registered
	unknown.Name = "unknown"
	calls := []kernels.Call{
		{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: x.Shape}, In: at(0), Out: at(16), Label: "good"},
		{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: x.Shape}, In: at(0), Out: at(250), Label: "past the end"},
		{Op: kernels.Reshape, Attrs: kernels.ReshapeAttrs{Shape: x.Shape}, In: at(2), Out: at(32), Label: "between elements"},
		{Op: &unknown, Attrs: kernels.ReshapeAttrs{Shape: x.Shape}, In: at(0), Out: at(16), Label: "no kernel"},
	}
	steps, err := bindAt(&properties{}, calls[:1], 4096, 256, []int64{64})
	if err != nil || len(steps) != 1 || steps[0].src != 4096+64 || steps[0].dst != 4096+64+16 || steps[0].bytes != 16 {
		t.Errorf("got %+v, %v: want a copy", steps, err)
	}
	_, err = bindAt(&properties{}, calls, 4096, 256, []int64{0})
	if !errors.Is(err, kernels.ErrUnsupported) {
		t.Errorf("got %v, want one that wraps ErrUnsupported", err)
	}
	for _, want := range []string{`call 1 "past the end": reshape output 0`, `call 2 "between elements": reshape input 0`,
		`call 3 "no kernel": unknown has no kernel`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// bindAt binds calls one after the other.
func bindAt(p *properties, calls []kernels.Call, mem address, size int64, base []int64) ([]step, error) {
	schedule, _ := kernels.Binding{Base: base}.StreamSchedule(calls)
	return bindAll(p, calls, places{mem: mem, check: devcheck.Memory{Size: size, Base: base}}, schedule)
}
