package group

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/evenkeel/evenkeel/arena"
)

// Exchange returns what each rank passed as mine, in order of rank: to compare hashes and options,
// or to collect the texts of errors. All ranks call it at the same place in the order of operations.
// The bytes may have any lengths; a rank needs memory for Size times the longest. When ctx is done
// while it waits, this rank gives up and the group is broken.
func Exchange(ctx context.Context, g Group, mine []byte) ([][]byte, error) {
	defer context.AfterFunc(ctx, func() { g.Abort(fmt.Errorf("exchange: %w", context.Cause(ctx))) })()
	sizes := make([]byte, 8*g.Size())
	binary.LittleEndian.PutUint64(sizes[8*g.Rank():], uint64(len(mine)))
	if err := gather(g, sizes, "exchange sizes"); err != nil {
		return nil, err
	}
	longest := uint64(0)
	for r := range g.Size() {
		longest = max(longest, binary.LittleEndian.Uint64(sizes[8*r:]))
	}
	all := make([]byte, int(longest)*g.Size())
	copy(all[int(longest)*g.Rank():], mine)
	if err := gather(g, all, "exchange bytes"); err != nil {
		return nil, err
	}
	texts := make([][]byte, g.Size())
	for r := range texts {
		size := int(binary.LittleEndian.Uint64(sizes[8*r:]))
		texts[r] = all[int(longest)*r:][:size:size]
	}
	return texts, nil
}

// ExchangeErrors tells all ranks which of them have an error. It returns the number and the text of the
// first rank that has one, -1 if none has; err is own or, if that is nil, the error of the exchange. All
// ranks call it as Exchange.
func ExchangeErrors(ctx context.Context, g Group, own error) (rank int, text string, err error) {
	var mine []byte
	if own != nil {
		mine = []byte(own.Error())
	}
	all, err := Exchange(ctx, g, mine)
	for rank, text := range all {
		if len(text) > 0 {
			return rank, string(text), cmp.Or(own, err)
		}
	}
	return -1, "", cmp.Or(own, err)
}

// gather runs an all-gather of bytes once.
func gather(g Group, data []byte, label string) error {
	return Once(g, Op{Kind: AllGather, Type: arena.Uint8, Data: data, Label: label})
}
