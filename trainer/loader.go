package trainer

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
)

// maxLoaders bounds the loaders that are kept, for programs that make a new dataset for each pass.
const maxLoaders = 8

// loaders are the loaders of the datasets that passes have read, kept from pass to pass. Only the
// caller that has the device may use them.
type loaders struct {
	opt   *Options
	order uint64 // of samples: RestoreOptions.Order
	open  []loader
	bytes atomic.Int64 // of indices that all loaders keep; Stats reads it at any time
}

// loader is the loader of a dataset.
type loader struct {
	ds     dataloader.Dataset
	length int // of ds when the loader was made
	train  bool
	loader *dataloader.Loader
}

// get returns the loader for ds, the same one for every pass of a mode over it. It reads
// source, which is ds itself, or the indices of its samples if ds is resident.
func (ls *loaders) get(mode compile.Mode, ds dataloader.Dataset, source batchSource) (*dataloader.Loader, error) {
	defer ls.count()
	train := mode == compile.Train
	isFor := func(l loader) bool { return comparable(ds) && comparable(l.ds) && l.ds == ds && l.train == train }
	for _, l := range ls.open {
		if isFor(l) && l.length == source.data.samples {
			return l.loader, nil
		}
	}
	// Not needed again: loaders of datasets that cannot be compared, and of this one when it had
	// another length.
	if err := ls.closeIf(func(l loader) bool { return !comparable(l.ds) || isFor(l) }); err != nil {
		return nil, err
	}
	opt := dataloader.Options{Batch: ls.opt.rows(mode), Seed: ls.seed(mode), Workers: ls.opt.Workers,
		Rank: ls.opt.rank(), Ranks: ls.opt.ranks()}
	if train {
		opt.Shuffle, opt.Sampler, opt.Tail = !ls.opt.Sequential && ls.opt.Sampler == nil, ls.opt.Sampler, ls.opt.Tail
	}
	l, err := dataloader.New(source.read, opt)
	if err != nil {
		return nil, err
	}
	ls.open = append(ls.open, loader{ds: ds, length: source.data.samples, train: train, loader: l})
	if len(ls.open) > maxLoaders {
		oldest := ls.open[0].loader
		return l, ls.closeIf(func(l loader) bool { return l.loader == oldest })
	}
	return l, nil
}

// seed returns the seed of order and augmentation in passes of a mode.
func (ls *loaders) seed(mode compile.Mode) uint64 {
	if mode != compile.Train || ls.order == 0 {
		return ls.opt.Seed
	}
	// The finalizer of SplitMix64, a bijection: two orders never have the same seed.
	z := ls.opt.Seed + ls.order*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// count brings bytes up to date.
func (ls *loaders) count() {
	var n int64
	for _, l := range ls.open {
		n += l.loader.Bytes()
	}
	ls.bytes.Store(n)
}

// keepUntilClose adds a loader that could not be closed, so that close tries again.
func (ls *loaders) keepUntilClose(ds dataloader.Dataset, l *dataloader.Loader) {
	ls.open = append(ls.open, loader{ds: ds, loader: l})
}

// close closes all loaders. Those that a reader still uses stay in open.
func (ls *loaders) close() error {
	defer ls.count()
	return ls.closeIf(func(loader) bool { return true })
}

// closeIf closes the loaders for which gone holds.
func (ls *loaders) closeIf(gone func(loader) bool) error {
	var errs []error
	ls.open = slices.DeleteFunc(ls.open, func(l loader) bool {
		if !gone(l) {
			return false
		}
		err := l.loader.Close()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}
