// Package proto reads the protobuf messages of ONNX that a model needs, without a protobuf library.
//
// [Parse] reads a model, [ParseTensor] a single tensor. Memory is bounded by the file: byte fields
// alias the bytes that were parsed, nothing is allocated by a length that was read, and a message
// that takes more memory than its bytes must have a name in them. Fields that the structs lack are
// skipped.
package proto

import "slices"

// A Model is a ModelProto.
type Model struct {
	IRVersion       int64
	Producer        string // producer_name
	ProducerVersion string
	Opsets          []Opset
	Graph           *Graph
	Metadata        []Entry
	Functions       []string // names of local functions; their bodies are not read
}

// An Opset is the version of the operators of one domain. The domain "" is that of ONNX itself.
type Opset struct {
	Domain  string
	Version int64
}

// An Entry is a StringStringEntryProto.
type Entry struct{ Key, Value string }

// A Graph is a GraphProto.
type Graph struct {
	Name         string
	Nodes        []Node
	Initializers []Tensor
	Inputs       []ValueInfo // before IR version 4 also the initializers
	Outputs      []ValueInfo
	ValueInfos   []ValueInfo // hints about inner values
	Sparse       int         // number of sparse initializers, which are not read
}

// A Node is a NodeProto: one operation.
type Node struct {
	Name       string
	Op         string // op_type
	Domain     string
	Inputs     []string // "" is an optional input that is left out
	Outputs    []string
	Attributes []Attribute
}

// Attribute returns the attribute of a name, or nil.
func (n *Node) Attribute(name string) *Attribute {
	i := slices.IndexFunc(n.Attributes, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &n.Attributes[i]
}

// An AttributeType says which field of an attribute is set.
type AttributeType int64

// The types of attributes.
const (
	AttrFloat   AttributeType = 1
	AttrInt     AttributeType = 2
	AttrString  AttributeType = 3
	AttrTensor  AttributeType = 4
	AttrGraph   AttributeType = 5
	AttrFloats  AttributeType = 6
	AttrInts    AttributeType = 7
	AttrStrings AttributeType = 8
)

// An Attribute is an AttributeProto.
type Attribute struct {
	Name    string
	Type    AttributeType // 0 in files of old writers
	F       float32
	I       int64
	S       []byte
	T       *Tensor
	Floats  []float32
	Ints    []int64
	Strings [][]byte
	Other   bool   // a graph, a sparse tensor, a type, or a list of them; not read
	Ref     string // in functions: the attribute of the caller that gives the value
}

// A DataType is the type of the elements of a tensor.
type DataType int64

// The types of elements.
const (
	Undefined DataType = 0
	Float     DataType = 1
	Uint8     DataType = 2
	Int8      DataType = 3
	Uint16    DataType = 4
	Int16     DataType = 5
	Int32     DataType = 6
	Int64     DataType = 7
	String    DataType = 8
	Bool      DataType = 9
	Float16   DataType = 10
	Double    DataType = 11
	Uint32    DataType = 12
	Uint64    DataType = 13
	BFloat16  DataType = 16
)

// Data locations of a tensor.
const (
	LocationDefault  int64 = 0
	LocationExternal int64 = 1
)

// A Tensor is a TensorProto. Its elements are in Raw, or in the list of their type, or in another
// file.
type Tensor struct {
	Name     string
	Dims     []int64
	Type     DataType
	Raw      []byte    // little endian
	Floats   []float32 // Float
	Int32s   []int64   // Int32, Int16, Int8, Uint16, Uint8, Bool, and the bits of Float16 and BFloat16
	Int64s   []int64   // Int64
	Doubles  []float64 // Double
	Uint64s  []uint64  // Uint32 and Uint64
	Strings  [][]byte  // String
	HasRaw   bool      // raw_data is present, perhaps empty
	Segment  bool      // a part of a larger tensor
	External []Entry   // "location", "offset", "length", "checksum"
	Location int64     // LocationExternal: the elements are in the file that External names
}

// A ValueInfo is a ValueInfoProto: the type of a value.
type ValueInfo struct {
	Name     string
	Type     DataType // Undefined: not a tensor
	HasShape bool
	Dims     []Dim
}

// A Dim is a dimension: a number, a name, or unknown.
type Dim struct {
	HasValue bool
	Value    int64
	Param    string
}
