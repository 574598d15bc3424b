package arrow

import (
	"fmt"

	"github.com/evenkeel/evenkeel/dataloader"
)

// dims returns the lengths of the lists in the first row of a column.
func (b *batch) dims(c *column, k int) (dims []int, err error) {
	bad := func(got string) ([]int, error) {
		return nil, &dataloader.FieldError{Index: k, Name: c.leaf.Name,
			Problem: fmt.Sprintf("the lengths of the lists are those of the first row, which is %s: set Column.Shape", got)}
	}
	defer b.at.file.recovered(b.at.message(), &err)
	data := b.record.Column(c.leaf.path[0]).Data()
	for _, i := range c.leaf.path[1:] {
		data = unwrap(data).Children()[i]
	}
	from, n := 0, 1
	for _, length := range c.leaf.Type.Dims {
		data = unwrap(data)
		if l := listOf(data, length); l.width == 0 {
			from *= length
		} else {
			first := l.start(from)
			length = l.start(from+1) - first
			for i := from; i < from+n; i++ {
				if l.valid.missing(i) || length < 1 {
					return bad("missing or empty")
				}
				if l.start(i+1)-l.start(i) != length {
					return bad("of several lengths")
				}
			}
			from = first
		}
		dims = append(dims, length)
		if n *= length; n > data.Children()[0].Len() {
			return bad("longer than the data")
		}
		data = data.Children()[0]
	}
	return dims, nil
}
