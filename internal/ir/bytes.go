package ir

import "reflect"

// HostBytes returns the bytes of Go memory that the program's lists need: instructions, values,
// buffers and their places. Names, attributes and constants are not counted.
func (p *Program) HostBytes() int64 {
	n := listBytes(p.Instrs) + listBytes(p.Values) + listBytes(p.Needed) + listBytes(p.Order) +
		listBytes(p.Problem.Buffers) + listBytes(p.Plan.Offsets)
	for i := range p.Instrs {
		n += listBytes(p.Instrs[i].In) + listBytes(p.Instrs[i].Out)
	}
	for i := range p.Values {
		n += listBytes(p.Values[i].Spec.Shape)
	}
	return n
}

// listBytes returns the bytes that a slice keeps.
func listBytes[T any](s []T) int64 { return int64(cap(s)) * int64(reflect.TypeFor[T]().Size()) }
