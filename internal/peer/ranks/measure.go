package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// largeBytes is the size of the sum that measures bandwidth: that of a bucket.
const largeBytes = 4 << 20

// measure returns the link between the two ranks of a group, from the times of a sum of 8 bytes and of
// one of 4 MiB. Between two ranks, each sends two messages of half the bytes.
func measure(g group.Group) (l link, err error) {
	if g.Size() != 2 {
		return l, fmt.Errorf("%d ranks: a link has two", g.Size())
	}
	small, err := sumSeconds(g, 8, 1000)
	if err != nil {
		return l, err
	}
	large, err := sumSeconds(g, largeBytes, 100)
	if err != nil {
		return l, err
	}
	return link{Name: g.String(), Latency: small / 2, Bandwidth: largeBytes / max(large-small, 1e-9)}, nil
}

// sumSeconds returns the shortest time of a sum of n bytes: other programs disturb the rest.
func sumSeconds(g group.Group, n, times int) (float64, error) {
	op, err := g.Prepare(group.Op{Kind: group.Sum, Type: arena.Float32, Data: make([]byte, n), Label: "measured"})
	if err != nil {
		return 0, err
	}
	all := make([]float64, times)
	for i := -times / 4; i < times && err == nil; i++ { // the first are not timed
		begin := time.Now()
		if err = group.Run(op); i >= 0 {
			all[i] = time.Since(begin).Seconds()
		}
	}
	return slices.Min(all), errors.Join(err, op.Close())
}

// localLink measures the link between two ranks of a local group.
func localLink() (l link, err error) {
	groups, err := group.Local(2, group.Options{})
	if err != nil {
		return l, err
	}
	links, errs := make([]link, 2), make([]error, 2)
	var both sync.WaitGroup
	for i, g := range groups {
		both.Go(func() { links[i], errs[i] = measure(g) })
	}
	both.Wait()
	return links[0], errors.Join(errs[0], errs[1], groups[0].Close(), groups[1].Close())
}

// mpiLink measures the link between two processes of MPI.
func (f flags) mpiLink(ctx context.Context) (l link, err error) {
	out, err := f.members(ctx, 2, "-predict")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(out, &l); err != nil || l.Latency <= 0 || l.Bandwidth <= 0 {
		return l, fmt.Errorf("%s printed %.100q, which is no link: %w", f.mpirun, out, errors.Join(err, errors.ErrUnsupported))
	}
	return l, nil
}

// lone is rank 0 of a group whose other ranks do nothing, at once: it trains as a rank does, without
// communication, and records when its sums begin.
type lone struct {
	size  int
	begun time.Time           // of the step: the end of the agreement of the one before
	sums  map[string]*loneSum // by label
	order []string            // of labels
	ends  []float64           // s from the beginning of a step to its agreement
}

// loneSum is a sum of each step.
type loneSum struct {
	bytes float64
	at    []float64 // s after the step began
}

func (g *lone) Rank() int          { return 0 }
func (g *lone) Size() int          { return g.size }
func (g *lone) String() string     { return "no communication" }
func (g *lone) Busy(string) func() { return func() {} }
func (g *lone) Abort(error)        {}
func (g *lone) Err() error         { return nil }
func (g *lone) Close() error       { return nil }

func (g *lone) Prepare(op group.Op) (group.Operation, error) {
	return &loneOp{g, op}, op.Check(g.size)
}

// loneOp is an operation of a lone rank.
type loneOp struct {
	g  *lone
	op group.Op
}

// Start records the beginning of a sum.
func (o *loneOp) Start() error {
	g := o.g
	switch {
	case o.op.Kind == group.AllGather: // the other ranks have what this one has
		part := o.op.Data[:len(o.op.Data)/g.size]
		for r := 1; r < g.size; r++ {
			copy(o.op.Data[r*len(part):], part)
		}
	case g.begun.IsZero():
	case o.op.Label == "agree":
		g.ends = append(g.ends, time.Since(g.begun).Seconds())
	case o.op.Kind == group.Sum:
		s := g.sums[o.op.Label]
		if s == nil {
			s = &loneSum{bytes: float64(len(o.op.Data))}
			g.sums[o.op.Label], g.order = s, append(g.order, o.op.Label)
		}
		s.at = append(s.at, time.Since(g.begun).Seconds())
	}
	return nil
}

// Wait begins the next step after an agreement.
func (o *loneOp) Wait() error {
	if o.op.Label == "agree" {
		o.g.begun = time.Now()
	}
	return nil
}

func (o *loneOp) Close() error { return nil }

// profile trains a workload as one of f.ranks ranks, without communication, and returns its step. The
// time of a step is the one of result.Step; it runs from an agreement to the next one, and so begins
// with the update.
func (f flags) profile(ctx context.Context, workload string) (s step, err error) {
	g := &lone{size: f.ranks, sums: map[string]*loneSum{}}
	r, err := f.train(ctx, workload, 1, g)
	if err != nil {
		return s, err
	}
	middle := func(all []float64) float64 {
		return python.Median(all, func(x float64) float64 { return x })
	}
	s.Compute = r.Step
	s.Backward = min(middle(g.ends), s.Compute)
	for _, label := range g.order {
		s.Buckets = append(s.Buckets, bucket{g.sums[label].bytes, min(middle(g.sums[label].at), s.Backward)})
	}
	return s, nil
}

// engine is a way to train with ranks, and the link between two of them.
type engine struct {
	name string
	link link
	run  func(f flags, ctx context.Context, workload string) (result, error)
}

// predictAll measures links and steps, compares predictions with measurements of f.ranks ranks, and prints
// tables of many ranks.
func (f flags) predictAll(ctx context.Context, out io.Writer) error {
	l, err := localLink()
	if err != nil {
		return err
	}
	engines := []engine{{"local", l, flags.local}}
	if f.mpirun != "" {
		if l, err = f.mpiLink(ctx); err != nil {
			return err
		}
		engines = append(engines, engine{l.Name, l, flags.launch})
	}
	for _, e := range engines {
		fmt.Fprintf(out, "%s, 2 ranks: a message of %.3g µs, %.3g GB/s\n", e.link.Name, 1e6*e.link.Latency, e.link.Bandwidth/1e9)
	}
	fmt.Fprintf(out, "\n| | ranks | engine | compute | predicted | measured | predicted / measured |\n|---|---:|---|---:|---:|---:|---:|\n")
	for _, w := range f.names() {
		for ranks := 2; ranks <= f.ranks; ranks++ {
			of := f
			of.ranks = ranks
			s, err := of.profile(ctx, w)
			if err != nil {
				return err
			}
			for _, e := range engines {
				r, err := e.run(of, ctx, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", w, e.name, err)
				}
				predicted, _ := s.predict(e.link, ring, ranks, machine{cores: runtime.GOMAXPROCS(0)})
				measured := r.Step
				fmt.Fprintf(out, "| %s | %d | %s | %.3g ms | %.3g ms | %.3g ms | %.2f |\n", w, ranks, e.name, 1e3*s.Compute, 1e3*predicted, 1e3*measured, predicted/measured)
			}
		}
	}
	links, err := parseLinks(f.links)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s", even(f.compute.Seconds(), f.bytes, largeBytes).table(links))
	return nil
}

// parseLinks reads links such as "10 Gbit/s=30µs/1.25e9": name, latency, bytes a second.
func parseLinks(text string) (links []link, err error) {
	for _, t := range strings.Split(text, ",") {
		name, rest, ok := strings.Cut(t, "=")
		latency, bandwidth, ok2 := strings.Cut(rest, "/")
		d, err := time.ParseDuration(latency)
		b, err2 := strconv.ParseFloat(bandwidth, 64)
		if !ok || !ok2 || err != nil || err2 != nil || d <= 0 || !(b > 0) {
			return nil, fmt.Errorf("link %q: must be NAME=LATENCY/BYTES, such as 10GbE=30µs/1.25e9", t)
		}
		links = append(links, link{Name: name, Latency: d.Seconds(), Bandwidth: b})
	}
	return links, nil
}
