package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/ir"
)

// residentIndex returns the index of ds in Options.Resident, or streamed.
func (o *Options) residentIndex(ds dataloader.Dataset) int {
	if i := slices.IndexFunc(o.Resident, func(r dataloader.Dataset) bool { return comparable(ds) && r == ds }); i >= 0 {
		return i
	}
	return streamed
}

// residents uploads resident datasets. Only the caller that has the device may use it.
type residents struct {
	memory  *memory
	loaders *loaders      // keeps loaders that cannot be closed
	done    []bool        // by index in Options.Resident: the dataset is on the device
	bytes   *atomic.Int64 // counts uploaded bytes
}

// maxChunkBytes bounds a chunk of an upload through Go memory.
const maxChunkBytes = 1 << 20

// ensureUploaded uploads resident dataset i unless it is on the device.
func (r *residents) ensureUploaded(ctx context.Context, i int) error {
	if r.done[i] {
		return nil
	}
	if err := r.upload(ctx, i); err != nil {
		return fmt.Errorf("upload resident dataset %d: %w", i, err)
	}
	r.done[i] = true
	return nil
}

// chunks are the parts of a dataset in which it is uploaded. A loader writes them one after another
// to the same slot: in place, so that there is one chunk, or in Go memory.
//
//	unified   dataset ─loader─► its place in the arena
//	other     dataset ─loader─► Go memory ─copy─► its place in the arena
type chunks struct {
	fields []dataloader.Field
	places []arena.Ref     // by field: where all its samples lie in the arena
	slot   dataloader.Slot // where the loader writes a chunk
	rows   int             // of a chunk; the last one may have fewer
}

// upload copies a dataset to its place on the device, as it is stored: in one go if the host can
// write there, else chunk by chunk.
func (r *residents) upload(ctx context.Context, i int) (err error) {
	opt := &r.memory.plan.opt
	ds := opt.Resident[i]
	c, err := r.newChunks(i, r.memory.plan.residents[i])
	if err != nil {
		return err
	}
	l, err := dataloader.New(ds, dataloader.Options{Batch: c.rows, Seed: opt.Seed, Workers: opt.Workers})
	if err != nil {
		return err
	}
	// Sequential, whatever Options.Sequential says: row i of the place is sample i.
	defer func() {
		if e := l.Close(); e != nil { // a reader may still write to the device's memory
			r.loaders.keepUntilClose(ds, l)
			err = errors.Join(err, e)
		}
	}()
	run, err := l.Epoch(ctx, 0, []dataloader.Slot{c.slot})
	if err != nil {
		return err
	}
	// A dataset that fails in the middle is uploaded from its beginning the next time.
	for {
		b, err := run.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.copyChunk(c, b); err != nil {
			return err
		}
		if err := run.Release(b.Slot, nil); err != nil {
			return err
		}
	}
}

// newChunks returns the chunks of resident dataset i, and where the loader writes them.
func (r *residents) newChunks(i int, data extent) (*chunks, error) {
	c := &chunks{fields: data.fields, rows: data.samples}
	if !r.memory.unified {
		// A chunk has one sample at least, however large that is.
		c.rows = int(min(int64(c.rows), max(1, maxChunkBytes/data.sampleBytes())))
	}
	for _, f := range c.fields {
		home, ok := r.memory.plan.homes.Find(ir.Resident, residentName(i)+"/"+f.Name)
		if !ok {
			return nil, fmt.Errorf("field %q is not an input of the model: %w", f.Name, ErrData)
		}
		place := r.memory.ref(home.Ref, 0)
		c.places = append(c.places, place)
		if r.memory.unified {
			c.slot.Fields = append(c.slot.Fields, bytesOf(r.memory.span(place)))
		} else {
			c.slot.Fields = append(c.slot.Fields, make([]byte, f.Bytes()*int64(c.rows)))
		}
	}
	return c, nil
}

// copyChunk copies the chunk of batch b to the device, unless the loader has written it there.
func (r *residents) copyChunk(c *chunks, b dataloader.Batch) error {
	for k, f := range c.fields {
		n := f.Bytes() * int64(b.Rows)
		r.bytes.Add(n)
		if r.memory.unified {
			continue
		}
		// Chunk b.Step starts after the full chunks before it. Example: with 100 samples of 4 bytes
		// in a chunk, chunk 2 starts at byte 800 of the field's place.
		ref := c.places[k]
		ref.Offset, ref.Size = ref.Offset+f.Bytes()*int64(b.Step)*int64(c.rows), n
		h, err := r.memory.arena.Handle(ref, f.Name)
		if err != nil {
			return err
		}
		if err := h.Write(c.slot.Fields[k][:n]); err != nil {
			return err
		}
	}
	return nil
}
