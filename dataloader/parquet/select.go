package parquet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/parallel"
	"github.com/evenkeel/evenkeel/dataloader/internal/values"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// choose returns the leaves of the selected columns, and the columns.
func (s *source) choose(all []leaf, columns []Column) ([]leaf, []Column, error) {
	var leaves []table.Leaf
	for _, l := range all {
		leaves = append(leaves, table.Leaf{Name: l.name, Type: l.typ, Refused: l.refused})
	}
	places, columns, err := table.Choose(leaves, columns)
	if err != nil {
		return nil, nil, err
	}
	var chosen []leaf
	for _, k := range places {
		chosen = append(chosen, all[k])
		s.columns = append(s.columns, column{leaf: all[k]})
	}
	return chosen, columns, nil
}

// finish makes the targets of the columns and lists the row groups as blocks.
func (s *source) finish(ctx context.Context, files []*file, columns []Column) error {
	for _, f := range files {
		for g := range f.groups {
			if rows := f.groups[g].rows; rows > 0 {
				s.blocks, s.sizes = append(s.blocks, place{f, g}), append(s.sizes, int(rows))
			}
		}
	}
	if len(s.blocks) == 0 {
		return fmt.Errorf("parquet %s: %w", files[0].name, dataloader.ErrEmpty)
	}
	var errs []error
	for k := range s.columns {
		c := &s.columns[k]
		t, err := s.known(ctx, k, columns[k])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		target, err := table.NewTarget(k, columns[k], t)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.Target, c.reps = target, repetitions(t.Dims)
		s.fields = append(s.fields, target.Field)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("parquet %s: %w", files[0].name, err)
	}
	if err := s.checkSizes(); err != nil {
		return err
	}
	return s.findClasses(ctx, files[0].name, columns)
}

// findClasses reads the columns whose classes are to be found, chunk by chunk.
func (s *source) findClasses(ctx context.Context, name string, columns []Column) error {
	var buffers sync.Pool
	for k := range s.columns {
		c := &s.columns[k]
		if !c.Finding() {
			continue
		}
		err := parallel.Each(ctx, len(s.blocks), 0, func(ctx context.Context, i int) error {
			buf, _ := buffers.Get().(*table.Buffer)
			if buf == nil {
				buf = new(table.Buffer)
			}
			defer buffers.Put(buf)
			r := s.reader()
			buf.Reset(c.Target, s.sizes[i], s.sizes[i]*c.Size())
			if err := r.loadSafely(ctx, s.blocks[i], k, c, s, s.sizes[i], buf, new(values.Bad)); err != nil {
				return err // r may be in any state: it is dropped
			}
			s.release(r)
			return nil
		})
		if err != nil {
			return err
		}
		if err := c.Found(k, columns[k]); err != nil {
			return fmt.Errorf("parquet %s: %w", name, err)
		}
	}
	return nil
}

// known finds the lengths of lists: those of the shape that is asked for, or of the first row.
func (s *source) known(ctx context.Context, k int, c Column) (table.Type, error) {
	t, all, err := c.Known(k, s.columns[k].leaf.typ)
	if all || err != nil {
		return t, err
	}
	r := &columnReader{}
	at := s.blocks[0]
	l := &s.columns[k].leaf
	if err := r.open(at.file, l.name, at.group, at.file.groups[at.group].chunks[k], s.limit); err != nil {
		return t, err
	}
	t.Dims, err = r.firstDims(ctx, l)
	return t, err
}

// firstDims returns the lengths of the lists in the first row of an open chunk.
func (r *columnReader) firstDims(ctx context.Context, l *leaf) (dims []int, err error) {
	defer r.recovered(&err)
	return r.dims(ctx, l)
}

// checkSizes returns an error for the first row group that is too large, or whose columns are
// compressed in a way that is not read.
func (s *source) checkSizes() error {
	var row int64
	for k, f := range s.fields {
		if !s.columns[k].Encoded() {
			row += f.Bytes()
		}
	}
	for i, at := range s.blocks {
		rows := int64(s.sizes[i])
		size := int64(math.MaxInt64)
		if row == 0 || rows <= math.MaxInt64/row {
			size = rows * row
		}
		for k, c := range at.file.groups[at.group].chunks {
			if !readable(c.codec) {
				return fmt.Errorf("parquet %s: column %q is compressed with %s: write it with zstd, Snappy or LZ4_RAW: %w",
					at.file.name, s.columns[k].leaf.name, codecName(c.codec), dataloader.ErrFormat)
			}
			if s.columns[k].Encoded() && size < math.MaxInt64-c.uncompressed {
				size += c.uncompressed
			}
		}
		if size > s.limit {
			return fmt.Errorf("parquet %s: row group %d has %d rows, %d bytes when decoded, more than Options.Limit, %d: raise it, "+
				"write row groups of at most %d rows, or pack the data: %w", at.file.name, at.group, rows, size, s.limit,
				max(1, int64(float64(rows)*float64(s.limit)/float64(size))), dataloader.ErrOption)
		}
	}
	return nil
}
