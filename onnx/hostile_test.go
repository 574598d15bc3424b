package onnx_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// one is a model of one node of an operator on x [N, 4] and other operands.
func one(op string, in []string, inits []proto.Tensor, attributes ...proto.Attribute) graph {
	return graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, inits: inits, outputs: []string{"y"}, nodes: []proto.Node{node(op, in, "y", attributes...)}}
}

// image is a model of one node of an operator on x [N, 2, 5, 5] and weights [3, 2, 3, 3].
func image(op string, attributes ...proto.Attribute) graph {
	in := []string{"x", "w"}
	if strings.HasSuffix(op, "Pool") {
		in = in[:1]
	}
	return graph{inputs: []proto.ValueInfo{input("x", 0, 2, 5, 5)}, inits: []proto.Tensor{floats("w", 3, 2, 3, 3)}, outputs: []string{"y"},
		nodes: []proto.Node{node(op, in, "y", attributes...)}}
}

// chain is a model in which each node reads two times what the one before has made.
func chain(op string, n int, attributes ...proto.Attribute) graph {
	g := graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, inits: []proto.Tensor{ints("v0", 1, 2, 3)}}
	for i := range n {
		in := fmt.Sprintf("v%d", i)
		g.nodes = append(g.nodes, node(op, []string{in, in}, fmt.Sprintf("v%d", i+1), attributes...))
	}
	g.nodes = append(g.nodes, node("Shape", []string{fmt.Sprintf("v%d", n)}, "s"), node("Cast", []string{"s"}, "f", number("to", 1)), node("Add", []string{"x", "f"}, "y"))
	g.outputs = []string{"y"}
	return g
}

var hostile = map[string]struct {
	g    graph
	want error
	text string // in the error
}{
	"a cycle": {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"b"}, nodes: []proto.Node{
		node("Add", []string{"x", "b"}, "a"), node("Relu", []string{"a"}, "b")}}, onnx.ErrFormat, `node 0 "a" (Add) reads "b", which a later node makes`},
	"a value made twice": {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"a"}, nodes: []proto.Node{
		node("Relu", []string{"x"}, "a"), node("Sin", []string{"x"}, "a")}}, onnx.ErrFormat, `node 1 "a" (Sin) makes "a"`},
	"an unknown operand": {one("Add", []string{"x", "nothing"}, nil), onnx.ErrFormat, `reads "nothing", which nothing makes`},
	"an unknown output": {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"z"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}},
		onnx.ErrFormat, `output "z" is made by nothing`},
	"no outputs":            {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}}, onnx.ErrFormat, "no outputs"},
	"no inputs":             {graph{inits: []proto.Tensor{ints("v", 1)}, outputs: []string{"v"}}, kernels.ErrUnsupported, "no inputs"},
	"an initializer twice":  {one("Add", []string{"x", "w"}, []proto.Tensor{floats("w", 4), floats("w", 4)}), onnx.ErrFormat, `two initializers are called "w"`},
	"an output is known":    {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, inits: []proto.Tensor{ints("v", 1)}, outputs: []string{"v"}}, kernels.ErrUnsupported, "does not depend on the inputs"},
	"data too short":        {one("Add", []string{"x", "w"}, []proto.Tensor{{Name: "w", Type: proto.Float, Dims: []int64{4}, Raw: make([]byte, 12), HasRaw: true}}), onnx.ErrFormat, `"w"`},
	"data too long":         {one("Add", []string{"x", "w"}, []proto.Tensor{{Name: "w", Type: proto.Float, Dims: []int64{4}, Raw: make([]byte, 20), HasRaw: true}}), onnx.ErrFormat, `"w"`},
	"a negative dimension":  {one("Add", []string{"x", "w"}, []proto.Tensor{{Name: "w", Type: proto.Float, Dims: []int64{-4}, Raw: make([]byte, 16), HasRaw: true}}), onnx.ErrFormat, "dimension -4"},
	"dimensions overflow":   {one("Add", []string{"x", "w"}, []proto.Tensor{{Name: "w", Type: proto.Float, Dims: []int64{1 << 62, 1 << 62, 4}, HasRaw: true}}), onnx.ErrFormat, "more than"},
	"huge without data":     {one("Add", []string{"x", "w"}, []proto.Tensor{{Name: "w", Type: proto.Float, Dims: []int64{1 << 40}, HasRaw: true}}), onnx.ErrFormat, "0 bytes"},
	"a huge input":          {graph{inputs: []proto.ValueInfo{input("x", 0, 1<<40, 1<<20)}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, kernels.ErrShape, "2^46"},
	"a negative batch":      {graph{inputs: []proto.ValueInfo{input("x", -2, 4)}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, onnx.ErrFormat, "dimension 0 is -2"},
	"a scalar input":        {graph{inputs: []proto.ValueInfo{input("x")}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, kernels.ErrShape, "no dimension of the batch"},
	"ConstantOfShape":       {one("ConstantOfShape", []string{"s"}, []proto.Tensor{ints("s", 1<<30, 1<<30)}), kernels.ErrUnsupported, "FoldElements"},
	"Expand":                {one("Expand", []string{"x", "s"}, []proto.Tensor{ints("s", 1<<30, 1<<30, 4)}), kernels.ErrShape, "2^46"},
	"a Range":               {one("Range", []string{"a", "b", "c"}, []proto.Tensor{ints("a", 0), ints("b", math.MaxInt64), ints("c", 1)}), kernels.ErrUnsupported, "FoldElements"},
	"a Range of steps of 0": {one("Range", []string{"a", "b", "c"}, []proto.Tensor{ints("a", 0), ints("b", 1), ints("c", 0)}), kernels.ErrUnsupported, "by 0"},
	"a Pad":                 {one("Pad", []string{"x", "p"}, []proto.Tensor{ints("p", 0, 1<<30, 0, 1<<50)}), kernels.ErrAttrs, "widths"},
	"Tile":                  {one("Tile", []string{"x", "r"}, []proto.Tensor{ints("r", 1<<31-1, 1<<31-1)}), kernels.ErrShape, "2^46"},
	"Concat doubled":        {chain("Concat", 60, number("axis", 0)), kernels.ErrShape, "2^46"},
	"a subgraph":            {one("If", []string{"x"}, nil, proto.Attribute{Name: "then_branch", Other: true, Type: proto.AttrGraph}), kernels.ErrUnsupported, "If"},
	"another domain": {graph{inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"y"}, nodes: []proto.Node{{Op: "Relu", Domain: "x.y", Inputs: []string{"x"}, Outputs: []string{"y"}}}},
		kernels.ErrUnsupported, "x.y.Relu"},
	"opset 999":                 {graph{opset: 999, inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, kernels.ErrUnsupported, "opset 999: known are 7 to 28"},
	"opset 0":                   {graph{opset: -1, inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, kernels.ErrUnsupported, "opset -1"},
	"IR 999":                    {graph{ir: 999, inputs: []proto.ValueInfo{input("x", 0, 4)}, outputs: []string{"y"}, nodes: []proto.Node{node("Relu", []string{"x"}, "y")}}, onnx.ErrFormat, "IR version 999"},
	"perm twice":                {one("Transpose", []string{"x"}, nil, numbers("perm", 0, 0)), kernels.ErrAttrs, "Transpose"},
	"perm too long":             {one("Transpose", []string{"x"}, nil, numbers("perm", 0, 1, 2)), kernels.ErrAttrs, "Transpose"},
	"two -1":                    {one("Reshape", []string{"x", "s"}, []proto.Tensor{ints("s", -1, -1)}), kernels.ErrAttrs, "shape"},
	"-1 beside 0":               {one("Reshape", []string{"x", "s"}, []proto.Tensor{ints("s", -1, 0, 0)}), kernels.ErrShape, "shape"},
	"reshape overflows":         {one("Reshape", []string{"x", "s"}, []proto.Tensor{ints("s", 1<<32, 1<<32)}), kernels.ErrShape, "2^46"},
	"an index outside":          {one("Gather", []string{"x", "i"}, []proto.Tensor{ints("i", 99)}, number("axis", 1)), kernels.ErrAttrs, "index 99"},
	"an axis outside":           {one("Gather", []string{"x", "i"}, []proto.Tensor{ints("i", 0)}, number("axis", 7)), kernels.ErrAttrs, "axis 7"},
	"an axis twice":             {one("Slice", []string{"x", "a", "b", "c"}, []proto.Tensor{ints("a", 0, 0), ints("b", 1, 1), ints("c", 1, 1)}), kernels.ErrAttrs, "twice"},
	"a step of 0":               {one("Slice", []string{"x", "a", "b", "c", "d"}, []proto.Tensor{ints("a", 0), ints("b", 1), ints("c", 1), ints("d", 0)}), kernels.ErrAttrs, "step"},
	"no operands":               {one("Add", nil, nil), kernels.ErrAttrs, "operand 0"},
	"no operand":                {one("Concat", nil, nil, number("axis", 0)), kernels.ErrAttrs, "operand 0"},
	"group 0":                   {image("Conv", number("group", 0)), kernels.ErrAttrs, "group"},
	"stride 0":                  {image("Conv", numbers("strides", 0, 1)), kernels.ErrAttrs, "strides"},
	"a negative stride":         {image("Conv", numbers("strides", -1, 1)), kernels.ErrAttrs, "strides"},
	"three strides":             {image("Conv", numbers("strides", 1, 1, 1)), kernels.ErrAttrs, "strides"},
	"huge pads":                 {image("Conv", numbers("pads", 1<<30, 1<<30, 1<<30, 1<<30)), kernels.ErrAttrs, "padding"},
	"negative pads":             {image("Conv", numbers("pads", -1, 0, 0, 0)), kernels.ErrAttrs, "pads"},
	"kernel 0":                  {image("MaxPool", numbers("kernel_shape", 0, 0)), kernels.ErrAttrs, "kernel"},
	"a kernel too large":        {image("AveragePool", numbers("kernel_shape", 99, 1)), kernels.ErrShape, "kernel"},
	"no kernel":                 {image("MaxPool"), kernels.ErrAttrs, "kernel"},
	"huge dilations":            {image("Conv", numbers("dilations", 1<<31, 1<<31)), kernels.ErrAttrs, "dilations"},
	"groups that do not divide": {image("ConvTranspose", number("group", 2)), kernels.ErrShape, "group"},
	"a huge result":             {image("ConvTranspose", numbers("strides", 1<<30, 1<<30)), kernels.ErrAttrs, "result"},
	"blocks of 0":               {image("DepthToSpace", number("blocksize", 0)), kernels.ErrAttrs, "blocks"},
	"many dimensions":           {one("Unsqueeze", []string{"x", "a"}, []proto.Tensor{many("a", 100)}), kernels.ErrAttrs, "102 dimensions"},
	"split":                     {one("Split", []string{"x", "s"}, []proto.Tensor{ints("s", math.MaxInt64, math.MaxInt64)}, number("axis", 1)), kernels.ErrAttrs, "sizes"},
	"a cast to nothing":         {one("Cast", []string{"x"}, nil, number("to", 99)), kernels.ErrUnsupported, "type 99"},
}

// many is a vector of 0, 1, …
func many(name string, n int64) proto.Tensor {
	var xs []int64
	for i := range n {
		xs = append(xs, i)
	}
	return ints(name, xs...)
}

func TestHostileModelsAreErrorsThatNameTheNode(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			b := c.g.bytes(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := onnx.Parse(b, onnx.Options{})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v\nwant %q and %v", err, c.text, c.want)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 512<<20 {
				t.Errorf("%d bytes of memory for a file of %d", spent, len(b))
			}
		})
	}
}

func TestAnOutputOfAnotherShapeThanStatedIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		out  proto.ValueInfo
		good bool
	}{
		"right":          {input("y", 0, 4), true},
		"another size":   {input("y", 0, 5), false},
		"another rank":   {input("y", 0, 4, 1), false},
		"another symbol": {input("y", 0, 0), true},
	} {
		m := one("Relu", []string{"x"}, nil).model()
		m.Graph.Outputs[0] = c.out
		var b strings.Builder
		if _, err := proto.Write(&b, m); err != nil {
			t.Fatal(err)
		}
		if _, err := onnx.Parse([]byte(b.String()), onnx.Options{}); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLocalFunctionsAreRefused(t *testing.T) {
	b := one("Relu", []string{"x"}, nil).bytes(t)
	b = append(b, 25<<3&0x7f|2|0x80, 25<<3>>7, 6, 1<<3|2, 4, 'f', 'u', 'n', 'c')
	if _, err := onnx.Parse(b, onnx.Options{}); !errors.Is(err, kernels.ErrUnsupported) || !strings.Contains(err.Error(), `"func"`) {
		t.Error(err)
	}
}

// external is a model whose weights are in another file, by the entries of its tensor.
func external(t *testing.T, entries ...proto.Entry) []byte {
	w := proto.Tensor{Name: "w", Type: proto.Float, Dims: []int64{4}, Location: proto.LocationExternal, External: entries}
	return one("Add", []string{"x", "w"}, []proto.Tensor{w}).bytes(t)
}

func TestExternalDataStaysInTheFolderOfTheModel(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "model")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w.data", "sub/w.data", "../w.data"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 32), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outer, "w.data"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(location string, more ...string) []proto.Entry {
		e := []proto.Entry{{Key: "location", Value: location}}
		for i := 0; i < len(more); i += 2 {
			e = append(e, proto.Entry{Key: more[i], Value: more[i+1]})
		}
		return e
	}
	for name, c := range map[string]struct {
		entries []proto.Entry
		want    error // nil: it is read
	}{
		"a part":            {at("w.data", "offset", "8", "length", "16"), nil},
		"the end":           {at("w.data", "offset", "16"), nil},
		"./":                {at("./w.data", "length", "16"), nil},
		"the folder above":  {at("../w.data", "length", "16"), onnx.ErrFormat},
		"a folder":          {at("sub/w.data", "length", "16"), onnx.ErrFormat},
		"a backslash":       {at(`..\w.data`, "length", "16"), onnx.ErrFormat},
		"an absolute path":  {at(filepath.Join(dir, "w.data"), "length", "16"), onnx.ErrFormat},
		"a link":            {at("link", "length", "16"), os.ErrInvalid},
		"a directory":       {at("sub"), os.ErrInvalid},
		"..":                {at("..", "length", "16"), onnx.ErrFormat},
		"no name":           {at("", "length", "16"), onnx.ErrFormat},
		"missing":           {at("v.data", "length", "16"), os.ErrNotExist},
		"beyond the end":    {at("w.data", "offset", "24", "length", "16"), onnx.ErrFormat},
		"a huge offset":     {at("w.data", "offset", "9223372036854775807", "length", "16"), onnx.ErrFormat},
		"a huge length":     {at("w.data", "offset", "16", "length", "9223372036854775807"), onnx.ErrFormat},
		"beyond int64":      {at("w.data", "offset", "18446744073709551616"), onnx.ErrFormat},
		"a negative offset": {at("w.data", "offset", "-8", "length", "16"), onnx.ErrFormat},
		"no number":         {at("w.data", "offset", "x"), onnx.ErrFormat},
		"too short":         {at("w.data", "length", "12"), onnx.ErrFormat},
		"a key twice":       {at("w.data", "length", "16", "length", "16"), onnx.ErrFormat},
	} {
		file := filepath.Join(dir, "m.onnx")
		if err := os.WriteFile(file, external(t, c.entries...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := onnx.Open(file, onnx.Options{})
		if c.want == nil && err != nil || c.want != nil && (!errors.Is(err, c.want) || !strings.Contains(err.Error(), `"w"`) || !strings.Contains(err.Error(), "m.onnx")) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := onnx.Parse(external(t, at("w.data")...), onnx.Options{}); !errors.Is(err, kernels.ErrUnsupported) {
		t.Error(err)
	}
}

func TestAFileThatIsNoModelIsAnError(t *testing.T) {
	dir := t.TempDir()
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("hello, this is no model"), "cut": one("Relu", []string{"x"}, nil).bytes(t)[:20]} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := onnx.Open(file, onnx.Options{})
		var format *onnx.FormatError
		if !errors.As(err, &format) || format.File != file || !errors.Is(err, onnx.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := onnx.Open(filepath.Join(dir, "missing"), onnx.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := onnx.Open(dir, onnx.Options{}); !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
}

// Any file is a model or an error, in bounded memory, and never a panic.
func FuzzParse(f *testing.F) {
	for _, file := range fixtures(f) {
		if b, err := os.ReadFile(file); err == nil && len(b) < 12<<10 {
			f.Add(b)
		}
	}
	for _, c := range hostile {
		f.Add(c.g.bytes(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnx.Parse(b, onnx.Options{Dims: map[string]int{"": 2, "N": 3}, FoldElements: 1 << 12})
		if (m == nil) == (err == nil) {
			t.Fatal("neither a model nor an error, or both")
		}
		if m != nil {
			m.Report()
		}
	})
}
