package dataloader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// BadSample is a sample that cannot be read because of its data.
type BadSample struct {
	Index int   // in the dataset
	Err   error // of Fetch; it names the file and the place where the format has one
}

// IsBad reports whether an error of Fetch comes from the data of the sample: it wraps ErrFormat, but
// comes neither from a context nor from the storage, such as a file that is missing or cannot be read.
// Those may be gone the next time, so that no sample is given up for them.
func IsBad(err error) bool {
	var path *fs.PathError
	var number syscall.Errno
	switch {
	case !errors.Is(err, ErrFormat),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrClosed),
		errors.As(err, &path), errors.As(err, &number):
		return false
	}
	return true
}

// ScanOptions of Scan.
type ScanOptions struct {
	PassOptions
	// Bad reports whether an error of Fetch comes from the data. nil: IsBad.
	Bad func(err error) bool
	// Max is the number of bad samples that are listed at most; one more ends Scan with an error. 0:
	// 10,000.
	Max int
}

// Scan reads all samples of ds once, in parallel, with epoch 0 and seed 0, and returns those that
// cannot be read because of their data, in order. Leave them out of training with [Without]. Any other
// error ends it; then, and if there are too many, the ones found so far are returned with the error.
func Scan(ctx context.Context, ds Dataset, opt ScanOptions) ([]BadSample, error) {
	if opt.Max < 0 {
		return nil, fmt.Errorf("scan: max %d: must be 0 (default) or more: %w", opt.Max, ErrOption)
	}
	if opt.Max == 0 {
		opt.Max = 10_000
	}
	if opt.Bad == nil {
		opt.Bad = IsBad
	}
	var all []BadSample
	p := pass{ds: ds, options: opt.PassOptions}
	p.worker = func() (func(int, [][]byte, error) error, func() error) {
		var some []BadSample
		read := func(index int, _ [][]byte, err error) error {
			if err == nil || !opt.Bad(err) {
				return err
			}
			some = append(some, BadSample{index, err})
			return nil
		}
		merge := func() error {
			all = append(all, some...)
			some = some[:0]
			if len(all) > opt.Max {
				all = all[:opt.Max]
				return fmt.Errorf("more than %d bad samples, the last of them %d: %w", opt.Max, all[opt.Max-1].Index, all[opt.Max-1].Err)
			}
			return nil
		}
		return read, merge
	}
	if err := p.run(ctx); err != nil {
		err = fmt.Errorf("scan: %w", err)
		p.mu.Lock() // nothing is appended after an error
		defer p.mu.Unlock()
		return slices.Clone(all), err
	}
	return all, nil
}

// Without returns the samples of ds that are not in a list of bad ones, in their order, as [SubsetOf]
// does. An index outside ds is an error that wraps ErrOption; if none is left it wraps ErrEmpty.
func Without(ds Dataset, bad []BadSample) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	n := ds.Len()
	out := make(map[int]bool, len(bad))
	for i, b := range bad {
		if b.Index < 0 || b.Index >= n {
			return nil, fmt.Errorf("without: bad sample %d is number %d: must be 0 to %d: %w", i, b.Index, n-1, ErrOption)
		}
		out[b.Index] = true
	}
	if len(out) == n {
		return nil, fmt.Errorf("without: all %d samples are bad: %w", n, ErrEmpty)
	}
	good := make([]int, 0, n-len(out))
	for i := range n {
		if !out[i] {
			good = append(good, i)
		}
	}
	return listOf(ds, good), nil
}
