package arrow

import (
	"errors"
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"
)

// The library allocates memory for the lengths of vectors in the metadata before it reads them.
// verifySchema and verifyBatch check those lengths first.

// Slots of the flatbuffers that are verified.
const (
	slotFields    = 6  // of a schema
	slotSchemaKVs = 8  // of a schema
	slotType      = 10 // of a field
	slotChildren  = 14 // of a field
	slotFieldKVs  = 16 // of a field
	slotTypeIDs   = 6  // of a union
	slotKVs       = 12 // of a message
	slotNodes     = 6  // of a record batch
	slotBuffers   = 8  // of a record batch
	slotVariadic  = 12 // of a record batch
	maxFields     = 1 << 16
	maxNesting    = 32
)

// errVector: a vector is longer than the metadata.
var errVector = errors.New("a list is longer than the metadata")

// vector returns the length of the vector in a slot, which must fit in the metadata with elements of
// size bytes, and the place of its first element.
func vector(t flatbuffers.Table, slot flatbuffers.VOffsetT, size int) (n int, at flatbuffers.UOffsetT, err error) {
	o := flatbuffers.UOffsetT(t.Offset(slot))
	if o == 0 {
		return 0, 0, nil
	}
	n, at = t.VectorLen(o), t.Vector(o)
	if n < 0 || int64(n)*int64(size) > int64(len(t.Bytes))-int64(at) {
		return 0, 0, errVector
	}
	return n, at, nil
}

// verifySchema checks a schema.
func verifySchema(schema flatbuffers.Table) error {
	if _, _, err := vector(schema, slotSchemaKVs, 4); err != nil {
		return err
	}
	left := maxFields
	return verifyFields(schema, slotFields, 0, &left)
}

// verifyFields checks the fields in a slot of a schema or field.
func verifyFields(t flatbuffers.Table, slot flatbuffers.VOffsetT, depth int, left *int) error {
	n, at, err := vector(t, slot, 4)
	if err != nil {
		return err
	}
	if depth > maxNesting {
		return fmt.Errorf("more than %d nested fields", maxNesting)
	}
	if *left -= n; *left < 0 {
		return fmt.Errorf("more than %d fields", maxFields)
	}
	for i := range n {
		f := flatbuffers.Table{Bytes: t.Bytes, Pos: t.Indirect(at + flatbuffers.UOffsetT(4*i))}
		if _, _, err := vector(f, slotFieldKVs, 4); err != nil {
			return err
		}
		if typ, ok := child(f, slotType); ok {
			// Only a union has a vector in this slot; for another type it is a number, which passes or
			// makes the file unreadable.
			if f.GetByteSlot(8, 0) == typeUnion {
				if _, _, err := vector(typ, slotTypeIDs, 4); err != nil {
					return err
				}
			}
		}
		if err := verifyFields(f, slotChildren, depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

// typeUnion is the number of the type of unions in the schema.
const typeUnion = 14

// verifyBatch checks the lengths in a record batch.
func verifyBatch(batch flatbuffers.Table) error {
	if _, _, err := vector(batch, slotNodes, 16); err != nil {
		return err
	}
	buffers, _, err := vector(batch, slotBuffers, 16)
	if err != nil {
		return err
	}
	n, at, err := vector(batch, slotVariadic, 8)
	if err != nil {
		return err
	}
	for i := range n {
		if k := batch.GetInt64(at + flatbuffers.UOffsetT(8*i)); k < 0 || k > int64(buffers) {
			return fmt.Errorf("%d buffers of a column where the batch has %d", k, buffers)
		}
	}
	return nil
}
