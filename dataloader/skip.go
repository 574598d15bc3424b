package dataloader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// SkipOptions of SkipBad.
type SkipOptions struct {
	// Max is the number of different bad samples that are replaced; the next one is an error. 0: Share
	// decides.
	Max int
	// Share of all samples that may be bad, 0 to 1; at least one sample may. 0: 0.01.
	Share float64
	// Bad reports whether an error of Fetch comes from the data, so that fetching the sample again
	// gives it again. nil: IsBad.
	Bad func(err error) bool
	// Log gets one warning for each bad sample, with its index, the replacement and the error. nil:
	// nothing is logged.
	Log *slog.Logger
}

// ErrBadSamples: more samples are bad than SkipOptions allows.
var ErrBadSamples = errors.New("too many bad samples")

// SkipBad returns ds with bad samples replaced by others: a sample whose Fetch fails because of its
// data, such as a damaged picture, is fetched from another index, which depends on its own index and
// the data only. So epochs, workers and resumed runs get the same samples. Other errors, such as those
// of contexts and storage, are returned. Each bad sample is logged and counted once; too many are an
// error that wraps ErrBadSamples and the last cause. Counting starts again in a new process.
//
// If ds is [Blocked], so is the result, and the replacement is of the same block if one can be read.
// To leave bad samples out altogether, find them with [Scan].
func SkipBad(ds Dataset, opt SkipOptions) (*Skipping, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	if opt.Max < 0 || !(opt.Share >= 0 && opt.Share <= 1) {
		return nil, fmt.Errorf("skip bad: max %d, share %v: must be 0 (default) or more, the share at most 1: %w", opt.Max, opt.Share, ErrOption)
	}
	if opt.Share == 0 {
		opt.Share = 0.01
	}
	s := &Skipping{Dataset: ds, max: opt.Max, bad: opt.Bad, log: opt.Log, found: map[int]error{}, starts: blocksOf(ds).Starts}
	if s.max == 0 {
		s.max = max(1, int(opt.Share*float64(ds.Len())))
	}
	if s.bad == nil {
		s.bad = IsBad
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Skipping is a dataset that replaces bad samples. It is safe for concurrent use.
type Skipping struct {
	Dataset
	max    int
	bad    func(error) bool
	log    *slog.Logger
	starts []int // of the blocks; nil: it has none

	count atomic.Int64 // of found
	mu    sync.Mutex
	found map[int]error // bad samples
}

// Skipped returns the bad samples that have been found, by index.
func (s *Skipping) Skipped() []BadSample {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]BadSample, 0, len(s.found))
	for i, err := range s.found {
		all = append(all, BadSample{i, err})
	}
	slices.SortFunc(all, func(a, b BadSample) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// Blocks implements Blocked.
func (s *Skipping) Blocks() Blocks { return blocksOf(s.Dataset) }

// Fingerprint implements Fingerprinter.
func (s *Skipping) Fingerprint() uint64 { return hash(domainSkip, Fingerprint(s.Dataset)) }

// Tries of a replacement within a block, and in all.
const (
	triesInBlock = 8
	triesInAll   = 64
)

// Fetch fetches a sample or its replacement.
func (s *Skipping) Fetch(ctx context.Context, at At, dst [][]byte) error {
	cause := s.known(at.Index)
	if cause == nil {
		err := s.Dataset.Fetch(ctx, at, dst)
		if err == nil || ctx.Err() != nil || !s.bad(err) {
			return err
		}
		cause = err
	}
	index := at.Index
	for try := range triesInAll {
		at.Index = s.replacement(index, try)
		if at.Index == index || s.known(at.Index) != nil {
			continue
		}
		err := s.Dataset.Fetch(ctx, at, dst)
		if err == nil {
			return s.note(index, at.Index, cause)
		}
		if ctx.Err() != nil || !s.bad(err) {
			return err
		}
		if err := s.note(at.Index, -1, err); err != nil {
			return err
		}
	}
	if s.Len() == 1 {
		return fmt.Errorf("%w: sample %d is bad, and there is no other to replace it: %w", ErrBadSamples, index, cause)
	}
	return fmt.Errorf("%w: sample %d of %d is bad, and so is what was tried in its place; others tried: %d: %w",
		ErrBadSamples, index, s.Len(), s.others(index), cause)
}

// others returns how many samples are tried in place of one.
func (s *Skipping) others(index int) int {
	tried := map[int]bool{index: true}
	for try := range triesInAll {
		tried[s.replacement(index, try)] = true
	}
	return len(tried) - 1
}

// replacement returns the sample that is fetched at a try for a bad one.
func (s *Skipping) replacement(index, try int) int {
	starts := s.starts
	if try >= triesInBlock {
		starts = nil
	}
	from, n := beside(s.Dataset, starts, index)
	g := generator(domainSkip, 0, uint64(try), uint64(index))
	return from + int(below(&g, uint64(max(1, n))))
}

// known returns the error of a sample that is known to be bad, else nil.
func (s *Skipping) known(index int) error {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found[index]
}

// note counts and logs a bad sample, once.
func (s *Skipping) note(index, instead int, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found[index] != nil {
		return nil
	}
	if len(s.found) >= s.max {
		return fmt.Errorf("%w: sample %d is bad after %d others, of %d samples at most %d may be: "+
			"list them with Scan, or raise SkipOptions.Max: %w", ErrBadSamples, index, len(s.found), s.Dataset.Len(), s.max, cause)
	}
	s.found[index] = cause
	s.count.Add(1)
	args := []any{"sample", index, "error", cause}
	if instead >= 0 {
		args = append(args, "instead", instead)
	}
	var f *FormatError
	if errors.As(cause, &f) {
		args = append(args, "file", f.File, "offset", f.Offset)
	}
	s.log.Warn("bad sample is skipped", args...)
	return nil
}
