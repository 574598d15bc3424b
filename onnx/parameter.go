package onnx

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// Which initializers are parameters, and which of them are one.

// isParameter reports whether v is an initializer that becomes a parameter as an operand of a role:
// it has floats, and dimensions. Infinite elements are those of a mask.
func (b *inference) isParameter(v *value, r role) bool {
	if v.con == nil || v.con.init == nil || len(v.shape) == 0 || v.typ != proto.Float && v.typ != proto.Double || slices.Contains(v.shape, 0) {
		return false
	}
	ini := v.con.init
	if r == data && v.shape.Elems() == 1 && unnamed.MatchString(ini.name) {
		return false
	}
	for _, pattern := range b.m.opt.Constants {
		if ok, _ := path.Match(pattern, ini.name); ok {
			return false
		}
	}
	return !b.m.contentOf(ini.tensor).infinite
}

// unnamed matches names that exporters make: of constants, and of weights that they have folded or
// transposed.
var unnamed = regexp.MustCompile(`^(val_\d+|onnx::\w+|c_lifted_tensor_\d+|.*_output_\d+|\d+)$`)

// parameter returns an initializer that is trained. An Identity of a tensor whose elements are all
// equal is a parameter of its own: exporters share such initial values. Any other one is tied, and
// so are two matrices of the same elements, which an exporter has copied or transposed.
func (b *inference) parameter(use *call, ini *initializer) kernels.Value {
	if root := ini.root; root != nil {
		if !b.m.contentOf(root.tensor).uniform {
			b.note("%q is tied to %q", ini.name, root.name)
			return b.parameter(use, root)
		}
		b.note("%q has the initial values of %q and is a parameter of its own", ini.name, root.name)
		return b.keep(parameterLeaf, ini)
	}
	c := b.m.contentOf(ini.tensor)
	n, _ := ini.tensor.Elements()
	if _, ok := b.params[nodeName(ini.name)]; ok || c.uniform || len(ini.tensor.Dims) < 2 || n < leastTied {
		return b.keep(parameterLeaf, ini)
	}
	if twin := b.twins[c.hash]; twin != nil && twin != ini && equal(twin.tensor, ini.tensor, false) {
		b.note("%q has the elements of %q and is tied to it", ini.name, twin.name)
		return b.keep(parameterLeaf, twin)
	}
	if twin := b.twins[c.transposed]; twin != nil && twin != ini && c.transposed != 0 && equal(twin.tensor, ini.tensor, true) {
		b.note("%q is %q, transposed, and is tied to it", ini.name, twin.name)
		return use.transpose(b.keep(parameterLeaf, twin), []int{1, 0})
	}
	b.twins[c.hash] = ini
	return b.keep(parameterLeaf, ini)
}

// leastTied is the number of elements from which on equal matrices are no coincidence.
const leastTied = 16

// A content is what the elements of a tensor tell about it.
type content struct {
	infinite   bool   // an element is infinite
	uniform    bool   // all elements are equal: initial values, which exporters share among tensors of other meanings
	hash       uint64 // of the type, the dimensions and the elements
	transposed uint64 // hash of the transposed matrix; 0 if it is none
}

// contentOf returns the content of a tensor of floats. It is found once.
func (m *Model) contentOf(t *proto.Tensor) content {
	if c, ok := m.contents[t]; ok {
		return c
	}
	c := content{uniform: true, hash: hashOf(t, false)}
	if len(t.Dims) == 2 {
		c.transposed = hashOf(t, true)
	}
	n, _ := t.Elements()
	for i := range int(n) {
		x := t.Float64(i)
		c.infinite = c.infinite || math.IsInf(x, 0)
		c.uniform = c.uniform && x == t.Float64(0)
	}
	m.contents[t] = c
	return c
}

// seed makes hashes of tensors.
var seed = maphash.MakeSeed()

// visit calls f for the elements of a tensor, or of the transposed matrix.
func visit(t *proto.Tensor, transposed bool, f func(x float64)) {
	if !transposed {
		n, _ := t.Elements()
		for i := range int(n) {
			f(t.Float64(i))
		}
		return
	}
	rows, columns := int(t.Dims[0]), int(t.Dims[1])
	for c := range columns {
		for r := range rows {
			f(t.Float64(r*columns + c))
		}
	}
}

// hashOf returns a hash of the type, the dimensions and the elements, or those of the transposed
// matrix.
func hashOf(t *proto.Tensor, transposed bool) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	dims := slices.Clone(t.Dims)
	if transposed {
		slices.Reverse(dims)
	}
	b := []byte{byte(t.Type)}
	for _, d := range dims {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	h.Write(b)
	visit(t, transposed, func(x float64) { h.Write(binary.LittleEndian.AppendUint64(b[:0], math.Float64bits(x))) })
	return h.Sum64()
}

// equal reports whether two tensors have the same bits, the second one transposed or not.
func equal(a, b *proto.Tensor, transposed bool) bool {
	dims := slices.Clone(b.Dims)
	if transposed {
		slices.Reverse(dims)
	}
	if a.Type != b.Type || !slices.Equal(a.Dims, dims) {
		return false
	}
	i, same := 0, true
	visit(b, transposed, func(x float64) {
		same = same && math.Float64bits(a.Float64(i)) == math.Float64bits(x)
		i++
	})
	return same
}

// statistic returns the leaf of an initializer that is a running statistic. It is tied to nothing.
func (b *inference) statistic(ini *initializer) kernels.Value {
	if root := ini.root; root != nil {
		b.note("%q has the initial values of %q and is a running statistic of its own", ini.name, root.name)
	}
	return b.keep(statisticLeaf, ini)
}

// note adds a line to the report, once.
func (b *inference) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(b.notes, s) {
		b.notes = append(b.notes, s)
	}
}

// keep returns the leaf of an initializer, one for each kind.
func (b *inference) keep(kind leafKind, ini *initializer) kernels.Value {
	name := nodeName(ini.name)
	for k := 2; ; k++ {
		at, ok := b.params[name]
		if !ok {
			break
		}
		if b.names[name].name == ini.name && b.program.leaves[at].kind == kind {
			return at
		}
		if b.names[name].name == ini.name {
			b.note("%q is a parameter and a running statistic, and is copied", ini.name)
		}
		name = fmt.Sprintf("%s %d", nodeName(ini.name), k)
	}
	v := ofTensor(ini.tensor)
	at := b.program.leaf(leaf{kind: kind, name: name, init: ini}, kernels.Spec{Type: storage(v.typ), Shape: v.shape})
	b.params[name], b.names[name] = at, ini
	return at
}

// nodeName returns the name of the node of an initializer: dots become slashes, so that the options
// of a trainer that list layers select the layers of PyTorch's modules.
func nodeName(name string) string {
	s := strings.Trim(strings.ReplaceAll(name, ".", "/"), "/")
	for strings.Contains(s, "//") {
		s = strings.ReplaceAll(s, "//", "/")
	}
	if s == "" {
		return "unnamed"
	}
	return s
}
