package dataloader

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// SequenceOptions of FromSeq and FromSeqBlocks.
type SequenceOptions struct {
	// Bytes of samples that FromSeq keeps, at most, in their storage types. More is an error that
	// wraps ErrOption. 0: 1 GiB.
	Bytes int64
	// Block is the number of samples of a block of FromSeqBlocks. 0: as many as fit into 1 MiB.
	Block int
	// Held is the number of blocks of FromSeqBlocks in memory at one time, as [BlockOptions] has it.
	Held int
}

const (
	defaultSequenceBytes = 1 << 30
	pieceBytes           = 1 << 20 // of a piece of memory for samples, or one sample
)

// check sets defaults and returns an error for wrong options.
func (o *SequenceOptions) check(sample int64) error {
	if o.Bytes < 0 || o.Block < 0 || o.Held < 0 {
		return fmt.Errorf("from seq: bytes %d, block %d, held %d: must be 0 (default) or more: %w", o.Bytes, o.Block, o.Held, ErrOption)
	}
	if o.Bytes == 0 {
		o.Bytes = defaultSequenceBytes
	}
	if o.Block == 0 {
		o.Block = int(max(1, pieceBytes/sample))
	}
	return nil
}

// FromSeq reads a sequence to its end and returns its samples as a dataset in memory. write stores a
// sample: field k in dst[k], which has fields[k].Bytes() bytes, holds zeros, and must not be kept. A
// dst[k] may be seen as numbers with [View].
//
//	rows, err := dataloader.FromSeq(ctx, query.Rows(), fields, func(r Row, dst [][]byte) error {
//		copy(dataloader.View[float32](dst[0]), r.Values)
//		return nil
//	}, dataloader.SequenceOptions{})
//
// The memory grows in pieces of about 1 MiB and is never copied. An error of the sequence or of write
// names the number of the sample. FromSeq returns after ctx is done, with its error,
// when the sequence yields next. Fetch allocates nothing.
func FromSeq[T any](ctx context.Context, samples iter.Seq2[T, error], fields []Field, write func(sample T, dst [][]byte) error, opt SequenceOptions) (Dataset, error) {
	s := &sequence[T]{fields: slices.Clone(fields), write: write}
	if samples == nil {
		return nil, fmt.Errorf("from seq: nil sequence: %w", ErrOption)
	}
	if err := s.check(&opt); err != nil {
		return nil, err
	}
	room := opt.Bytes / s.bytes
	each := max(1, pieceBytes/s.bytes)
	k := &kept{fields: s.fields, sizes: s.sizes, each: int(each), size: int(s.bytes)}
	err := s.read(ctx, samples, 0, -1, func(i int, sample [][]byte) error {
		if int64(i) >= room {
			return fmt.Errorf("more than %d bytes of samples (SequenceOptions.Bytes): raise it, or read blocks with FromSeqBlocks: %w", opt.Bytes, ErrOption)
		}
		if i%k.each == 0 {
			k.pieces = append(k.pieces, make([]byte, min(each, room-int64(i))*s.bytes))
		}
		k.n = i + 1
		put(k.sample(i), sample, k.sizes)
		return nil
	})
	if err != nil {
		return nil, err
	}
	ds := (*keptSamples)(k)
	if err := Check(ds); err != nil {
		return nil, err
	}
	return ds, nil
}

// FromSeqBlocks returns the n samples of a sequence that can begin at any of them, as a dataset of
// blocks: at most opt.Held blocks are in memory, whatever n is. from(i) begins at sample i; it must
// yield the same samples each time, and is called from several goroutines at once. It is stopped when
// a block is full. write is as that of [FromSeq] and must be safe for concurrent use too. The dataset
// implements [Blocked].
//
// A sequence that ends before sample n, and an error of it or of write, are an error in Fetch of each
// sample of the block: a *BlockError, which names the sample too.
func FromSeqBlocks[T any](n int, from func(index int) iter.Seq2[T, error], fields []Field, write func(sample T, dst [][]byte) error, opt SequenceOptions) (Dataset, error) {
	s := &sequence[T]{fields: slices.Clone(fields), write: write, from: from, n: n}
	if from == nil {
		return nil, fmt.Errorf("from seq: nil sequence: %w", ErrOption)
	}
	if n < 0 || n > maxSamples {
		return nil, fmt.Errorf("from seq: %d samples: must be 0 to %d: %w", n, int64(maxSamples), ErrOption)
	}
	if err := s.check(&opt); err != nil {
		return nil, err
	}
	s.block = opt.Block
	return FromBlocks(s, BlockOptions{Held: opt.Held})
}

// sequence is the samples of a sequence. It implements BlockSource if it has from.
type sequence[T any] struct {
	fields []Field
	sizes  []int // of the fields of a sample, bytes
	bytes  int64 // of a sample
	write  func(T, [][]byte) error
	from   func(int) iter.Seq2[T, error]
	n      int
	block  int // samples
}

// check completes s and opt.
func (s *sequence[T]) check(opt *SequenceOptions) error {
	if err := checkFields(s.fields); err != nil {
		return err
	}
	if s.write == nil {
		return fmt.Errorf("from seq: nil write: %w", ErrOption)
	}
	for _, f := range s.fields {
		if s.bytes += f.Bytes(); s.bytes < 0 || f.Bytes() > 1<<40 {
			return fmt.Errorf("from seq: field %q of %d bytes: too large: %w", f.Name, f.Bytes(), ErrOption)
		}
		s.sizes = append(s.sizes, int(f.Bytes()))
	}
	return opt.check(s.bytes)
}

// read calls keep for the samples of a sequence, of which the first has the given index: for all, or
// for the first most of them. Its errors, and panics, name the sample.
func (s *sequence[T]) read(ctx context.Context, samples iter.Seq2[T, error], first, most int, keep func(i int, sample [][]byte) error) (err error) {
	i := 0
	defer func() {
		if p := recover(); p != nil {
			err = caught(p)
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("sample %d of the sequence: %w", first+i, err)
		}
	}()
	dst := make([][]byte, len(s.sizes))
	for k, size := range s.sizes {
		dst[k] = make([]byte, size)
	}
	for x, err := range samples {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		for _, d := range dst {
			clear(d)
		}
		if err := s.write(x, dst); err != nil {
			return err
		}
		if err := keep(i, dst); err != nil {
			return err
		}
		if i++; i == most {
			break
		}
	}
	switch {
	case i == most:
		return nil
	case ctx.Err() != nil: // the sequence may have ended because of it
		return context.Cause(ctx)
	case i < most:
		return fmt.Errorf("it ends there, and should have %d: %w", s.n, ErrChanged)
	}
	return nil
}

// put copies the fields of a sample, which have sizes, one after another.
func put(dst []byte, sample [][]byte, sizes []int) {
	for k, size := range sizes {
		copy(dst[:size], sample[k])
		dst = dst[size:]
	}
}

// get is the reverse of put.
func get(sample [][]byte, src []byte, sizes []int) {
	for k, size := range sizes {
		copy(sample[k], src[:size])
		src = src[size:]
	}
}

// Fields implements BlockSource.
func (s *sequence[T]) Fields() []Field { return s.fields }

// Sizes implements BlockSource.
func (s *sequence[T]) Sizes() []int {
	var sizes []int
	for at := 0; at < s.n; at += s.block {
		sizes = append(sizes, min(s.block, s.n-at))
	}
	return sizes
}

// Load implements BlockSource.
func (s *sequence[T]) Load(ctx context.Context, i int, old Block) (Block, error) {
	first := i * s.block
	n := min(s.block, s.n-first)
	b, ok := old.(*keptBlock)
	if !ok {
		b = &keptBlock{fields: s.fields, sizes: s.sizes, each: s.block, size: int(s.bytes), pieces: make([][]byte, 1)}
	}
	k := (*kept)(b)
	if need := n * k.size; len(k.pieces[0]) < need { // the last block is shorter
		k.pieces[0] = make([]byte, need)
	}
	k.n = n
	return b, s.read(ctx, s.from(first), first, n, func(i int, sample [][]byte) error {
		put(k.sample(i), sample, k.sizes)
		return nil
	})
}

// kept is samples in memory.
type kept struct {
	fields []Field
	sizes  []int // of the fields of a sample, bytes
	size   int   // of a sample, bytes
	each   int   // samples of a piece
	n      int
	pieces [][]byte
}

// sample returns the memory of a sample.
func (k *kept) sample(i int) []byte {
	at := i % k.each * k.size
	return k.pieces[i/k.each][at : at+k.size]
}

// get copies a sample.
func (k *kept) get(i int, dst [][]byte) error {
	if i < 0 || i >= k.n {
		return fmt.Errorf("sample %d: must be 0 to %d: %w", i, k.n-1, ErrOption)
	}
	get(dst, k.sample(i), k.sizes)
	return nil
}

// keptSamples is the dataset of FromSeq.
type keptSamples kept

func (k *keptSamples) Len() int        { return k.n }
func (k *keptSamples) Fields() []Field { return k.fields }
func (k *keptSamples) Fetch(_ context.Context, at At, dst [][]byte) error {
	return (*kept)(k).get(at.Index, dst)
}

// keptBlock is a block of FromSeqBlocks.
type keptBlock kept

// Fetch implements Block.
func (k *keptBlock) Fetch(_ context.Context, row int, _ At, dst [][]byte) error {
	return (*kept)(k).get(row, dst)
}
