package dataloader

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// CacheOptions of Cache.
type CacheOptions struct {
	// Bytes of memory, at most: 4 for each sample of the dataset, and its size for each that is kept.
	// It must hold one sample or more.
	Bytes int64
}

// Cache returns ds with samples kept in memory, in their storage types. A sample is kept when it is
// fetched first, as long as there is memory for it; what does not fit is fetched from ds each time, so
// that any size helps. The memory is allocated as it fills, in pieces of about 1 MiB. It never holds
// more than opt.Bytes.
//
// Cache what comes before random draws: cached samples are the same in every epoch. So that this does
// not depend on which of them fit, ds gets an [At] with epoch 0 and seed 0 always: its draws depend on
// the sample's index only. Apply [Map] and [Pairs] to the result.
//
//	cached, err := dataloader.Cache(decoded, dataloader.CacheOptions{Bytes: 2 << 30})
//	train := dataloader.Map(cached, augment)
//
// If ds is [Blocked], so is the result; a block of which all samples are kept is not decoded again.
func Cache(ds Dataset, opt CacheOptions) (*Cached, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	n, size := ds.Len(), SampleBytes(ds)
	room := (opt.Bytes - 4*int64(n)) / max(1, size)
	if opt.Bytes < 4*int64(n) || room < 1 || size > math.MaxInt {
		return nil, fmt.Errorf("cache of %d bytes: %d samples of %d bytes need %d to keep one, %d to keep all: %w",
			opt.Bytes, n, size, 4*int64(n)+size, 4*int64(n)+size*int64(n), ErrOption)
	}
	c := &Cached{ds: ds, fields: ds.Fields(), size: int(size), room: min(room, int64(n), math.MaxInt32-1)}
	for _, f := range c.fields {
		c.sizes = append(c.sizes, int(f.Bytes()))
	}
	c.places = make([]atomic.Int32, n)
	c.each = max(1, pieceBytes/size)
	c.pieces = make([]atomic.Pointer[[]byte], (c.room+c.each-1)/c.each)
	return c, nil
}

// Cached is a dataset with samples kept in memory. It is safe for concurrent use.
type Cached struct {
	ds     Dataset
	fields []Field
	sizes  []int // of the fields of a sample, bytes
	size   int   // of a sample, bytes
	room   int64 // samples
	each   int64 // samples of a piece
	places []atomic.Int32
	taken  atomic.Int64 // places
	kept   atomic.Int64
	mu     sync.Mutex // allocates pieces
	pieces []atomic.Pointer[[]byte]
}

// Values of Cached.places: 0 for a sample that is not kept, and its place + 1.
const storing = -1 // a worker stores the sample

// Len returns the number of samples.
func (c *Cached) Len() int { return c.ds.Len() }

// Fields returns the fields of the dataset.
func (c *Cached) Fields() []Field { return c.ds.Fields() }

// Kept returns the number of samples in memory.
func (c *Cached) Kept() int { return int(c.kept.Load()) }

// Fingerprint implements Fingerprinter: the samples are those of the dataset.
func (c *Cached) Fingerprint() uint64 { return Fingerprint(c.ds) }

// Fetch copies a sample from memory, or fetches it and keeps it if there is memory.
func (c *Cached) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= len(c.places) {
		return fmt.Errorf("sample %d: must be 0 to %d: %w", at.Index, len(c.places)-1, ErrOption)
	}
	place := &c.places[at.Index]
	if p := place.Load(); p > 0 {
		get(dst, c.sample(int64(p-1)), c.sizes)
		return nil
	}
	if err := c.ds.Fetch(ctx, At{Index: at.Index}, dst); err != nil {
		return err
	}
	if c.taken.Load() >= c.room || !place.CompareAndSwap(0, storing) {
		return nil // no memory, or another worker stores it
	}
	p := c.taken.Add(1) - 1
	if p >= c.room {
		c.taken.Add(-1)
		place.Store(0)
		return nil
	}
	put(c.sample(p), dst, c.sizes)
	place.Store(int32(p + 1))
	c.kept.Add(1)
	return nil
}

// sample returns the memory of a place.
func (c *Cached) sample(place int64) []byte {
	i, row := place/c.each, int(place%c.each)
	p := c.pieces[i].Load()
	if p == nil {
		p = c.allocate(i)
	}
	return (*p)[row*c.size : (row+1)*c.size]
}

// allocate returns piece i.
func (c *Cached) allocate(i int64) *[]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pieces[i].Load()
	if p == nil {
		b := make([]byte, min(c.each, c.room-i*c.each)*int64(c.size))
		p = &b
		c.pieces[i].Store(p)
	}
	return p
}

// Blocks implements Blocked.
func (c *Cached) Blocks() Blocks {
	b := blocksOf(c.ds)
	if load := b.Load; load != nil && len(b.Starts) > 0 {
		starts := append(b.Starts[:len(b.Starts):len(b.Starts)], len(c.places))
		b.Load = func(ctx context.Context, i int) error {
			for x := starts[i]; x < starts[i+1]; x++ {
				if c.places[x].Load() <= 0 {
					return load(ctx, i)
				}
			}
			return nil
		}
	}
	return b
}
