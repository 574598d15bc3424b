package arrow

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
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
		valid := validOf(data)
		width := 4
		switch data.DataType().ID() {
		case arrow.LARGE_LIST:
			width = 8
			fallthrough
		case arrow.LIST:
			first := offset(buffer(data, 1), from+data.Offset(), width)
			length = offset(buffer(data, 1), from+data.Offset()+1, width) - first
			for i := range n {
				if valid.missing(from+i) || length < 1 {
					return bad("missing or empty")
				}
				if o := from + i + data.Offset(); offset(buffer(data, 1), o+1, width)-offset(buffer(data, 1), o, width) != length {
					return bad("of several lengths")
				}
			}
			from = first
		default:
			from *= length
		}
		dims = append(dims, length)
		if n *= length; n > data.Children()[0].Len() {
			return bad("longer than the data")
		}
		data = data.Children()[0]
	}
	return dims, nil
}
