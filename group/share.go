package group

import (
	"unsafe"

	"github.com/evenkeel/evenkeel/group/internal/reduce"
)

const (
	blockBytes = 16 << 10  // that a worker adds at a time, so that they stay in the first cache
	shareBytes = 128 << 10 // of an operation for which one more worker is woken
)

// alignedBlock returns a block for numbers of any type.
func alignedBlock() []byte {
	words := make([]uint64, blockBytes/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), blockBytes)
}

// run computes share s of n of an operation. Shares are ranges of elements, cut into blocks:
//
//	data   |        part 0        |        part 1        |   only of AllGather and ReduceScatter
//	shares |    share 0     |    share 1    |   share 2  |
//	blocks |    |    |    | |    |    |    ||   |    |   |
//
// Each block is read from one rank, or summed over all in order of rank, and written to one or all.
func run(ranks []*localOp, s, n int, scratch []byte) {
	op := &ranks[0].op
	width := int(op.Type.Size())
	elements := len(op.Data) / width
	lo, hi := elements*s/n*width, elements*(s+1)/n*width
	part := len(op.Data)
	if op.Kind.parts() {
		part /= len(ranks)
	}
	for lo < hi {
		end := min(hi, lo+blockBytes, lo-lo%part+part)
		owner := lo / part
		switch op.Kind {
		case Sum, Max:
			block := op.Data[lo:end]
			combine(block, ranks, lo, end)
			scatter(ranks, lo, end, 0, block)
		case ReduceScatter:
			block := scratch[:copy(scratch, op.Data[lo:end])]
			combine(block, ranks, lo, end)
			copy(ranks[owner].op.Data[lo:end], block)
		case AllGather:
			scatter(ranks, lo, end, owner, ranks[owner].op.Data[lo:end])
		case Broadcast:
			scatter(ranks, lo, end, op.Root, ranks[op.Root].op.Data[lo:end])
		}
		lo = end
	}
}

// combine adds bytes lo to hi of the other ranks to those of rank 0 in block, in order of rank, or
// takes the greatest.
func combine(block []byte, ranks []*localOp, lo, hi int) {
	op := &ranks[0].op
	for _, r := range ranks[1:] {
		if op.Kind == Max {
			reduce.Max(op.Type, block, r.op.Data[lo:hi])
		} else {
			reduce.Add(op.Type, block, r.op.Data[lo:hi])
		}
	}
}

// scatter writes from to bytes lo to hi of all ranks but one.
func scatter(ranks []*localOp, lo, hi, but int, from []byte) {
	for i, r := range ranks {
		if i != but {
			copy(r.op.Data[lo:hi], from)
		}
	}
}
