package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// counted is a dataset that calls at with the number of each fetch.
type counted struct {
	dataloader.Dataset
	n  *atomic.Int64
	at func(n int64)
}

func (c counted) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	c.at(c.n.Add(1))
	return c.Dataset.Fetch(ctx, at, dst)
}

// A server that is interrupted while it trains goes on with -resume, and ends with the same
// weights.
func TestAnInterruptedTrainingGoesOnWithTheSameBits(t *testing.T) {
	train, test := digits(t, 320, 32)
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 2})
	// weights trains and returns the parameters, or the error.
	weights := func(ctx context.Context, ds dataloader.Dataset, f flags, out io.Writer) (all []byte, err error) {
		f.epochs, f.batch, f.rows, f.seed, f.training = 2, 32, 16, 1, true
		s := &server{training: true}
		defer func() { err = errors.Join(err, s.close()) }()
		if err := s.open(ctx, dev, ds, test, f, out); err != nil {
			return nil, err
		}
		params, err := s.trainer.Params()
		for _, p := range params {
			b := make([]byte, p.Spec.Bytes())
			err = errors.Join(err, p.Read(b))
			all = append(all, b...)
		}
		return all, err
	}
	want, err := weights(t.Context(), train, flags{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	f := flags{checkpoint: filepath.Join(t.TempDir(), "run")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	_, err = weights(ctx, counted{train, new(atomic.Int64), func(n int64) {
		if n == 480 { // in the second epoch
			cancel()
		}
	}}, f, &out)
	if !errors.Is(err, run.ErrStopped) || !strings.Contains(out.String(), "-resume goes on") {
		t.Fatalf("%v\n%s", err, out.String())
	}
	f.resume = true
	got, err := weights(t.Context(), train, f, &out)
	if err != nil || !slices.Equal(got, want) || !strings.Contains(out.String(), "resumed from") {
		t.Errorf("%v, or other weights than without a break\n%s", err, out.String())
	}
}
