package trainer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// passes trains, evaluates and predicts, streaming and resident, on data with a ragged tail; with a scaled loss, whose steps wait for each other's
// outcome, too.
func passes(dev kernels.Device, ds, resident dataloader.Dataset) error {
	return errors.Join(passesOf(dev, ds, resident, optim.Scaling{}), passesOf(dev, ds, resident, optim.Scaling{Mode: optim.ScaleAlways}))
}

func passesOf(dev kernels.Device, ds, resident dataloader.Dataset, scaling optim.Scaling) error {
	tr, err := trainer.New(context.Background(), small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(),
		Resident: []dataloader.Dataset{resident}, Optimizer: optim.Adam{}, Workers: 2, LossScale: scaling})
	if err != nil {
		return err
	}
	defer tr.Close()
	ctx := context.Background()
	for _, ds := range []dataloader.Dataset{ds, resident} {
		for range 2 {
			if _, err := tr.Fit(ctx, ds); err != nil {
				return err
			}
			if _, err := tr.Evaluate(ctx, ds); err != nil {
				return err
			}
			for s, err := range tr.Steps(ctx, ds) {
				if err == nil && s.Step%3 == 2 {
					_, err = tr.Evaluate(ctx, ds)
				}
				if err != nil {
					return err
				}
			}
			for _, err := range tr.Predict(ctx, ds) {
				if err != nil {
					return err
				}
			}
		}
	}
	return tr.Close()
}

func TestNoTwoAccessesAreUnordered(t *testing.T) {
	t.Parallel()
	ds, resident := samples(t, 53, 4, 3), samples(t, 29, 4, 3)
	r := random(t)
	for _, o := range []emu.Options{{}, {Delay: 300 * time.Microsecond}, {Delay: 50 * time.Microsecond}, {Lazy: true}, {Lazy: true, Delay: 100 * time.Microsecond}} {
		o.Seed = r.Uint64()
		dev := emutest.OpenChecked(t, o) // which reports races at the end
		if err := passes(dev, ds, resident); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
		if n := dev.Traffic().Deepest; n > 16 {
			t.Errorf("%+v: %d pieces of work were queued at once: two steps have at most 16", o, n)
		}
	}
}

// TestEveryWaitOfTheProtocolIsNeeded takes one kind of wait after the other away, and demands that the checker finds the race.
func TestEveryWaitOfTheProtocolIsNeeded(t *testing.T) {
	ds, resident := samples(t, 53, 4, 3), samples(t, 29, 4, 3)
	for _, c := range []struct {
		name string
		drop func(stream, call string) bool
		race bool
	}{
		{"none", func(string, string) bool { return false }, false},
		{"of the program for the upload", func(stream, call string) bool { return stream == "compute" && call == "wait" }, true},
		{"of the loader for the upload", func(stream, call string) bool { return stream == "copy" && call == "event sync" }, true},
		{"of the host for the results", func(stream, call string) bool { return stream == "compute" && call == "event sync" }, true},
		{"all records of uploads", func(stream, call string) bool { return stream == "copy" && call == "record" }, true},
		{"all records of programs", func(stream, call string) bool { return stream == "compute" && call == "record" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if cputest.Race && c.race {
				t.Skip("the wait is missing in truth, so that Go's race detector fails the test: run without -race")
			}
			dev := emutest.Open(t, emu.Options{Delay: 100 * time.Microsecond, Seed: random(t).Uint64()})
			defer dev.Close()
			within(t, 30*time.Second, "the passes", func() {
				err := passes(&careless{Device: dev, drop: c.drop}, ds, resident)
				if err != nil && !c.race {
					t.Error(err)
				}
			})
			if got := dev.Races(); (len(got) > 0) != c.race {
				t.Errorf("races: %v, want some: %v", got, c.race)
			}
		})
	}
}

// TestASlotGuardThatIsGoneIsFound takes single records away, of the first ones, one a run.
func TestASlotGuardThatIsGoneIsFound(t *testing.T) {
	ds, resident := samples(t, 53, 4, 3), samples(t, 29, 4, 3)
	found := 0
	for n := 1; n <= 6; n++ {
		dev := emutest.Open(t, emu.Options{})
		var mu sync.Mutex
		count := 0
		err := passes(&careless{Device: dev, drop: func(stream, call string) bool {
			if stream != "compute" || call != "wait" {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			count++
			return count == n
		}}, ds, resident)
		if err != nil && len(dev.Races()) == 0 {
			t.Errorf("wait %d: %v", n, err)
		}
		if len(dev.Races()) > 0 {
			found++
		}
		dev.Close()
	}
	if found != 6 {
		t.Errorf("%d of 6 missing waits were found", found)
	}
}

// careless is an emulated device that leaves out the calls that drop names, by stream: a record, a wait of a stream, or the host's wait
// for an event recorded last on that stream.
type careless struct {
	*emu.Device
	drop func(stream, call string) bool
}

func (d *careless) NewStream(name string) (arena.Stream, error) {
	s, err := d.Device.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &carelessStream{s, d, name}, nil
}

func (d *careless) NewEvent() (arena.Event, error) {
	e, err := d.Device.NewEvent()
	if err != nil {
		return nil, err
	}
	return &carelessEvent{Event: e, d: d}, nil
}

func (d *careless) Bind(calls []kernels.Call, at kernels.Binding) (kernels.Program, error) {
	p, err := d.Device.Bind(calls, at)
	if err != nil {
		return nil, err
	}
	return carelessProgram{p}, nil
}

type carelessProgram struct{ kernels.Program }

func (p carelessProgram) Launch(s arena.Stream) error {
	return p.Program.Launch(s.(*carelessStream).Stream)
}

type carelessStream struct {
	arena.Stream
	d    *careless
	name string
}

func (s *carelessStream) Record(e arena.Event) error {
	c := e.(*carelessEvent)
	c.mu.Lock()
	c.stream = s.name
	c.mu.Unlock()
	if s.d.drop(s.name, "record") {
		return nil
	}
	return s.Stream.Record(c.Event)
}

func (s *carelessStream) Wait(e arena.Event) error {
	if s.d.drop(s.name, "wait") {
		return nil
	}
	return s.Stream.Wait(e.(*carelessEvent).Event)
}

type carelessEvent struct {
	arena.Event
	d      *careless
	mu     sync.Mutex
	stream string
}

func (e *carelessEvent) Sync() error {
	e.mu.Lock()
	stream := e.stream
	e.mu.Unlock()
	if e.d.drop(stream, "event sync") {
		return nil
	}
	return e.Event.Sync()
}

func (e *carelessEvent) Done() bool { return e.d.drop("", "done") || e.Event.Done() }
