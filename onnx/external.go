package onnx

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// readFile reads a regular file of a folder. A link is refused: what it leads to may be outside.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: %w", name, fs.ErrInvalid)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// loadExternal points tensors whose elements are in other files to the bytes of these. A file is
// read once. Names are those of files in the folder of the model: no folders, no links.
func (m *Model) loadExternal(root *os.Root) error {
	files := make(map[string][]byte)
	load := func(t *proto.Tensor) error {
		if t == nil || t.Location == proto.LocationDefault && len(t.External) == 0 {
			return nil
		}
		return m.external(root, files, t)
	}
	for i := range m.graph.Initializers {
		if err := load(&m.graph.Initializers[i]); err != nil {
			return err
		}
	}
	for i := range m.graph.Nodes {
		for k := range m.graph.Nodes[i].Attributes {
			if err := load(m.graph.Nodes[i].Attributes[k].T); err != nil {
				return err
			}
		}
	}
	return nil
}

// external reads the elements of one tensor.
func (m *Model) external(root *os.Root, files map[string][]byte, t *proto.Tensor) error {
	bad := func(format string, args ...any) error {
		return m.broken("tensor %q: external data: %s", t.Name, fmt.Sprintf(format, args...))
	}
	if root == nil {
		return fmt.Errorf("tensor %q is in another file: use Open: %w", t.Name, kernels.ErrUnsupported)
	}
	entries := make(map[string]string)
	for _, e := range t.External {
		if _, ok := entries[e.Key]; ok {
			return bad("%q is given twice", e.Key)
		}
		entries[e.Key] = e.Value
	}
	name := strings.TrimPrefix(entries["location"], "./")
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\:`) || strings.ContainsRune(name, 0) {
		return bad("location %q must be the name of a file next to the model", entries["location"])
	}
	number := func(key string, otherwise int64) (int64, error) {
		s, ok := entries[key]
		if !ok {
			return otherwise, nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return 0, bad("%s %q must be a number of bytes", key, s)
		}
		return n, nil
	}
	b, ok := files[name]
	if !ok {
		var err error
		if b, err = readFile(root, name); err != nil {
			return m.errorf("tensor %q: external data: %w", t.Name, err)
		}
		files[name] = b
	}
	size := int64(len(b))
	offset, err := number("offset", 0)
	if err != nil {
		return err
	}
	length, err := number("length", max(0, size-offset))
	if err != nil {
		return err
	}
	if length > size-offset { // also where offset > size
		return bad("%d bytes from %d on, and %s has %d", length, offset, name, size)
	}
	t.Raw, t.HasRaw, t.Location, t.External = b[offset:offset+length:offset+length], true, proto.LocationDefault, nil
	return nil
}
