package trainer_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// wild is a device on which one call writes past the end of its output.
type wild struct {
	kernels.Device
	label string
	by    int64 // bytes beyond the end
}

func (d *wild) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	p, err := d.Device.Bind(calls, at)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		if c.Label == d.label {
			o := c.Out[0]
			return &wildProgram{p, arena.Span{Memory: at.Memory, Offset: at.Base[o.Ref.Region] + o.Ref.Offset + o.Bytes() + d.by, Size: 1}}, nil
		}
	}
	return p, nil
}

type wildProgram struct {
	kernels.Program
	at arena.Span
}

func (p *wildProgram) Launch(s arena.Stream) error {
	return errors.Join(p.Program.Launch(s), s.Fill(p.at, 0x55))
}

func TestDebugModeNamesTheCallThatWritesOutside(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 12, 4, 3)
		for _, label := range scratchLabels(t, dev) {
			for _, by := range []int64{0, 3, 63} {
				tr := made(t, small, trainer.Options{Device: &wild{dev, label, by}, Batch: 4, Fields: ds.Fields(), Debug: true})
				_, err := tr.Fit(context.Background(), ds)
				var e *arena.OverrunError
				if !errors.As(err, &e) || e.Call != label || !strings.Contains(err.Error(), label) {
					t.Errorf("%d bytes beyond the output of %q: got %v, want an error that names it", by, label, err)
				}
			}
		}
	})
}

// scratchLabels returns the labels of small's calls whose output lies in scratch and is longer-lived than the call.
func scratchLabels(t *testing.T, dev kernels.Device) []string {
	t.Helper()
	p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Debug: true, Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	q := p.Programs[0]
	for _, b := range q.Buffers {
		if l := q.Labels[b.Start]; !strings.Contains(b.Name, "workspace") && b.Name == l && count(q.Labels, l) == 1 {
			labels = append(labels, l)
		}
	}
	if len(labels) == 0 {
		t.Fatalf("no call of %v writes to scratch", q.Labels)
	}
	return labels
}

func count(all []string, s string) (n int) {
	for _, a := range all {
		if a == s {
			n++
		}
	}
	return n
}

func TestDebugModeFindsNothingInSoundPrograms(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 13, 4, 3)
		for _, offload := range []bool{false, true} {
			opt := trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Seed: 3, Checkpoint: true, Optimizer: optim.Adam{}}
			opt.Offload.State = offload && !dev.Unified()
			plain := made(t, small, opt)
			opt.Debug = true
			tr := made(t, small, opt)
			for range 2 {
				if got, want := fit(t, tr, ds), fit(t, plain, ds); got.Loss != want.Loss {
					t.Errorf("loss %v, %v without debug", got.Loss, want.Loss)
				}
				evaluate(t, tr, ds)
				outputs(t, tr, ds)
			}
			if !maps.Equal(learned(t, tr), learned(t, plain)) {
				t.Error("with debug other bits are learned")
			}
		}
	})
}

func TestDebugModeIsForOneRank(t *testing.T) {
	ranks(t, 2, func(g group.Group) {
		_, err := trainer.New(t.Context(), small, trainer.Options{Device: openCPU(t), Batch: 4, Group: g, Fields: samples(t, 8, 4, 3).Fields(), Debug: true})
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), "leave out Group") {
			t.Errorf("got %v, want an error about the group", err)
		}
	})
}
