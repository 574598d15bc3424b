package shards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// JSON returns a decoder of one number in a JSON text: path leads to it by the names of members and
// the indices of elements, separated by dots, such as "box.0". type is uint8, int32, int64, float32 or
// float64. Integers are read exactly. A member that is missing, or there twice, another value than a
// number of the type, and anything after the text is a *dataloader.FormatError.
func JSON(path string, t arena.DType) dataloader.Decoder {
	return member{path: strings.Split(path, "."), t: t}
}

// member decodes a number of a JSON text.
type member struct {
	path []string
	t    arena.DType
}

// Field implements dataloader.Decoder.
func (m member) Field(name string) dataloader.Field {
	f := dataloader.Field{Name: name, Type: m.t}
	if !number.Stored(m.t) {
		f.Type = math.MaxUint8
	}
	return f
}

// Decode implements dataloader.Decoder.
func (m member) Decode(_ dataloader.At, encoded, dst []byte) error {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	v, err := m.find(d, m.path)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("more after the value")
		}
	}
	name := strconv.Quote(strings.Join(m.path, "."))
	if err != nil {
		e := wrong("JSON member "+name, "a JSON text with one "+m.t.String()+" there", encoded).(*dataloader.FormatError)
		e.Offset, e.Err = d.InputOffset(), err
		return e
	}
	if !m.put(dst, v) {
		return wrong("JSON member "+name, "a number of type "+m.t.String(), []byte(fmt.Sprint(v)))
	}
	return nil
}

// find reads one value to its end and returns what the path leads to in it.
func (m member) find(d *json.Decoder, path []string) (json.Token, error) {
	v, err := d.Token()
	if err != nil {
		return nil, noEOF(err)
	}
	open, nested := v.(json.Delim)
	if len(path) == 0 {
		if nested {
			return nil, errors.New("an object or array instead of a number")
		}
		return v, nil
	}
	if !nested {
		return nil, fmt.Errorf("no member %q in a value", path[0])
	}
	var found json.Token
	ok := false
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return nil, noEOF(err)
			}
			name, _ = key.(string)
		}
		if name != path[0] {
			if err := skip(d); err != nil {
				return nil, err
			}
			continue
		}
		if ok {
			return nil, fmt.Errorf("member %q twice", name)
		}
		ok = true
		if found, err = m.find(d, path[1:]); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil { // the end of the object or array
		return nil, noEOF(err)
	}
	if !ok {
		return nil, fmt.Errorf("no member %q", path[0])
	}
	return found, nil
}

// skip reads one value to its end.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		v, err := d.Token()
		if err != nil {
			return noEOF(err)
		}
		switch v {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// noEOF turns io.EOF, which means a text that was cut, into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// put stores a number, if it is one of the type.
func (m member) put(dst []byte, v json.Token) bool {
	n, ok := v.(json.Number)
	return ok && number.Store(m.t, dst, []byte(n)) == ""
}
