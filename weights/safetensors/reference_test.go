package safetensors_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// stricter are the files that Python's safetensors accepts and this package refuses, with the
// reason.
var stricter = map[string]string{
	"twice, same place":                         twice,
	"twice by an escape":                        twice,
	"one more member, twice":                    twice,
	`metadata {"a":"b","a":"c"}`:                twice,
	`only metadata {"a":"b","a":"c"}`:           twice,
	"a tensor as an array":                      "no writer makes it",
	"shape [9223372036854775808,0] in 0 bytes":  large,
	"shape [0,9223372036854775808] in 0 bytes":  large,
	"shape [18446744073709551615,0] in 0 bytes": large,
}

const (
	twice = "readers differ in which of two values they take"
	large = "a dimension is an int"
)

// testdata/reference.py has made the files and the verdicts of Python's safetensors on them.
func TestVerdictsAreTheReferences(t *testing.T) {
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name    string
		Head    []byte
		Zeros   int
		Tensors map[string][3]any // type, shape, bytes; nil: refused
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	accepted, refused := 0, 0
	for _, c := range cases {
		f, err := parse(append(c.Head, make([]byte, c.Zeros)...))
		if err != nil {
			var bad *safetensors.FormatError
			if !errors.As(err, &bad) || !errors.Is(err, safetensors.ErrFormat) || bad.Reason == "" || bad.Offset < 0 || bad.Offset > int64(len(c.Head)+c.Zeros) {
				t.Errorf("%s: got %v, want a *FormatError inside the file", c.Name, err)
			}
		}
		_, strict := stricter[c.Name]
		if strict && c.Tensors == nil {
			t.Errorf("%s: the reference refuses it too: remove it from the list", c.Name)
		}
		if (err == nil) != (c.Tensors != nil && !strict) {
			t.Errorf("%s: got %v, the reference accepts: %v", c.Name, err, c.Tensors != nil)
		}
		if err != nil {
			refused++
			continue
		}
		accepted++
		got := map[string][3]any{}
		for _, x := range f.Tensors() {
			shape := make([]any, len(x.Shape))
			for i, d := range x.Shape {
				shape[i] = float64(d)
			}
			got[x.Name] = [3]any{string(x.DType), shape, float64(x.Bytes())}
		}
		if c.Tensors != nil && !reflect.DeepEqual(got, c.Tensors) {
			t.Errorf("%s: got %v, the reference %v", c.Name, got, c.Tensors)
		}
	}
	if accepted < 50 || refused < 150 {
		t.Errorf("%d accepted and %d refused: the table has become too small", accepted, refused)
	}
}

// sparse is a file of zeros but for its first bytes.
type sparse []byte

func (s sparse) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	if offset < int64(len(s)) {
		copy(p, s[offset:])
	}
	return len(p), nil
}

func TestErrorsNameTheTensorTheOffsetAndTheReason(t *testing.T) {
	const a, b = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}`, `"b":{"dtype":"F32","shape":[1],"data_offsets":`
	for what, c := range map[string]struct {
		file   []byte
		size   int64 // 0: that of file
		tensor string
		offset int64
		reason string
	}{
		"short":         {make([]byte, 7), 0, "", 7, "7 bytes"},
		"a long header": {[]byte{0x01, 0xe1, 0xf5, 0x05, 0, 0, 0, 0}, 1 << 30, "", 0, "100000001 bytes, and 100000000 are the most"},
		"cut":           {[]byte{0x00, 0xe1, 0xf5, 0x05, 0, 0, 0, 0}, 100_000_007, "", 0, "100000000 bytes in a file of 100000007"},
		"overlap":       {raw("{"+a+","+b+"[2,6]}}", make([]byte, 6)...), 0, "b", 62, "overlaps"},
		"hole":          {raw("{"+a+","+b+"[5,9]}}", make([]byte, 9)...), 0, "b", 62, "a hole after 4"},
		"short data":    {raw("{"+a+","+b+"[4,8]}}", make([]byte, 7)...), 0, "b", 62, "cut"},
		"long data":     {raw("{"+a+"}", make([]byte, 7)...), 0, "", 66, "3 bytes belong to no tensor"},
		"type":          {raw(`{"a":{"dtype":"F33"`), 0, "a", 22, `unknown type "F33"`},
		"a long name":   {raw(`{"` + strings.Repeat("n", 1000) + `":1}`), 0, strings.Repeat("n", 1000), 1012, "want"},
	} {
		size := c.size
		if size == 0 {
			size = int64(len(c.file))
		}
		_, err := safetensors.NewFile(sparse(c.file), size)
		var bad *safetensors.FormatError
		if !errors.As(err, &bad) || bad.Tensor != c.tensor || bad.Offset != c.offset || !strings.Contains(bad.Reason, c.reason) || len(err.Error()) > 400 {
			t.Errorf("%s: got %v; want byte %d, tensor %q, %s", what, err, c.offset, c.tensor, c.reason)
		}
	}
}
