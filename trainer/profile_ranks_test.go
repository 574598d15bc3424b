package trainer_test

import (
	"sync"
	"testing"
	"time"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/profile"
)

// slowGroup is a group whose sums take a time in which no processor is busy, as on a network.
type slowGroup struct {
	group.Group
	takes time.Duration
}

func (g slowGroup) Prepare(op group.Op) (group.Operation, error) {
	o, err := g.Group.Prepare(op)
	if err != nil || op.Kind != group.Sum || len(op.Data) < 512 {
		return o, err
	}
	return &slowOperation{Operation: o, takes: g.takes}, nil
}

// slowOperation completes some time after its ranks have started it.
type slowOperation struct {
	group.Operation
	takes     time.Duration
	done      chan struct{}
	err       error
	completed time.Time
}

func (o *slowOperation) Start() error {
	if err := o.Operation.Start(); err != nil {
		return err
	}
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		o.err = o.Operation.Wait()
		time.Sleep(o.takes)
		o.completed = time.Now()
	}()
	return nil
}

func (o *slowOperation) Wait() error {
	<-o.done
	return o.err
}

func (o *slowOperation) Completed() time.Time { return o.completed }

// sumsOf profiles two ranks whose sums take that long, on devices of their own.
func sumsOf(t *testing.T, open func() kernels.Device, takes time.Duration) (p *profile.Profile) {
	t.Helper()
	ds := samples(t, 64, 16, 3)
	var mu sync.Mutex
	ranks(t, 2, func(g group.Group) {
		opt := trainer.Options{Device: open(), Batch: 8, Fields: ds.Fields(), Group: slowGroup{g, takes}}
		tr, err := trainer.New(t.Context(), bucketed, opt)
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		own, err := tr.Profile(t.Context(), ds, 3)
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if g.Rank() == 0 {
			p = own
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return p
}

// bucketed is 16-1024-1024-3: the gradients of the last two layers are one bucket of sums.
func bucketed(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 16)
	h := net.Dense(net.Dense(x, "first", 1024, layers.ReLU), "second", 1024, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 3, nil))
}

// While a sum is on its way, each rank computes the rest of its backward pass.
func TestSumsHideBehindTheBackwardPass(t *testing.T) {
	const takes = 4 * time.Millisecond
	most := 0.0
	for try := 0; try < 8 && most < 0.5; try++ { // a machine that is busy otherwise computes the sums themselves slowly
		p := sumsOf(t, func() kernels.Device { return emutest.OpenChecked(t, emu.Options{}) }, takes)
		sums := 0
		for _, e := range p.Events {
			if e.Kind == profile.Sum {
				sums++
			}
		}
		t.Logf("%d sums, %v a step, %.0f %% hidden", sums, p.Sums.Total/time.Duration(p.Steps), 100*p.Sums.Share())
		if sums < 3*p.Steps || p.Sums.Total < time.Duration(p.Steps)*takes || p.Sums.Hidden > p.Sums.Total {
			t.Errorf("%d sums in %d steps: %+v", sums, p.Steps, p.Sums)
		}
		most = max(most, p.Sums.Share())
	}
	if most < 0.5 {
		t.Errorf("at most %.0f %% of the sums are hidden", 100*most)
	}
}

// Where nothing computes while a sum is on its way, nothing of it is hidden.
func TestSumsOfOneLayerHideNothing(t *testing.T) {
	ds := samples(t, 64, 16, 3)
	ranks(t, 2, func(g group.Group) {
		model := func(graph *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
			net := layers.New(graph)
			x := net.Input("x", batch, 16)
			return net.Classifier(x, net.Dense(x, "only", 64, nil))
		}
		tr, err := trainer.New(t.Context(), model, trainer.Options{Device: cputest.OpenChecked(t, cpu.Options{Threads: 1}), Batch: 8,
			Fields: ds.Fields(), Group: slowGroup{g, 40 * time.Millisecond}})
		if err != nil {
			t.Error(err)
			return
		}
		defer tr.Close()
		p, err := tr.Profile(t.Context(), ds, 3)
		if err != nil {
			t.Error(err)
		} else if p.Sums.Total < 120*time.Millisecond || p.Sums.Share() > 0.2 {
			t.Errorf("%v of sums that take 40ms, %.0f %% hidden", p.Sums.Total, 100*p.Sums.Share())
		}
	})
}

// The upload of a batch runs while the step before it computes.
func TestUploadsHideBehindTheStepBefore(t *testing.T) {
	ds := samples(t, 96, 4, 3)
	tr := made(t, small, trainer.Options{Device: emutest.OpenChecked(t, emu.Options{Delay: time.Millisecond}), Batch: 8, Fields: ds.Fields()})
	p, err := tr.Profile(t.Context(), ds, 12)
	if err != nil {
		t.Fatal(err)
	}
	if t.Log(p.Copies.Share()); p.Copies.Share() < 0.02 || p.Copies.Share() > 0.9 {
		t.Errorf("%+v of copies: about half of them are uploads that overlap a step", p.Copies)
	}
}
