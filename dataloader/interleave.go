package dataloader

import (
	"context"
	"fmt"
)

// Source is a dataset with its rate in an Interleave.
type Source struct {
	Dataset Dataset
	Rate    int // samples of each round, 1 or more; the sum of all is at most MaxRound
}

// MaxRound is the largest sum of the rates of Interleave.
const MaxRound = 1 << 16

// Ending selects where Interleave ends.
type Ending uint8

const (
	// AtFirst ends before a source would give a sample for the second time: the others are not read to
	// their ends.
	AtFirst Ending = iota
	// AtLast ends when every source has given each of its samples. Those that are read through before
	// start again, with other random draws.
	AtLast
)

// Interleave mixes datasets at fixed rates: each round of as many samples as the rates sum to has Rate
// samples of each source, spread evenly, in the order of the source. Every prefix keeps the rates to
// within the number of sources. The sources must have equal fields, as in [Concat], and each has random
// draws of its own. Mistakes are errors that name the source; they wrap ErrOption or ErrField.
//
//	rates 3 and 1:  a0 a1 b0 a2 │ a3 a4 b1 a5 │ …
//
// A loader may shuffle the result: an epoch still has each source at its rate. The result is not
// [Blocked], even if sources are: in order it decodes each block once, but for a random order store the
// sources in a format with random access first, such as a pack.
func Interleave(end Ending, sources ...Source) (Dataset, error) {
	var parts []Dataset
	round := 0
	for i, s := range sources {
		if s.Rate < 1 || s.Rate > MaxRound || round+s.Rate > MaxRound {
			return nil, fmt.Errorf("interleave: source %d has rate %d: rates must be 1 or more and sum to at most %d: %w", i, s.Rate, MaxRound, ErrOption)
		}
		round += s.Rate
		parts = append(parts, s.Dataset)
	}
	if end > AtLast {
		return nil, fmt.Errorf("interleave: end %d: must be AtFirst or AtLast: %w", end, ErrOption)
	}
	if err := alike("interleave", parts); err != nil {
		return nil, err
	}
	x := &interleaved{parts: parts, round: make([]turn, round), end: end}
	places := make([][]int, len(parts)) // by source: where the round has it
	x.spread(sources, places)
	for k, ds := range parts {
		n, rate := ds.Len(), sources[k].Rate
		x.lens, x.rates = append(x.lens, n), append(x.rates, rate)
		if n/rate >= maxSamples/round {
			return nil, fmt.Errorf("interleave: source %d has %d samples at rate %d of %d: more than %d in all: %w", k, n, rate, round, maxSamples, ErrOption)
		}
		// The position of its first sample beyond the last, and the one after its last.
		first := n/rate*round + places[k][n%rate]
		last := (n-1)/rate*round + places[k][(n-1)%rate] + 1
		switch {
		case end == AtLast:
			x.n = max(x.n, last)
		case k == 0 || first < x.n:
			x.n = first
		}
	}
	return x, nil
}

// turn is a place in the round.
type turn struct {
	source int32
	before int32 // samples of the source before, in the round
}

// interleaved is several datasets at fixed rates.
type interleaved struct {
	parts []Dataset
	lens  []int // of parts
	rates []int
	round []turn
	end   Ending
	n     int
}

// spread sets the round: at each place every source earns its rate, and the one that has most gives a
// sample and pays the sum of rates (smooth weighted round-robin, as in nginx).
func (x *interleaved) spread(sources []Source, places [][]int) {
	earned := make([]int, len(sources))
	for i := range x.round {
		best := 0
		for k, s := range sources {
			if earned[k] += s.Rate; earned[k] > earned[best] {
				best = k
			}
		}
		earned[best] -= len(x.round)
		x.round[i] = turn{int32(best), int32(len(places[best]))}
		places[best] = append(places[best], i)
	}
}

// Len returns the number of samples, or 0 if a source has changed, so that a loader notices.
func (x *interleaved) Len() int {
	for k, ds := range x.parts {
		if ds.Len() != x.lens[k] {
			return 0
		}
	}
	return x.n
}

func (x *interleaved) Fields() []Field { return x.parts[0].Fields() }

// Fingerprint implements Fingerprinter.
func (x *interleaved) Fingerprint() uint64 {
	h := fingerprints(hash(domainInterleave, uint64(x.end)), x.parts)
	for _, r := range x.rates {
		h = hash(h, uint64(r))
	}
	return h
}

func (x *interleaved) Fetch(ctx context.Context, at At, dst [][]byte) error {
	t := x.round[at.Index%len(x.round)]
	k := int(t.source)
	i := at.Index/len(x.round)*x.rates[k] + int(t.before)
	at.Index = i % x.lens[k]
	at.Seed = hash(domainInterleave, at.Seed, uint64(k), uint64(i/x.lens[k]))
	return x.parts[k].Fetch(ctx, at, dst)
}
