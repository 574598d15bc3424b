package trainer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/internal/emutest"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/kernels/emu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// trained returns every number that three epochs of opt give, and the outputs after them.
func trained(t *testing.T, opt trainer.Options, ds dataloader.Dataset) (numbers []float64) {
	t.Helper()
	opt.Batch, opt.Fields, opt.Optimizer = 8, ds.Fields(), optim.Adam{Rate: 0.01}
	tr := made(t, small, opt)
	for range 3 {
		numbers = append(numbers, fit(t, tr, ds).Loss, evaluate(t, tr, ds).Loss)
	}
	numbers = append(numbers, outputs(t, tr, ds)...)
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	return numbers
}

func TestSameSeedGivesTheSameBitsWhateverTheWorkers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 29, 4, 3)
		want := trained(t, trainer.Options{Device: dev, Seed: 11, Workers: 1}, ds)
		for _, workers := range []int{0, 1, 2, 8} {
			same(t, "another run", trained(t, trainer.Options{Device: dev, Seed: 11, Workers: workers}, ds), want)
		}
		if slices.Equal(trained(t, trainer.Options{Device: dev, Seed: 12}, ds), want) {
			t.Error("seeds 11 and 12 give the same numbers")
		}
	})
}

func TestThreadsDoNotChangeBits(t *testing.T) {
	ds := samples(t, 29, 4, 3)
	var want []float64
	for _, threads := range []int{1, 2, 3, 8} {
		dev := cputest.Open(t, cpu.Options{Threads: threads})
		procs := runtime.GOMAXPROCS(threads)
		got := trained(t, trainer.Options{Device: dev, Seed: 11}, ds)
		runtime.GOMAXPROCS(procs)
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if want == nil {
			want = got
		}
		same(t, "threads", got, want)
	}
}

func TestDelaysAndLazinessOfADeviceDoNotChangeBits(t *testing.T) {
	ds := samples(t, 29, 4, 3)
	want := trained(t, trainer.Options{Device: emutest.OpenChecked(t, emu.Options{}), Seed: 11}, ds)
	r := random(t)
	for range 3 {
		o := emu.Options{Seed: r.Uint64(), Delay: 200 * time.Microsecond}
		same(t, "delayed", trained(t, trainer.Options{Device: emutest.OpenChecked(t, o), Seed: 11}, ds), want)
		o.Lazy = true
		same(t, "lazy", trained(t, trainer.Options{Device: emutest.OpenChecked(t, o), Seed: 11}, ds), want)
	}
}

func TestDebugModeDoesNotChangeBits(t *testing.T) {
	ds := samples(t, 29, 4, 3)
	dev := openCPU(t)
	same(t, "debug", trained(t, trainer.Options{Device: dev, Debug: true}, ds), trained(t, trainer.Options{Device: dev}, ds))
}

func TestEvaluationAndPredictionChangeNothing(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 21, 4, 3)
		opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Seed: 2}
		plain, mixed := made(t, small, opt), made(t, small, opt)
		for range 3 {
			fit(t, plain, ds)
			evaluate(t, mixed, ds)
			outputs(t, mixed, ds)
			fit(t, mixed, ds)
			evaluate(t, mixed, ds)
		}
		same(t, "outputs", outputs(t, mixed, ds), outputs(t, plain, ds))
	})
}

func TestOrderOfSamplesIsNewInEachEpoch(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		orders := func(opt trainer.Options) (all [][]int) {
			ds := &recorder{Dataset: samples(t, 16, 4, 3)}
			opt.Device, opt.Batch, opt.Fields, opt.Workers = dev, 16, ds.Fields(), 1
			tr := made(t, small, opt)
			for range 3 {
				fit(t, tr, ds)
				all = append(all, ds.seen)
				ds.seen = nil
			}
			return all
		}
		shuffled := orders(trainer.Options{Seed: 1})
		for i, a := range shuffled {
			for _, b := range shuffled[i+1:] {
				if slices.Equal(a, b) {
					t.Errorf("two epochs have the order %v", a)
				}
			}
		}
		for _, a := range orders(trainer.Options{Seed: 1, Sequential: true}) {
			if !slices.IsSorted(a) {
				t.Errorf("order %v, want the dataset's", a)
			}
		}
	})
}

// TestDrawsOfADatasetAreAFunctionOfSeedEpochAndSample looks at what a dataset that draws gives to training.
func TestDrawsOfADatasetAreAFunctionOfSeedEpochAndSample(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		draws := func(workers int) map[[2]int]float64 {
			seen := make(map[[2]int]float64)
			ds := &drawing{Dataset: samples(t, 8, 4, 3), drawn: make(chan [3]float64, 64)}
			tr := made(t, small, trainer.Options{Device: dev, Batch: 3, Fields: ds.Fields(), Workers: workers, Seed: 9})
			for range 2 {
				fit(t, tr, ds)
			}
			close(ds.drawn)
			for d := range ds.drawn {
				seen[[2]int{int(d[0]), int(d[1])}] = d[2]
			}
			return seen
		}
		want := draws(1)
		distinct := make(map[float64]bool)
		for _, v := range want {
			distinct[v] = true
		}
		if len(want) != 16 || len(distinct) != 16 {
			t.Fatalf("%d draws, %d of them different; want 16", len(want), len(distinct))
		}
		for _, workers := range []int{2, 8} {
			for k, v := range draws(workers) {
				if want[k] != v {
					t.Errorf("%d workers: epoch %d sample %d draws %v, want %v", workers, k[0], k[1], v, want[k])
				}
			}
		}
	})
}

// drawing is a dataset that replaces the first input by a random number.
type drawing struct {
	dataloader.Dataset
	drawn chan [3]float64
}

func (d *drawing) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if err := d.Dataset.Fetch(ctx, at, dst); err != nil {
		return err
	}
	r := at.Rand()
	v := r.Float64()
	binary.NativeEndian.PutUint32(dst[0], math.Float32bits(float32(v)))
	d.drawn <- [3]float64{float64(at.Epoch), float64(at.Index), v}
	return nil
}

// parameters returns the bytes of all parameters.
func parameters(t *testing.T, tr *trainer.Trainer) (all []byte) {
	t.Helper()
	ps, err := tr.Params()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func TestSameSeedGivesTheSameBytesOfParametersWhateverTheWorkers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 29, 4, 3)
		run := func(seed uint64, workers int) []byte {
			tr := made(t, small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Optimizer: optim.Adam{}, Seed: seed, Workers: workers})
			for range 3 {
				fit(t, tr, ds)
			}
			return parameters(t, tr)
		}
		want := run(5, 1)
		for _, workers := range []int{1, 2, 8} {
			if got := run(5, workers); !bytes.Equal(got, want) || len(got) != 67*4 {
				t.Errorf("%d workers: %d bytes of parameters differ from those of one worker", workers, len(got))
			}
		}
		if bytes.Equal(run(6, 1), want) {
			t.Error("seeds 5 and 6 give the same parameters")
		}
	})
}
