package trainer

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/internal/compile"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// link is a tensor that a machine shares with its graph: bytes in the arena, and a Gorgonia value over them.
type link struct {
	node   *gorgonia.Node // an input, an output, or the input that this is the gradient of
	spec   kernels.Spec
	bytes  []byte         // the place in the arena, or its twin in Go memory where the host cannot see that
	far    bool           // bytes is a twin
	handle arena.Handle   // the place in the arena
	value  gorgonia.Value // over bytes; a scalar, or bools, hold a copy
	addr   uintptr        // of the value's elements where it shares bytes, else 0
	size   uintptr        // of them, in bytes
}

// link makes the values that the graph and the arena share, and moves those of inputs with a gradient into the arena.
func (m *Machine) link(links *compile.Links, at func(arena.Ref, string) (arena.Handle, error)) error {
	unified := m.opt.Device.Unified()
	share := func(c compile.Link) (link, error) {
		h, err := at(c.Ref, c.Node.Name())
		if err != nil {
			return link{}, err
		}
		return newLink(c.Node, c.Spec, h, unified)
	}
	shown := make(map[*gorgonia.Node]bool)
	for _, c := range links.Grads {
		l, err := share(c)
		if err != nil {
			return err
		}
		m.grads = append(m.grads, gradient{link: l, sum: c.Sum, own: c.Own})
		if c.Own {
			shown[c.Node.Deriv()] = true
		}
	}
	for _, c := range links.Outputs {
		l, err := share(c)
		if err != nil {
			return err
		}
		m.outputs = append(m.outputs, l)
		m.bound = append(m.bound, compile.Computed(c.Node) && !shown[c.Node])
	}
	for _, c := range links.Inputs {
		l, err := share(c)
		if err != nil {
			return err
		}
		in := input{link: l}
		if v := c.Node.Value(); !layout.IsEmpty(v) && c.Node.Deriv() != nil && l.addr != 0 {
			if err := layout.Load(in.bytes, v, in.spec); err != nil {
				return fmt.Errorf("%q: %w", c.Node.Name(), err)
			}
			if err := gorgonia.UnsafeLet(c.Node, in.value); err != nil {
				return fmt.Errorf("%q: %w", c.Node.Name(), err)
			}
			in.moved = true
		}
		m.inputs = append(m.inputs, in)
	}
	return nil
}

// newLink makes the link of a node, or of its gradient, to a place in the arena.
func newLink(n *gorgonia.Node, spec kernels.Spec, h arena.Handle, unified bool) (link, error) {
	spec.Shape = slices.Clone(spec.Shape) // not the node's, nor that of a tensor of the program's
	l := link{node: n, spec: spec, handle: h, far: !unified}
	if l.far {
		l.bytes = make([]byte, spec.Bytes())
	} else {
		var err error
		if l.bytes, err = h.Bytes(); err != nil {
			return l, err
		}
	}
	l.renew()
	return l, nil
}

// renew makes another value over the bytes.
func (l *link) renew() {
	shape := l.spec.Shape
	switch {
	case l.node.Dtype() == tensor.Bool && len(shape) == 0:
		l.value = gorgonia.NewB(false)
	case l.node.Dtype() == tensor.Bool:
		l.value = compile.Unpooled(tensor.New(tensor.WithShape(shape...), tensor.WithBacking(make([]bool, shape.Elems()))))
	default:
		l.value = compile.ValueOver(l.node, l.bytes)
		if len(shape) > 0 {
			l.addr = l.value.Uintptr()
			l.size = l.value.MemSize()
		}
	}
}

// mine reports whether v is what the link shares: its value, or another tensor over all of its bytes. Gorgonia recycles tensor
// objects, so that their memory tells what they are, not their identity.
func (l *link) mine(v gorgonia.Value) bool {
	if d, ok := v.(*tensor.Dense); ok && l.addr != 0 {
		return l.over(d) && slices.Equal(d.Shape(), tensor.Shape(l.spec.Shape)) && layout.Contiguous(d)
	}
	return v != nil && v == l.value
}

// over reports whether d lies over the bytes. A tensor that Gorgonia has blanked has none, and no address.
func (l *link) over(d *tensor.Dense) bool {
	return l.addr != 0 && d.MemSize() == l.size && d.Uintptr() == l.addr
}

// current returns the value, made again where Gorgonia has blanked it.
func (l *link) current() gorgonia.Value {
	if l.addr != 0 && !l.mine(l.value) {
		l.renew()
	}
	return l.value
}

// fetch brings v to the arena.
func (l *link) fetch(v gorgonia.Value) error {
	if l.addr == 0 || !l.mine(v) {
		if d, ok := v.(*tensor.Dense); ok && l.over(d) {
			v = d.Materialize().(gorgonia.Value) // transposed where it lies
		}
		if err := layout.Load(l.bytes, v, l.spec); err != nil {
			return err
		}
	}
	return l.upload()
}

// upload brings the twin to the arena, where there is one.
func (l *link) upload() error {
	if !l.far {
		return nil
	}
	return l.handle.Write(l.bytes)
}

// refresh brings the value up to date with the arena.
func (l *link) refresh() error {
	if l.far {
		if err := l.handle.Read(l.bytes); err != nil {
			return err
		}
	}
	switch v := l.value.(type) {
	case *gorgonia.F32:
		*v = gorgonia.F32(dataloader.View[float32](l.bytes)[0])
	case *gorgonia.F64:
		*v = gorgonia.F64(dataloader.View[float64](l.bytes)[0])
	case *gorgonia.I:
		*v = gorgonia.I(dataloader.View[int](l.bytes)[0])
	case *gorgonia.I64:
		*v = gorgonia.I64(dataloader.View[int64](l.bytes)[0])
	case *gorgonia.I32:
		*v = gorgonia.I32(dataloader.View[int32](l.bytes)[0])
	case *gorgonia.U8:
		*v = gorgonia.U8(l.bytes[0])
	case *gorgonia.B:
		*v = gorgonia.B(l.truth(0))
	case *tensor.Dense:
		if l.addr == 0 && v.Dtype() == tensor.Bool {
			for i := range v.Bools() {
				v.Bools()[i] = l.truth(i)
			}
		}
	}
	return nil
}

// truth returns element i, stored as a number, as a bool.
func (l *link) truth(i int) bool {
	switch l.spec.Type {
	case arena.Float32:
		return dataloader.View[float32](l.bytes)[i] != 0
	case arena.Float64:
		return dataloader.View[float64](l.bytes)[i] != 0
	}
	return l.bytes[i] != 0
}

// leave moves v's elements to Go memory if they are the link's. v stays the same tensor, so that whoever holds it does not notice.
func (l *link) leave(v gorgonia.Value) (err error) {
	defer caught("leave", &err)
	d, ok := v.(*tensor.Dense)
	if !ok || l.far || !l.over(d) {
		return nil
	}
	var b []byte
	b, err = d.GobEncode()
	if err == nil {
		err = d.GobDecode(b)
	}
	if err != nil {
		return fmt.Errorf("move %q out of the arena: %w", l.node.Name(), err)
	}
	return nil
}

// gradient is the gradient of an input.
type gradient struct {
	link
	sum  bool           // it adds up over runs
	own  bool           // the input's Deriv holds it
	twin gorgonia.Value // where it adds up: another tensor over the same bytes, for Deriv, so that the two can be told apart
}

// begin brings what a sum has come to so far to the arena.
func (g *gradient) begin() error {
	if !g.sum {
		return nil
	}
	v, _ := g.node.Grad()
	if d := g.node.Deriv().Value(); layout.IsEmpty(v) || v == d {
		clear(g.bytes) // nothing has been added up yet
		return g.upload()
	}
	return g.fetch(v)
}

// end shows the gradient to the program: by the input's Deriv, and where that cannot be, or the input keeps its gradient itself
// because somebody wants sums, by the input.
func (g *gradient) end() error {
	if err := g.refresh(); err != nil {
		return err
	}
	if g.own {
		if err := g.endDeriv(); err != nil {
			return err
		}
	}
	if v, err := g.node.Grad(); err != nil || !g.mine(v) || g.sum && v == g.twin {
		gorgonia.WithGrad(g.current())(g.node)
	}
	return nil
}

func (g *gradient) endDeriv() error {
	d := g.node.Deriv()
	if g.sum {
		if g.twin == nil || g.addr != 0 && !g.mine(g.twin) {
			g.twin = compile.ValueOver(g.node, g.bytes)
		}
		if g.addr == 0 {
			if _, err := gorgonia.Copy(g.twin, g.value); err != nil {
				return err
			}
		}
		if d.Value() != g.twin {
			return gorgonia.UnsafeLet(d, g.twin)
		}
		return nil
	}
	if g.mine(d.Value()) {
		return nil
	}
	return gorgonia.UnsafeLet(d, g.current())
}

// leave moves all that shows the gradient to Go memory.
func (g *gradient) leave() error {
	v, _ := g.node.Grad()
	for _, v := range []gorgonia.Value{g.value, g.twin, v} {
		if layout.IsEmpty(v) {
			continue
		}
		if err := g.link.leave(v); err != nil {
			return err
		}
	}
	return nil
}
