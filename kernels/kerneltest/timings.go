package kerneltest

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// testTimings checks that a device which measures its work reports each call, copy and fill of a
// stream once, in their order and not overlapping, with the mark of its launch, and with the same
// results; and that it reports nothing when it is told to end.
func testTimings(t *testing.T, open opener) {
	p := openPair(t, open, 3*arena.Align)
	timer, ok := p.dev.(kernels.WorkTimer)
	if !ok {
		t.Skipf("%s does not measure its work", p.dev.Name())
	}
	if err := timer.TimeWork(nil, kernels.NewTimeline()); err == nil {
		t.Error("the stream of another device is timed")
	}
	x := kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{3}}
	at := func(slot int64) kernels.Operand {
		return kernels.Operand{Spec: x, Ref: arena.Ref{Offset: slot * arena.Align, Size: x.Bytes()}}
	}
	call := func(from, to int64) kernels.Call {
		return kernels.Call{Op: kernels.Affine, Attrs: kernels.AffineAttrs{Scale: 1, Shift: 1}, Label: "add",
			In: []kernels.Operand{at(from)}, Out: []kernels.Operand{at(to)}}
	}
	host := kernels.Call{Op: kernels.Host, Attrs: copied{}, Label: "host", In: []kernels.Operand{at(1)}, Out: []kernels.Operand{at(2)}}
	prog, err := p.dev.Bind([]kernels.Call{call(0, 1), host, call(2, 0)}, kernels.Binding{Memory: p.a, Base: []int64{0}, After: []kernels.Copy{
		{Dst: arena.Span{Memory: p.host, Size: x.Bytes()}, Src: arena.Span{Memory: p.a, Size: x.Bytes()}}}})
	must(t, err)
	tl := kernels.NewTimeline()
	launch := func(mark int) {
		tl.SetMark(mark)
		must(t, p.stream.Fill(whole(p.a), 0), prog.Launch(p.stream), p.stream.Copy(whole(p.b), whole(p.a)), p.stream.Sync())
		var got [3]float64
		if kernels.Load(got[:], arena.Float32, p.host.Bytes()); got != [3]float64{2, 2, 2} {
			t.Errorf("launch %d: results %v, want 2", mark, got)
		}
	}
	launch(1)
	must(t, timer.TimeWork(p.stream, tl))
	launch(2)
	launch(3)
	must(t, timer.TimeWork(p.stream, nil))
	launch(4)
	checkTimings(t, prog, tl, p.a.Size())
	must(t, prog.Close(), p.a.Free(), p.b.Free(), p.host.Free())
}

// clockError bounds the difference between the clock of a device and that of the host.
const clockError = 100 * time.Microsecond

// checkTimings checks the timings of testTimings' launches 2 and 3.
func checkTimings(t *testing.T, prog kernels.Program, tl *kernels.Timeline, bytes int64) {
	t.Helper()
	now, last := tl.Now(), time.Duration(0)
	var got [12]kernels.Timing // launch by launch: a fill, the calls, a copy
	n, own := 0, 0
	for _, w := range tl.Take() {
		if w.Track == kernels.WorkerTrack {
			continue
		}
		at := 6*(w.Mark-2) + 1 + w.Call
		if w.Program == nil {
			at = []int{0, 5, 6, 11, 0}[min(own, 4)]
			own++
		}
		if n++; at < 0 || at >= len(got) {
			t.Fatalf("timing %+v", w)
		}
		got[at] = w
	}
	if n != len(got) {
		t.Fatalf("%d timings, want %d: %+v", n, len(got), got)
	}
	for i, w := range got {
		if w.Begin < last-clockError || w.End < w.Begin || w.End > now+clockError {
			t.Errorf("timing %d is %v to %v, the one before it ended at %v", i, w.Begin, w.End, last)
		}
		last = w.End
		nth, mark := i%6, 2+i/6
		own := nth == 0 || nth == 5 // of the stream itself
		if w.Stream == "" || w.Track != kernels.StreamTrack || w.Mark != mark || own != (w.Program == nil) ||
			own && w.Bytes != bytes || !own && (w.Program != prog || w.Call != nth-1) {
			t.Errorf("timing %d: %+v", i, w)
		}
	}
}

// copied is a function of the host that copies its input.
type copied struct{}

func (copied) Infer(in []kernels.Spec) ([]kernels.Spec, error) { return in, nil }
func (copied) Run(in, out [][]byte) error                      { copy(out[0], in[0]); return nil }
func (copied) String() string                                  { return "copied" }
