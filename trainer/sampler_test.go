package trainer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// drawn is a sampler that draws Count samples an epoch, with repetitions.
type drawn struct{ Count int }

func (d drawn) Epoch(n int, seed uint64, epoch int) (dataloader.Sequence, error) {
	return drawnEpoch{d.Count, n, seed, epoch}, nil
}

type drawnEpoch struct {
	count, n int
	seed     uint64
	epoch    int
}

func (d drawnEpoch) Len() int { return d.count }
func (d drawnEpoch) Index(position int) int {
	r := dataloader.At{Index: position, Epoch: d.epoch, Seed: d.seed}.Rand()
	return r.IntN(d.n)
}

// frames is a source of blocks with the samples of a dataset. Load fails if its context is done.
type frames struct {
	ds    dataloader.Dataset
	sizes []int
	name  uint64
}

func (f *frames) Fields() []dataloader.Field { return f.ds.Fields() }
func (f *frames) Sizes() []int               { return f.sizes }
func (f *frames) Fingerprint() uint64        { return f.name }
func (f *frames) Load(ctx context.Context, _ int, _ dataloader.Block) (dataloader.Block, error) {
	return frame{f.ds}, ctx.Err()
}

type frame struct{ ds dataloader.Dataset }

func (f frame) Fetch(ctx context.Context, _ int, at dataloader.At, dst [][]byte) error {
	return f.ds.Fetch(ctx, at, dst)
}

// framed returns ds in blocks of up to 7 samples.
func framed(t *testing.T, ds dataloader.Dataset, name uint64) dataloader.Dataset {
	t.Helper()
	f := &frames{ds: ds, name: name}
	for at := 0; at < ds.Len(); at += 7 {
		f.sizes = append(f.sizes, min(7, ds.Len()-at))
	}
	b, err := dataloader.FromBlocks(f, dataloader.BlockOptions{Held: 4})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A sampler decides how many samples an epoch has, also of a resident dataset: the last batch is theirs.
func TestASamplerChoosesTheSamplesOfTraining(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		ds := samples(t, 16, 4, 3)
		for _, count := range []int{8, 19, 5} {
			want := drawn{count}
			rec := &recorder{Dataset: ds}
			opt := trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Seed: 3, Sampler: want, Workers: 1}
			tr := made(t, small, opt)
			res := fit(t, tr, rec)
			if res.Samples != count || res.Steps != (count+7)/8 {
				t.Errorf("got %+v, want %d samples", res, count)
			}
			order, _ := want.Epoch(16, 3, 0)
			for i, x := range rec.seen {
				if len(rec.seen) != count || x != order.Index(i) {
					t.Fatalf("position %d: got samples %v, want %d", i, rec.seen, order.Index(i))
				}
			}
			if res := evaluate(t, tr, ds); res.Samples != 16 {
				t.Errorf("evaluation: got %+v, want all samples", res)
			}
			opt.Resident, opt.Fields = []dataloader.Dataset{ds}, nil
			if got := fit(t, made(t, small, opt), ds); got.Loss != res.Loss || got.Samples != count || got.Steps != res.Steps {
				t.Errorf("resident: got %+v, want %+v", got, res)
			}
		}
		if _, err := trainer.New(t.Context(), small, trainer.Options{Device: dev, Batch: 8, Fields: ds.Fields(), Sampler: drawn{8}, Sequential: true}); !errors.Is(err, trainer.ErrOption) ||
			!strings.Contains(err.Error(), "sampler") {
			t.Errorf("sampler and sequential: got %v", err)
		}
	})
}

// A run over blocks or with a sampler that is restored in the middle of an epoch, with other workers, has the same bits.
func TestARestoredRunHasTheSameBitsOverBlocksAndSamplers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		plain := samples(t, 53, 4, 3)
		for name, c := range map[string]struct {
			ds      dataloader.Dataset
			sampler dataloader.Sampler
		}{"blocks": {framed(t, plain, 1), nil}, "sampler": {plain, drawn{45}}, "both": {framed(t, plain, 1), drawn{45}}} {
			opt := trainer.Options{Device: dev, Batch: 8, Fields: plain.Fields(), Seed: 5, Sampler: c.sampler, Optimizer: optim.Adam{}, Checkpoint: true, Workers: 1}
			straight := made(t, small, opt)
			want := stepsOf(t, straight, c.ds, 20, nil)
			end := save(t, straight)
			for _, at := range []int{1, 6, 13} {
				opt.Workers++
				second := made(t, small, opt)
				restore(t, second, middle(t, small, opt, c.ds, at))
				for i, s := range stepsOf(t, second, c.ds, 20-at, nil) {
					if s.Loss != want[at+i].Loss || s.Epoch != want[at+i].Epoch || s.Step != want[at+i].Step {
						t.Errorf("%s: cut at %d: step %d is %+v, want %+v", name, at, i, s, want[at+i])
					}
				}
				if d := differing(stringsOf(end.tensors), stringsOf(save(t, second).tensors)); len(d) > 0 {
					t.Errorf("%s: cut at %d: %q differ", name, at, d)
				}
			}
		}
	})
}

// Data of the same length and fields, but with another fingerprint, are other data: in the middle of an epoch they are
// refused, and RestoreOptions.Data lists them.
func TestARestoreSaysWhetherTheDataAreTheSame(t *testing.T) {
	dev := openCPU(t)
	plain := samples(t, 40, 4, 3)
	ds, same, other := framed(t, plain, 1), framed(t, plain, 1), framed(t, plain, 2)
	opt := trainer.Options{Device: dev, Batch: 8, Fields: plain.Fields(), Checkpoint: true}
	for _, c := range []struct {
		steps int // before the state
		at    trainer.Position
	}{{3, trainer.Position{Epoch: 1}}, {10, trainer.Position{Epoch: 2}}} {
		s := middle(t, small, opt, ds, c.steps)
		tr := made(t, small, opt)
		before := restore(t, tr, s).Position
		if before.Step > 0 {
			if _, err := tr.Fit(t.Context(), other); !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), "fingerprint") {
				t.Errorf("%d steps: other data: got %v, want ErrData", c.steps, err)
			}
		}
		r, err := tr.Restore(t.Context(), s, trainer.RestoreOptions{Data: same})
		if err != nil || len(r.Differences) > 0 || r.Position != before {
			t.Errorf("%d steps: the same data: got %+v, %v", c.steps, r, err)
		}
		r, err = tr.Restore(t.Context(), s, trainer.RestoreOptions{Data: other})
		if err != nil || len(r.Differences) != 1 || r.Differences[0].Name != "data" || r.Position != c.at {
			t.Errorf("%d steps: other data: got %+v, %v", c.steps, r, err)
		}
		if res := fit(t, tr, other); res.Epoch != c.at.Epoch {
			t.Errorf("%d steps: trained epoch %d, want %d", c.steps, res.Epoch, c.at.Epoch)
		}
		info, err := save(t, tr).Info()
		if err != nil || info.Data == nil || info.Data.Samples != 40 || info.Data.Fingerprint == "" || !slices.Equal(info.Data.Fields, []string{"x float32 [4]", "y uint8 []"}) {
			t.Errorf("the state has data %v, %v", info.Data, err)
		}
	}
	if _, err := made(t, small, opt).Restore(t.Context(), middle(t, small, opt, ds, 3), trainer.RestoreOptions{Data: dataloader.Indices(0)}); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("no samples: got %v", err)
	}
}
