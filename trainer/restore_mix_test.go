package trainer_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// restoredEpochs are the epochs of a run that is restored in the second one.
const restoredEpochs = 3

// finale is what is compared of a run: its last state, and the results of its last epochs, the
// latest first.
type finale struct {
	state   *saved
	results []string
}

// endOf trains passes over the data until the epoch of the number end, by Fit.
func (m mix) endOf(t *testing.T, tr *trainer.Trainer, end int) (e finale) {
	t.Helper()
	for tr.Position().Epoch < end {
		res := fit(t, tr, m.data)
		res.Uploaded = 0 // a batch of which some objectives had their step is uploaded again
		e.results = append([]string{fmt.Sprintf("%+v", res)}, e.results...)
	}
	e.state = save(t, tr)
	return e
}

// differs returns what differs between two endings: tensors, numbers, or results of epochs that
// both have.
func (e finale) differs(t *testing.T, o finale) (all []string) {
	t.Helper()
	all = differing(stringsOf(e.state.tensors), stringsOf(o.state.tensors))
	a, b := infoOf(t, e.state), infoOf(t, o.state)
	for _, i := range []*trainer.Info{&a, &b} { // these are of the trainer, not of the run
		i.Device, i.Plan, i.Settings = "", "", nil
	}
	if !reflect.DeepEqual(a, b) {
		all = append(all, fmt.Sprintf("numbers %+v and %+v", a, b))
	}
	for i := range min(len(e.results), len(o.results)) {
		if e.results[i] != o.results[i] {
			all = append(all, fmt.Sprintf("results %s and %s", e.results[i], o.results[i]))
		}
	}
	return all
}

// infoOf returns the numbers of a state.
func infoOf(t *testing.T, s *saved) trainer.Info {
	t.Helper()
	info, err := s.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A run that is captured at a step that is drawn, and restored into a new trainer, ends with the
// same state as one that was not interrupted, and its epochs have the same results: whatever the
// net and the options, and whatever is offloaded and recomputed after the restore.
func TestRandomMixesGoOnAfterARestore(t *testing.T) {
	parallel(t)
	names, _, _ := mixNets()
	n := *mixes
	if testing.Short() {
		n = min(n, 6)
	}
	r := random(t)
	for i := range n {
		m := randomMix(t, r, names)
		if i%3 == 0 { // more than one objective
			m = randomMix(t, r, []string{"rivals"})
		}
		m.opt.Checkpoint = true
		a, offload, cut := again{r.IntN(2) == 0, r.Float64(), r.Uint64()}, randomOffload(t, r, m), r.Uint64()
		for _, d := range targets {
			t.Run(fmt.Sprint(i, " ", m.net, "/", d.name), func(t *testing.T) {
				m.goesOn(t, d.open(t, 0), a, offload, cut)
			})
		}
	}
}

// goesOn cuts a run of the mix.
func (m mix) goesOn(t *testing.T, dev kernels.Device, a again, offload trainer.Offload, seed uint64) {
	m.opt.Device = dev
	m.opt = exactly(t, m, m.opt)
	straight := made(t, m.model, m.opt)
	want := m.endOf(t, straight, restoredEpochs)
	at := 1 + rand.New(rand.NewPCG(seed, 1)).IntN((restoredEpochs-1)*m.steps-1) // each batch has one step at least
	var middle *saved
	first := made(t, m.model, m.opt)
	stepsOf(t, first, m.data, at, func() { middle = save(t, first) })
	other := m
	if other.opt.Memory = 0; !dev.Unified() {
		other.opt.Offload = offload
	}
	other.opt = exactly(t, m, a.options(t, m, other.opt))
	second := made(t, other.model, other.opt)
	restore(t, second, middle)
	if d := want.differs(t, other.endOf(t, second, restoredEpochs)); len(d) > 0 {
		t.Errorf("%v: cut after %d steps at %+v: %q differ", m, at, infoOf(t, middle).Position, d)
	}
}

// A run goes on between the objectives of a batch, at any place of a window.
func TestARunGoesOnWithinABatch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		m := mix{net: "rivals", model: rivals, data: samples(t, 20, 4, 3)}
		m.opt = trainer.Options{Device: dev, Batch: 4, Accumulate: 2, Fields: samples(t, 4, 4, 3).Fields(), Optimizer: optim.Adam{}, Checkpoint: true}
		want := m.endOf(t, made(t, rivals, m.opt), 2)
		for at := 1; at < 10; at++ {
			s := middle(t, rivals, m.opt, m.data, at)
			objective := []string{"", "b"}[at%2]
			if got := infoOf(t, s).Position; got != (trainer.Position{Step: at / 2, Objective: objective}) {
				t.Errorf("%d steps: position %+v", at, got)
			}
			tr := made(t, rivals, m.opt)
			restore(t, tr, s)
			if d := want.differs(t, m.endOf(t, tr, 2)); len(d) > 0 {
				t.Errorf("cut after %d steps: %q differ", at, d)
			}
		}
	})
}
