package arrow

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/dataloader"
)

// mapped is the rows of mapped files, each read where it is. A Fetch allocates nothing.
type mapped struct {
	fields  []dataloader.Field
	batches []*batch
	starts  []int // index of the first row of each batch
	rows    int
	memory  pool
}

// newMapped reads the descriptions of all record batches.
func newMapped(s *source, files []*file) (*mapped, error) {
	m := &mapped{fields: s.fields, memory: pool{limit: s.limit}}
	for _, f := range files {
		all, err := readAll(f, s.columns, &m.memory)
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			if rows := int(b.record.NumRows()); rows > 0 {
				m.batches, m.starts = append(m.batches, b), append(m.starts, m.rows)
				m.rows += rows
			}
		}
	}
	return m, nil
}

// Len implements dataloader.Dataset.
func (m *mapped) Len() int { return m.rows }

// Fields implements dataloader.Dataset.
func (m *mapped) Fields() []dataloader.Field { return m.fields }

// Fetch implements dataloader.Dataset.
func (m *mapped) Fetch(ctx context.Context, at dataloader.At, dst [][]byte) error {
	if at.Index < 0 || at.Index >= m.rows {
		return fmt.Errorf("sample %d of %d: %w", at.Index, m.rows, dataloader.ErrOption)
	}
	k, found := slices.BinarySearch(m.starts, at.Index)
	if !found {
		k--
	}
	return m.batches[k].Fetch(ctx, at.Index-m.starts[k], at, dst)
}
