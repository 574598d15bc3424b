package proto

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// MaxBytes is the size that no protobuf message may have. A larger model keeps its tensors in
// another file.
const MaxBytes = math.MaxInt32

// Write writes a model, and returns the number of bytes. It writes Raw of tensors, not the lists of
// their types, and no functions. A model of MaxBytes or more is an error, and nothing is written
// then.
func Write(w io.Writer, m *Model) (int64, error) {
	var p parts
	p.model(m)
	if p.size >= MaxBytes {
		return 0, fmt.Errorf("%d bytes: a model in one file must be smaller than %d: write its tensors to another file", p.size, int64(MaxBytes))
	}
	var n int64
	for _, b := range p.list {
		k, err := w.Write(b)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// parts are the bytes of a message, as slices one after the other. Bytes of tensors are not copied.
type parts struct {
	list [][]byte
	size int64
	own  bool // the last slice is p's and may grow
}

// buffer returns the slice to append a few bytes to; give it back to keep.
func (p *parts) buffer() []byte {
	if !p.own {
		p.list, p.own = append(p.list, nil), true
	}
	return p.list[len(p.list)-1]
}

func (p *parts) keep(b []byte) {
	last := len(p.list) - 1
	p.size += int64(len(b) - len(p.list[last]))
	p.list[last] = b
}

func (p *parts) key(number, wire int) { p.varint(uint64(number)<<3 | uint64(wire)) }

func (p *parts) varint(u uint64) { p.keep(binary.AppendUvarint(p.buffer(), u)) }

// int writes a field that is not 0.
func (p *parts) int(number int, v int64) {
	if v != 0 {
		p.key(number, wireVarint)
		p.varint(uint64(v))
	}
}

// text writes a field that is not empty.
func (p *parts) text(number int, s string) {
	if s != "" {
		p.item(number, s)
	}
}

// item writes an entry of a repeated field, which may be empty.
func (p *parts) item(number int, s string) {
	p.key(number, wireBytes)
	p.varint(uint64(len(s)))
	p.keep(append(p.buffer(), s...))
}

// bytes writes a field without a copy.
func (p *parts) bytes(number int, b []byte) {
	p.key(number, wireBytes)
	p.varint(uint64(len(b)))
	if len(b) > 0 {
		p.list, p.own = append(p.list, b), false
		p.size += int64(len(b))
	}
}

// sub writes a nested message.
func (p *parts) sub(number int, write func(p *parts)) {
	var q parts
	write(&q)
	p.key(number, wireBytes)
	p.varint(uint64(q.size))
	if len(q.list) > 0 {
		p.list, p.own = append(p.list, q.list...), q.own
		p.size += q.size
	}
}

func (p *parts) model(m *Model) {
	p.int(1, m.IRVersion)
	p.text(2, m.Producer)
	p.text(3, m.ProducerVersion)
	if m.Graph != nil {
		p.sub(7, func(p *parts) { p.graph(m.Graph) })
	}
	for _, o := range m.Opsets {
		p.sub(8, func(p *parts) {
			p.text(1, o.Domain)
			p.int(2, o.Version)
		})
	}
	p.entries(14, m.Metadata)
}

func (p *parts) entries(number int, entries []Entry) {
	for _, e := range entries {
		p.sub(number, func(p *parts) {
			p.text(1, e.Key)
			p.text(2, e.Value)
		})
	}
}

func (p *parts) graph(g *Graph) {
	for i := range g.Nodes {
		p.sub(1, func(p *parts) { p.node(&g.Nodes[i]) })
	}
	p.text(2, g.Name)
	for i := range g.Initializers {
		p.sub(5, func(p *parts) { p.tensor(&g.Initializers[i]) })
	}
	p.values(11, g.Inputs)
	p.values(12, g.Outputs)
	p.values(13, g.ValueInfos)
}

func (p *parts) node(n *Node) {
	for _, s := range n.Inputs {
		p.item(1, s)
	}
	for _, s := range n.Outputs {
		p.item(2, s)
	}
	p.text(3, n.Name)
	p.text(4, n.Op)
	for i := range n.Attributes {
		p.sub(5, func(p *parts) { p.attribute(&n.Attributes[i]) })
	}
	p.text(7, n.Domain)
}

func (p *parts) attribute(a *Attribute) {
	p.text(1, a.Name)
	switch a.Type {
	case AttrFloat:
		p.key(2, wire32)
		p.float(a.F)
	case AttrInt:
		p.key(3, wireVarint)
		p.varint(uint64(a.I))
	case AttrString:
		p.bytes(4, a.S)
	case AttrTensor:
		p.sub(5, func(p *parts) { p.tensor(a.T) })
	case AttrFloats:
		for _, f := range a.Floats {
			p.key(7, wire32)
			p.float(f)
		}
	case AttrInts:
		for _, v := range a.Ints {
			p.key(8, wireVarint)
			p.varint(uint64(v))
		}
	case AttrStrings:
		for _, s := range a.Strings {
			p.item(9, string(s))
		}
	}
	p.int(20, int64(a.Type))
}

func (p *parts) float(f float32) {
	p.keep(binary.LittleEndian.AppendUint32(p.buffer(), math.Float32bits(f)))
}

func (p *parts) tensor(t *Tensor) {
	for _, d := range t.Dims {
		p.key(1, wireVarint)
		p.varint(uint64(d))
	}
	p.int(2, int64(t.Type))
	p.text(8, t.Name)
	if t.Location == LocationDefault {
		p.bytes(9, t.Raw)
	}
	p.entries(13, t.External)
	p.int(14, t.Location)
}

func (p *parts) values(number int, values []ValueInfo) {
	for _, v := range values {
		p.sub(number, func(p *parts) {
			p.text(1, v.Name)
			p.sub(2, func(p *parts) { p.sub(1, v.write) })
		})
	}
}

// write writes the type of a tensor.
func (v ValueInfo) write(p *parts) {
	p.int(1, int64(v.Type))
	if !v.HasShape {
		return
	}
	p.sub(2, func(p *parts) {
		for _, d := range v.Dims {
			p.sub(1, func(p *parts) {
				if d.HasValue {
					p.key(1, wireVarint)
					p.varint(uint64(d.Value))
				}
				p.text(2, d.Param)
			})
		}
	})
}
