//go:build gpu && cgo

package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
	"github.com/evenkeel/evenkeel/kernels"
)

// tensor is float32 numbers of a test, at a multiple of arena.Align.
func tensor(place int64, spec kernels.Spec) kernels.Operand {
	return kernels.Operand{Spec: spec, Ref: arena.Ref{Offset: place * arena.Align, Size: spec.Bytes()}}
}

var numbers = kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{arena.Align / 4}}

// sumCalls are the calls of a step that sums two gradients while it computes: places 0 and 1 hold what they
// are made of, 2 and 3 the sums, 4 and 5 what is computed of them, 6 the guard and 7 the verdict.
func sumCalls(g group.Group) []kernels.Call {
	on := func(places ...int64) (all []kernels.Operand) {
		for _, p := range places {
			all = append(all, tensor(p, numbers))
		}
		return all
	}
	a := kernels.AllReduceAttrs{Group: g, Label: "a", Type: arena.Float32, Tensors: 1}
	b := kernels.AllReduceAttrs{Group: g, Label: "b", Type: arena.Float32, Tensors: 1}
	guard, verdict := tensor(6, kernels.GuardSpec), tensor(7, kernels.VerdictSpec)
	return []kernels.Call{
		{Op: kernels.ReLU, In: on(0), Out: on(2), Label: "gradient a"},
		{Op: kernels.AllReduce, Attrs: a, In: on(2), Out: on(2), Label: "sum a"},
		{Op: kernels.ReLU, In: on(1), Out: on(3), Label: "gradient b"},
		{Op: kernels.AllReduce, Attrs: b, In: on(3), Out: on(3), Label: "sum b"},
		{Op: kernels.Await, Attrs: a, In: on(2), Out: on(2), Label: "await a"},
		{Op: kernels.ReLU, In: on(2), Out: on(4), Label: "use a"},
		{Op: kernels.Await, Attrs: b, In: on(3), Out: on(3), Label: "await b"},
		{Op: kernels.ReLU, In: on(3), Out: on(5), Label: "use b"},
		{Op: kernels.Agree, Attrs: kernels.AgreeAttrs{Group: g, Peer: 77}, In: []kernels.Operand{guard, verdict}, Out: []kernels.Operand{guard, verdict}, Label: "agree"},
	}
}

// sumStep is a bound step, and its memory.
type sumStep struct {
	kernels.Program
	mem, host arena.Span
	s         arena.Stream
}

func (p *peer) bindSums(calls []kernels.Call) (*sumStep, error) {
	const size = 8 * arena.Align
	mem, e1 := p.d.Alloc(size)
	host, e2 := p.d.Pin(size)
	if err := errors.Join(e1, e2); err != nil {
		return nil, err
	}
	x := &sumStep{mem: arena.Span{Memory: mem, Size: size}, host: arena.Span{Memory: host, Size: size}, s: p.s}
	var err error
	x.Program, err = p.d.Bind(calls, kernels.Binding{Memory: mem, Base: []int64{0}})
	return x, err
}

// step launches once with numbers a and b, and a guard.
func (x *sumStep) step(a, b float32, guard int32) error {
	x.set(a, b, guard)
	return errors.Join(x.s.Copy(x.mem, x.host), x.Launch(x.s), x.s.Copy(x.host, x.mem), x.s.Sync())
}

func (x *sumStep) set(a, b float32, guard int32) {
	bytes := x.host.Memory.Bytes()
	clear(bytes)
	for i := range arena.Align / 4 {
		binary.LittleEndian.PutUint32(bytes[4*i:], math.Float32bits(a))
		binary.LittleEndian.PutUint32(bytes[arena.Align+4*i:], math.Float32bits(b))
	}
	binary.LittleEndian.PutUint32(bytes[6*arena.Align:], uint32(guard))
}

func (x *sumStep) word(place int64) uint32 {
	return binary.LittleEndian.Uint32(x.host.Memory.Bytes()[place*arena.Align:])
}

// Sums, and what ranks agree on, are right in a graph and without, launch after launch; with graphs the
// whole step is one.
func TestAStepSumsOnTheDevice(t *testing.T) {
	for name, o := range map[string]Options{"graphs": {}, "launches": {Graphs: Never}, "waiting": {Sync: true}} {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				joined(t, n, o, 20*time.Second, func(p *peer) error {
					x, err := p.bindSums(sumCalls(p.Comm))
					if err != nil {
						return err
					}
					if parts := x.Program.(*program).parts; len(parts) != 1 || (parts[0].batch.exec != nil) != (name == "graphs") {
						t.Errorf("%d parts, want one, a graph: %v", len(parts), name == "graphs")
					}
					for k, codes := range [][]int32{{0, 0, 0, 0}, {0, 5, 0, 0}, {-3, 0, 0, 0}, {0, -1, 5, 0}} {
						if err := x.step(float32(p.Rank()+k), 1, codes[p.Rank()]); err != nil {
							return err
						}
						p.checkStep(t, x, float32(k), codes)
					}
					if err := p.Close(); !errors.Is(err, arena.ErrBusy) {
						t.Errorf("closed while a program uses it: %v, want ErrBusy", err)
					}
					return x.Close()
				})
				quiet(t)
			})
		}
	}
}

// checkStep compares the results of a step with what they must be.
func (p *peer) checkStep(t *testing.T, x *sumStep, k float32, codes []int32) {
	n := float32(p.Size())
	if got, want := math.Float32frombits(x.word(4)), n*(n-1)/2+n*k; got != want {
		t.Errorf("rank %d of %v, step %v: the first sum is %v, want %v", p.Rank(), n, k, got, want)
	}
	if got := math.Float32frombits(x.word(5)); got != n {
		t.Errorf("rank %d of %v, step %v: the second sum is %v, want %v", p.Rank(), n, k, got, n)
	}
	worst := uint32(kernels.VerdictFine)
	for _, c := range codes[:p.Size()] {
		if c > 0 {
			worst = max(worst, kernels.VerdictNonFinite)
		} else if c < 0 {
			worst = max(worst, kernels.VerdictIndex)
		}
	}
	guard := codes[p.Rank()]
	if guard == 0 && worst != kernels.VerdictFine {
		guard = 77
	}
	if x.word(7) != worst || int32(x.word(6)) != guard {
		t.Errorf("rank %d of %v, step %v: verdict %d and guard %d, want %d and %d", p.Rank(), n, k, x.word(7), int32(x.word(6)), worst, guard)
	}
}

// Each record and wait between the streams of a step is needed: without it the driver's checker finds
// accesses without order, or the graph cannot be captured.
func TestEachEventOfAStepIsNeeded(t *testing.T) {
	emulated(t)
	for name, o := range map[string]Options{"graphs": {}, "launches": {Graphs: Never}} {
		t.Run(name, func(t *testing.T) {
			joined(t, 1, o, 20*time.Second, func(p *peer) error {
				// run binds and launches, and returns what was found wrong.
				run := func(call string, n uint64) (wrong []string, err error) {
					fakecuda.Forget()
					if n > 0 {
						err = fakecuda.Omit(call, n)
					}
					x, e := p.bindSums(sumCalls(p.Comm))
					if e != nil {
						wrong = append(wrong, e.Error())
						return wrong, errors.Join(err, p.s.Sync(), fakecuda.Fail("", 0, 0))
					}
					x.set(1, 2, 0)
					err = errors.Join(err, x.s.Copy(x.mem, x.host), x.Launch(x.s), x.s.Sync(), fakecuda.Fail("", 0, 0), x.Close())
					return append(wrong, fakecuda.Reports()...), err
				}
				for call, want := range map[string]uint64{"cuEventRecord": 6, "cuStreamWaitEvent": 6} {
					if wrong, err := run("", 0); err != nil || len(wrong) > 0 {
						t.Fatalf("with all calls in place: %v, %v", err, wrong)
					}
					calls := fakecuda.Calls(call)
					if call == "cuEventRecord" {
						calls-- // the last one is not of the step: it is for the clock of the limit
					}
					if calls != want {
						t.Fatalf("%s is called %d times, want %d", call, calls, want)
					}
					for n := uint64(1); n <= calls; n++ {
						if wrong, err := run(call, n); err != nil || len(wrong) == 0 {
							t.Errorf("without %s %d of %d nothing was found: %v", call, n, calls, err)
						}
					}
				}
				fakecuda.Forget() // what was found was asked for
				return nil
			})
		})
	}
}

// Where a function of the host follows, the program waits for sums before it, and their Await does
// nothing more.
func TestAFunctionOfTheHostComesAfterSums(t *testing.T) {
	joined(t, 2, Options{}, 20*time.Second, func(p *peer) error {
		calls := sumCalls(p.Comm)
		read := float32(0)
		host := kernels.Call{Op: kernels.Host, Label: "look", In: []kernels.Operand{tensor(2, numbers)}, Attrs: look{&read}}
		x, err := p.bindSums(append(calls[:2:2], append([]kernels.Call{host}, calls[2:]...)...))
		if err != nil {
			return err
		}
		if err := x.step(float32(p.Rank()+1), 1, 0); err != nil {
			return err
		}
		if read != 3 {
			t.Errorf("the function of the host reads %v, want the sum, 3", read)
		}
		p.checkStep(t, x, 1, []int32{0, 0})
		return x.Close()
	})
	quiet(t)
}

// A stream that is timed reports sums on a track of their own.
func TestSumsAreTimed(t *testing.T) {
	joined(t, 2, Options{}, 20*time.Second, func(p *peer) error {
		x, err := p.bindSums(sumCalls(p.Comm))
		if err != nil {
			return err
		}
		tl := kernels.NewTimeline()
		err = errors.Join(p.d.TimeWork(p.s, tl), x.step(float32(p.Rank()), 1, 0), p.d.TimeWork(p.s, nil))
		p.checkStep(t, x, 0, []int32{0, 0})
		sums := map[int]int64{} // bytes, by call
		for _, w := range tl.Take() {
			if w.Track == kernels.GroupTrack {
				sums[w.Call] += w.Bytes
			}
		}
		if want := map[int]int64{1: arena.Align, 3: arena.Align, 8: 4}; !maps.Equal(sums, want) {
			t.Errorf("rank %d: sums %v are timed, want %v", p.Rank(), sums, want)
		}
		return errors.Join(err, x.Close())
	})
	quiet(t)
}

// A program must use one group, joined on its own device.
func TestAGroupOfAnotherDeviceIsRefused(t *testing.T) {
	var all [2]*Comm
	joined(t, 2, Options{}, 20*time.Second, func(p *peer) error {
		all[p.Rank()] = p.Comm
		barrier := group.Op{Kind: group.Barrier}
		if err := group.Once(p, barrier); err != nil {
			return err
		}
		_, err := p.bindSums(sumCalls(all[1-p.Rank()]))
		if !errors.Is(err, arena.ErrOption) || !strings.Contains(err.Error(), "joined on another device") {
			t.Errorf("got %v, want an error of options", err)
		}
		return group.Once(p, barrier)
	})
	quiet(t)
}

// look is a function of the host that keeps the first number of its operand.
type look struct{ to *float32 }

func (look) Infer([]kernels.Spec) ([]kernels.Spec, error) { return nil, nil }
func (look) String() string                               { return "look" }
func (l look) Run(in, _ [][]byte) error {
	*l.to = math.Float32frombits(binary.LittleEndian.Uint32(in[0]))
	return nil
}
