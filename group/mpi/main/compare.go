//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
)

// operations returns one operation of each kind and type.
func operations(size, n int) (ops []group.Op) {
	whole := (n + size - 1) / size * size
	for _, d := range []arena.DType{arena.Float32, arena.Float64, arena.Int32, arena.Int64} {
		ops = append(ops, group.Op{Kind: group.Sum, Type: d, Data: make([]byte, n*int(d.Size()))},
			group.Op{Kind: group.ReduceScatter, Type: d, Data: make([]byte, whole*int(d.Size()))})
		if d != arena.Float32 {
			ops = append(ops, group.Op{Kind: group.Max, Type: d, Data: make([]byte, n*int(d.Size()))})
		}
	}
	for root, d := range []arena.DType{arena.Uint8, arena.BFloat16, arena.Int64} {
		ops = append(ops, group.Op{Kind: group.Broadcast, Type: d, Data: make([]byte, n*int(d.Size())), Root: root % size},
			group.Op{Kind: group.AllGather, Type: d, Data: make([]byte, whole*int(d.Size()))})
	}
	return append(ops, group.Op{Kind: group.Barrier})
}

// fill writes the data of a rank: numbers whose sum depends on the order.
func fill(op group.Op, rank int) {
	width := int(op.Type.Size())
	for i := 0; width > 0 && i < len(op.Data)/width; i++ {
		h := (uint64(rank)<<40 + uint64(i)) * 0x9e37_79b9_7f4a_7c15
		h = (h ^ h>>29) * 0xbf58_476d_1ce4_e5b9
		v := math.Float64frombits(h>>12|(1023+h%20)<<52) - 2
		b := op.Data[i*width:]
		switch op.Type {
		case arena.Float32:
			binary.NativeEndian.PutUint32(b, math.Float32bits(float32(v)))
		case arena.Float64:
			special := [...]float64{math.NaN(), 0, math.Copysign(0, -1), math.Inf(-1)}
			if op.Kind == group.Max && h>>60 < 4 {
				v = special[h>>60]
			}
			binary.NativeEndian.PutUint64(b, math.Float64bits(v))
		case arena.Int32:
			binary.NativeEndian.PutUint32(b, uint32(h))
		case arena.Int64:
			binary.NativeEndian.PutUint64(b, h)
		default:
			copy(b[:width], []byte{byte(h), byte(h >> 8)})
		}
	}
}

// compare runs an operation twice and compares it with a local group: the same bits, if the group is
// strict or the order does not matter, and else to the rounding of a sum.
func compare(g group.Group, op group.Op) error {
	want, err := locally(op, g.Size(), g.Rank())
	if err != nil {
		return err
	}
	o, err := g.Prepare(op)
	if err != nil {
		return err
	}
	for range 2 {
		fill(op, g.Rank())
		if err := group.Run(o); err != nil {
			return err
		}
		exact := *strict || g.Size() <= 2 || !op.Type.Float() || op.Kind == group.Max
		if !bytes.Equal(op.Data, want) && (exact || !near(op, want)) {
			return fmt.Errorf("rank %d: %s: wrong", g.Rank(), op)
		}
	}
	return o.Close()
}

// near reports whether sums differ by rounding only: the terms are below 2^20 each.
func near(op group.Op, want []byte) bool {
	width, eps := int(op.Type.Size()), 0x1p-23
	value := func(b []byte) float64 { return float64(math.Float32frombits(binary.NativeEndian.Uint32(b))) }
	if op.Type == arena.Float64 {
		eps = 0x1p-52
		value = func(b []byte) float64 { return math.Float64frombits(binary.NativeEndian.Uint64(b)) }
	}
	for i := 0; i < len(want); i += width {
		if !(math.Abs(value(op.Data[i:])-value(want[i:])) <= 4*8*0x1p20*eps) {
			return false
		}
	}
	return true
}

// locally returns what a rank of a local group has after the operation.
func locally(op group.Op, size, rank int) ([]byte, error) {
	ranks, err := group.Local(size, group.Options{})
	if err != nil {
		return nil, err
	}
	data, errs := make([][]byte, size), make([]error, size)
	var all sync.WaitGroup
	for r, g := range ranks {
		all.Go(func() {
			op := op
			op.Data = append(make([]byte, 0, len(op.Data)+8), op.Data...)
			fill(op, r)
			o, err := g.Prepare(op)
			if err == nil {
				err = group.Run(o)
			}
			data[r], errs[r] = op.Data, errors.Join(err, g.Close())
		})
	}
	all.Wait()
	return data[rank], errors.Join(errs...)
}
