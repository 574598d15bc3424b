package proto

import "fmt"

// Parse reads a model. Byte fields of the result alias b, which must not change while the model is
// in use. An error is a *FormatError.
func Parse(b []byte) (*Model, error) {
	m := new(Model)
	err := message{b: b}.fields(m.field)
	if err == nil && m.Graph == nil {
		err = &FormatError{Offset: -1, Reason: "no graph"}
	}
	if err == nil && len(m.Opsets) == 0 {
		err = &FormatError{Offset: -1, Reason: "no opset_import"}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ParseTensor reads a TensorProto, such as a file of recorded inputs. Its bytes alias b.
func ParseTensor(b []byte) (*Tensor, error) {
	t := new(Tensor)
	if err := (message{b: b}).fields(t.field); err != nil {
		return nil, err
	}
	return t, nil
}

func (m *Model) field(f field) error {
	switch f.number {
	case 1:
		return f.int(&m.IRVersion)
	case 2:
		return f.text(&m.Producer)
	case 3:
		return f.text(&m.ProducerVersion)
	case 7:
		if m.Graph != nil {
			return f.errorf("a second graph")
		}
		m.Graph = new(Graph)
		return f.sub(m.Graph.field)
	case 8:
		var o Opset
		err := f.sub(o.field)
		m.Opsets = append(m.Opsets, o)
		return err
	case 14:
		return f.entry(&m.Metadata)
	case 25:
		var name string
		err := f.sub(func(f field) error {
			if f.number == 1 {
				return f.text(&name)
			}
			return nil
		})
		m.Functions = append(m.Functions, name)
		return err
	}
	return nil
}

func (o *Opset) field(f field) error {
	switch f.number {
	case 1:
		return f.text(&o.Domain)
	case 2:
		return f.int(&o.Version)
	}
	return nil
}

// sub visits the fields of a nested message.
func (f field) sub(visit func(field) error) error {
	if err := f.want(wireBytes); err != nil {
		return err
	}
	return f.fields(visit)
}

// named visits the fields of a nested message that must not be empty: its struct is larger than its
// bytes.
func (f field) named(what string, visit func(field) error, name *string) error {
	if err := f.sub(visit); err != nil {
		return err
	}
	if *name == "" {
		return f.errorf("%s without a name", what)
	}
	return nil
}

func (f field) entry(to *[]Entry) error {
	var e Entry
	err := f.named("an entry", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&e.Key)
		case 2:
			return f.text(&e.Value)
		}
		return nil
	}, &e.Key)
	*to = append(*to, e)
	return err
}

func (g *Graph) field(f field) error {
	switch f.number {
	case 1:
		var n Node
		err := f.named("a node", n.field, &n.Op)
		g.Nodes = append(g.Nodes, n)
		return err
	case 2:
		return f.text(&g.Name)
	case 5:
		var t Tensor
		err := f.named("an initializer", t.field, &t.Name)
		g.Initializers = append(g.Initializers, t)
		return err
	case 11:
		return f.value(&g.Inputs)
	case 12:
		return f.value(&g.Outputs)
	case 13:
		return f.value(&g.ValueInfos)
	case 15:
		g.Sparse++
	}
	return nil
}

func (n *Node) field(f field) error {
	switch f.number {
	case 1:
		n.Inputs = append(n.Inputs, string(f.b))
		return f.want(wireBytes)
	case 2:
		n.Outputs = append(n.Outputs, string(f.b))
		return f.want(wireBytes)
	case 3:
		return f.text(&n.Name)
	case 4:
		return f.text(&n.Op)
	case 5:
		var a Attribute
		if err := f.named("an attribute", a.field, &a.Name); err != nil {
			return err
		}
		if n.Attribute(a.Name) != nil {
			return f.errorf("node %q has attribute %q twice", n.Name, a.Name)
		}
		if len(n.Attributes) >= maxAttributes {
			return f.errorf("node %q has more than %d attributes", n.Name, maxAttributes)
		}
		n.Attributes = append(n.Attributes, a)
	case 7:
		return f.text(&n.Domain)
	}
	return nil
}

// maxAttributes keeps the search for a second one short. Operators have up to 12.
const maxAttributes = 64

func (a *Attribute) field(f field) error {
	switch f.number {
	case 1:
		return f.text(&a.Name)
	case 2:
		var l []float32
		if err := floats(&l, f); err != nil || len(l) != 1 {
			return f.errorf("attribute %q: a float of %d bytes", a.Name, len(f.b))
		}
		a.F = l[0]
	case 3:
		return f.int(&a.I)
	case 4:
		return f.bytes(&a.S)
	case 5:
		a.T = new(Tensor)
		return f.sub(a.T.field)
	case 7:
		return floats(&a.Floats, f)
	case 8:
		return varints(&a.Ints, f)
	case 9:
		a.Strings = append(a.Strings, f.b)
		return f.want(wireBytes)
	case 6, 10, 11, 14, 15, 22, 23:
		a.Other = true
	case 20:
		return f.int((*int64)(&a.Type))
	case 21:
		return f.text(&a.Ref)
	}
	return nil
}

func (t *Tensor) field(f field) error {
	switch f.number {
	case 1:
		return varints(&t.Dims, f)
	case 2:
		return f.int((*int64)(&t.Type))
	case 3:
		t.Segment = true
	case 4:
		return floats(&t.Floats, f)
	case 5:
		return varints(&t.Int32s, f)
	case 6:
		t.Strings = append(t.Strings, f.b)
		return f.want(wireBytes)
	case 7:
		return varints(&t.Int64s, f)
	case 8:
		return f.text(&t.Name)
	case 9:
		t.HasRaw = true
		return f.bytes(&t.Raw)
	case 10:
		return doubles(&t.Doubles, f)
	case 11:
		return varints(&t.Uint64s, f)
	case 13:
		return f.entry(&t.External)
	case 14:
		return f.int(&t.Location)
	}
	return nil
}

func (f field) value(to *[]ValueInfo) error {
	var v ValueInfo
	err := f.named("a value", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&v.Name)
		case 2:
			return f.sub(v.typ)
		}
		return nil
	}, &v.Name)
	*to = append(*to, v)
	return err
}

// typ reads a TypeProto. Sequences, maps and optional values leave the type undefined.
func (v *ValueInfo) typ(f field) error {
	if f.number != 1 {
		return nil
	}
	return f.sub(func(f field) error {
		switch f.number {
		case 1:
			return f.int((*int64)(&v.Type))
		case 2:
			v.HasShape = true
			return f.sub(v.dim)
		}
		return nil
	})
}

// maxRank bounds the dimensions of a value, which may be empty messages.
const maxRank = 64

func (v *ValueInfo) dim(f field) error {
	if f.number != 1 {
		return nil
	}
	if len(v.Dims) == maxRank {
		return f.errorf("value %q has more than %d dimensions", v.Name, maxRank)
	}
	var d Dim
	err := f.sub(func(f field) error {
		switch f.number {
		case 1:
			d.HasValue = true
			return f.int(&d.Value)
		case 2:
			return f.text(&d.Param)
		}
		return nil
	})
	v.Dims = append(v.Dims, d)
	return err
}

// String names the type as ONNX does.
func (t DataType) String() string {
	names := [...]string{"undefined", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string",
		"bool", "float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"}
	if t >= 0 && int(t) < len(names) {
		return names[t]
	}
	return fmt.Sprintf("type %d", int64(t))
}
