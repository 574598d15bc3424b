package dataloader

import "fmt"

// Sampler chooses the samples of each epoch and their order.
type Sampler interface {
	// Epoch returns the order of an epoch over a dataset of n samples. It must return the same order
	// whenever it gets the same arguments, and the same number of positions for every epoch.
	Epoch(n int, seed uint64, epoch int) (Sequence, error)
}

// Sequence is the order of samples in an epoch. Its methods must be safe for concurrent use, and
// must return the same whenever they get the same argument.
type Sequence interface {
	// Len returns the number of positions, 1 or more.
	Len() int
	// Index returns the index of the sample at a position, 0 to Len()-1. An index may come at several
	// positions, or at none.
	Index(position int) int
}

// sequential is the order of the dataset.
type sequential int

func (s sequential) Len() int               { return int(s) }
func (s sequential) Index(position int) int { return position }

// shuffled is a computed permutation of the dataset.
type shuffled struct{ permutation }

// shuffle returns the shuffled order of an epoch over n samples.
func shuffle(n int, seed uint64, epoch int) *shuffled {
	return &shuffled{permute(n, keyOf(domainShuffle, seed, epoch, 0))}
}

func (s *shuffled) Len() int               { return int(s.n) }
func (s *shuffled) Index(position int) int { return s.at(position) }

// sequence returns the order of an epoch. What a sampler does wrong is an error.
func (l *Loader) sequence(epoch int) (Sequence, error) {
	n, seed := l.samples, l.opt.Seed
	switch {
	case l.opt.Sampler != nil:
		return callSampler(l.opt.Sampler, n, seed, epoch)
	case l.blocks != nil:
		return l.blocks.order(seed, epoch, l.opt.Shuffle), nil
	case l.opt.Shuffle:
		return shuffle(n, seed, epoch), nil
	}
	return sequential(n), nil
}

// callSampler returns the order that a sampler chooses.
func callSampler(sampler Sampler, n int, seed uint64, epoch int) (s Sequence, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sampler of type %T: epoch %d: %w", sampler, epoch, caught(p))
		}
	}()
	s, err = sampler.Epoch(n, seed, epoch)
	if err != nil {
		return nil, fmt.Errorf("sampler of type %T: epoch %d: %w", sampler, epoch, err)
	}
	if s == nil {
		return nil, fmt.Errorf("sampler of type %T: epoch %d: it returned no sequence: %w", sampler, epoch, ErrOption)
	}
	if count := s.Len(); count < 1 || int64(count) > maxSamples {
		return nil, fmt.Errorf("sampler of type %T: epoch %d has %d positions: must be 1 to %d: %w", sampler, epoch, count, int64(maxSamples), ErrOption)
	}
	return s, nil
}

// indexError reports an index of a sequence that is no sample.
func indexError(s Sequence, position, index, n int) error {
	return fmt.Errorf("sequence of type %T: position %d has index %d: must be 0 to %d: %w", s, position, index, n-1, ErrOption)
}

// fillIndices sets dst to the indices from a position on. A panic of the sequence and an index that is no
// sample are errors.
func fillIndices(dst []int, s Sequence, from, n int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sequence of type %T: %w", s, caught(p))
		}
	}()
	for i := range dst {
		x := s.Index(from + i)
		if x < 0 || x >= n {
			return indexError(s, from+i, x, n)
		}
		dst[i] = x
	}
	return nil
}
