package dataloader_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// sequences is a sampler made of a function.
type sequences func(n int, seed uint64, epoch int) (dataloader.Sequence, error)

func (s sequences) Epoch(n int, seed uint64, epoch int) (dataloader.Sequence, error) {
	return s(n, seed, epoch)
}

// listed is a sequence of listed indices.
type listed []int

func (l listed) Len() int               { return len(l) }
func (l listed) Index(position int) int { return l[position] }

// drawn returns a sampler that draws count samples an epoch, with repetitions.
func drawn(count int) dataloader.Sampler {
	return sequences(func(n int, seed uint64, epoch int) (dataloader.Sequence, error) {
		var all listed
		for i := range count {
			r := dataloader.At{Index: i, Epoch: epoch, Seed: seed}.Rand()
			all = append(all, r.IntN(n))
		}
		return all, nil
	})
}

func TestASamplerChoosesTheSamplesOfAnEpoch(t *testing.T) {
	for _, count := range []int{1, 7, 40} {
		for _, ds := range []dataloader.Dataset{&fake{n: 12}, fromBlocks(t, newDecoded(5, 0, 4, 3), 2)} {
			opt := dataloader.Options{Batch: 4, Seed: 5, Sampler: drawn(count), Shuffle: true, Workers: 3}
			l := open(t, ds, opt)
			if l.Samples() != count || l.Steps() != (count+3)/4 {
				t.Errorf("%d samples in %d steps, want %d", l.Samples(), l.Steps(), count)
			}
			for _, epoch := range []int{2, 0, 1} {
				want, _ := opt.Sampler.Epoch(12, 5, epoch)
				got, err := drain(t, l, epoch, slots(ds, 2, 4))
				if err != nil || !slices.Equal(got.IDs, want.(listed)) {
					t.Errorf("epoch %d: got %v, %v, want %v", epoch, got.IDs, err, want)
				}
			}
		}
	}
}

// panics is a sequence whose Index panics at a position.
type panics int

func (p panics) Len() int { return 10 }
func (p panics) Index(position int) int {
	if position == int(p) {
		panic("no such position")
	}
	return position
}

func TestWhatASamplerDoesWrongIsAnError(t *testing.T) {
	boom := errors.New("no weights")
	always := func(s dataloader.Sequence, err error) dataloader.Sampler {
		return sequences(func(int, uint64, int) (dataloader.Sequence, error) { return s, err })
	}
	for name, c := range map[string]struct {
		sampler dataloader.Sampler
		class   error
		says    string
	}{
		"an error":    {always(nil, boom), boom, "epoch 0"},
		"no sequence": {always(nil, nil), dataloader.ErrOption, "no sequence"},
		"no position": {always(listed{}, nil), dataloader.ErrOption, "0 positions"},
		"a panic":     {sequences(func(int, uint64, int) (dataloader.Sequence, error) { panic(boom) }), boom, "epoch 0"},
	} {
		l, err := dataloader.New(&fake{n: 9}, dataloader.Options{Batch: 2, Sampler: c.sampler})
		if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			l.Close()
			t.Errorf("%s: got %v", name, err)
		}
	}
	longer := sequences(func(n int, _ uint64, epoch int) (dataloader.Sequence, error) { return make(listed, n+epoch), nil })
	ds := &fake{n: 9}
	if _, err := open(t, ds, dataloader.Options{Batch: 2, Sampler: longer}).Epoch(t.Context(), 1, slots(ds, 1, 2)); !errors.Is(err, dataloader.ErrOption) || !strings.Contains(err.Error(), "10 positions") {
		t.Errorf("another length: got %v", err)
	}
}

// An index that is no sample, and a panic, end the run after the batches before it, from workers and in Next.
func TestABadIndexEndsTheRun(t *testing.T) {
	for name, s := range map[string]dataloader.Sequence{
		"too large": listed{0, 1, 2, 3, 4, 9, 6, 7, 8}, "negative": listed{0, 1, 2, 3, 4, -1, 6, 7, 8}, "panic": panics(5),
	} {
		for _, ds := range []dataloader.Dataset{dataloader.Indices(9), plain{dataloader.Indices(9)}} {
			l := open(t, ds, dataloader.Options{Batch: 2, Workers: 3, Sampler: sequences(func(int, uint64, int) (dataloader.Sequence, error) { return s, nil })})
			r := start(t, l, 0, slots(ds, 2, 2))
			var err error
			steps := 0
			for ; err == nil; steps++ {
				var b dataloader.Batch
				if b, err = r.Next(t.Context()); err == nil {
					err = r.Release(b.Slot, nil)
				}
			}
			if steps != 3 || err == io.EOF || !strings.Contains(err.Error(), "step 2") || r.Indices(2) != nil || len(r.Indices(1)) != 2 {
				t.Errorf("%s: %T: got %v after %d steps", name, ds, err, steps-1)
			}
			if _, again := r.Next(t.Context()); again == nil || again.Error() != err.Error() {
				t.Errorf("%s: then %v", name, again)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
