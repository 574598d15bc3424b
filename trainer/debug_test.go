package trainer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
)

// wild is a host device on which one call writes past the end of its output.
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
			return &wildProgram{p, at.Memory.Bytes(), at.Base[o.Ref.Region] + o.Ref.Offset + o.Bytes() + d.by}, nil
		}
	}
	return p, nil
}

type wildProgram struct {
	kernels.Program
	memory []byte
	at     int64
}

func (p *wildProgram) Launch(s arena.Stream) error {
	err := p.Program.Launch(s)
	p.memory[p.at] ^= 0x55
	return err
}

func TestDebugModeNamesTheCallThatWritesOutside(t *testing.T) {
	ds := samples(t, 12, 4, 3)
	for _, label := range scratchLabels(t) {
		for _, by := range []int64{0, 3, 63} {
			dev := &wild{openCPU(t), label, by}
			tr := made(t, small, trainer.Options{Device: dev, Batch: 4, Fields: ds.Fields(), Debug: true})
			_, err := tr.Fit(context.Background(), ds)
			var e *arena.OverrunError
			if !errors.As(err, &e) || e.Call != label || !strings.Contains(err.Error(), label) {
				t.Errorf("%d bytes beyond the output of %q: got %v, want an error that names it", by, label, err)
			}
		}
	}
}

// scratchLabels returns the labels of small's calls whose output lies in scratch and is longer-lived than the call.
func scratchLabels(t *testing.T) []string {
	t.Helper()
	p, err := trainer.Plan(t.Context(), small, trainer.Options{Batch: 4, Debug: true, Device: openCPU(t)})
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
	ds := samples(t, 13, 4, 3)
	tr := made(t, small, trainer.Options{Device: openCPU(t), Batch: 4, Fields: ds.Fields(), Debug: true})
	for range 3 {
		fit(t, tr, ds)
		evaluate(t, tr, ds)
		outputs(t, tr, ds)
	}
}

func TestDebugModeNeedsMemoryThatTheHostSees(t *testing.T) {
	_, err := trainer.New(t.Context(), small, trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Batch: 4, Debug: true})
	if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), "emu") {
		t.Errorf("got %v, want an error about the device", err)
	}
}
