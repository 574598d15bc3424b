package cpu

import (
	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

// bindCheckIndex prepares CheckIndex: it stores its code and the first index outside of the table
// in the guard, unless the guard is set. One thread checks all indices, since there are few.
func bindCheckIndex(b *binding) (func(), error) {
	guard, a := in[int32](b, 1), b.Attrs.(kernels.CheckIndexAttrs)
	switch b.In[0].Type {
	case arena.Uint8:
		return checkIndex(in[uint8](b, 0), guard, a), nil
	case arena.Int32:
		return checkIndex(in[int32](b, 0), guard, a), nil
	}
	return checkIndex(in[int64](b, 0), guard, a), nil
}

// checkIndex returns the check for one integer type.
func checkIndex[T uint8 | int32 | int64](index []T, guard []int32, a kernels.CheckIndexAttrs) func() {
	return func() {
		if guard[0] != 0 {
			return
		}
		for i, x := range index {
			if uint64(int64(x)) >= uint64(a.Rows) {
				guard[0], guard[1], guard[2], guard[3] = a.Code, int32(i), int32(int64(x)), int32(int64(x)>>32)
				return
			}
		}
	}
}
