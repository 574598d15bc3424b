package safetensors

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	suffix       = ".safetensors"
	checksumsKey = "evenkeel.checksums" // in an index, the checksums of shards by file name
)

// index is a file that says which shard has which tensor.
type index struct {
	path     string
	text     []byte
	files    map[string]string // of tensors
	at       map[string]int    // index of a tensor's name in text
	checksum checksum
	sums     map[string]string // checksums of shards by file name
}

// maxListed is the most errors of one kind that are listed.
const maxListed = 10

// openShards opens the shards of an index.
func openShards(path string) (_ *File, err error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	shards, err := x.shards()
	if err != nil {
		return nil, err
	}
	var parts []*part
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(parts))
		}
	}()
	var tensors []entry
	metadata := map[string]string{}
	var errs []error
	for _, name := range shards {
		if len(errs) == maxListed {
			errs = append(errs, errors.New("the other shards are not looked at"))
			break
		}
		full := filepath.Join(filepath.Dir(path), name)
		p, h, err := openPart(root, name, full)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				err = &FormatError{File: path, Reason: fmt.Sprintf("shard %q", shorten(name)), Err: err}
			}
			errs = append(errs, err)
			continue
		}
		for i := range h.tensors {
			h.tensors[i].part = len(parts)
		}
		parts = append(parts, p)
		tensors = append(tensors, h.tensors...)
		for k, v := range h.metadata {
			if _, ok := metadata[k]; !ok {
				metadata[k] = v
			}
		}
	}
	f := newFile(parts, tensors, metadata)
	f.index = x
	if errs == nil {
		errs = x.compare(f)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// readIndex reads and parses an index.
func readIndex(path string) (*index, error) {
	file, err := openRegular(osFolder{}, path, path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxHeaderBytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(text) > MaxHeaderBytes {
		return nil, &FormatError{File: path, Reason: fmt.Sprintf("an index of more than %d bytes", MaxHeaderBytes)}
	}
	return parseIndex(text, path)
}

// parseIndex parses the text of an index.
func parseIndex(text []byte, path string) (*index, error) {
	s := newScanner(text, path, 0)
	x := &index{path: path, text: text, at: map[string]int{}}
	s.object(func(key string, _ int) {
		switch key {
		case "weight_map":
			x.files = map[string]string{}
			s.object(func(name string, at int) {
				x.at[name] = at
				x.files[name] = s.str()
			})
		case "metadata":
			x.metadata(s)
		default:
			s.skip(1)
		}
	})
	s.end()
	if s.err == nil && x.files == nil {
		s.failAt(0, "", `it needs "weight_map"`)
	}
	return x, s.err
}

// metadata reads the metadata, of which only ours count: writers put what they like there.
func (x *index) metadata(s *scanner) {
	if s.next() != '{' {
		s.skip(1)
		return
	}
	s.object(func(key string, _ int) {
		c := s.next()
		switch {
		case key == ChecksumKey && c == '"':
			x.checksum.at = int64(s.at) + 1
			if digits := s.str(); len(digits) == digitCount && string(x.text[x.checksum.at:][:digitCount]) == digits {
				x.checksum.digits = digits
			}
		case key == checksumsKey && c == '{':
			x.sums = s.strings(nil)
		default:
			s.skip(2)
		}
	})
}

// shards returns the names of the files, sorted. All names that are not those of files in the
// folder of the index are errors.
func (x *index) shards() ([]string, error) {
	var errs []error
	names := map[string]struct{}{}
	for _, tensor := range slices.Sorted(maps.Keys(x.files)) {
		name := x.files[tensor]
		if _, known := names[name]; known {
			continue
		}
		names[name] = struct{}{}
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || !filepath.IsLocal(name) || strings.HasSuffix(name, ".json") {
			errs = append(errs, &FormatError{File: x.path, Offset: int64(x.at[tensor]), Tensor: tensor,
				Reason: fmt.Sprintf("its file is %q: it must be the name of a file in the folder of the index", shorten(name))})
		}
	}
	if len(errs) > maxListed {
		errs = append(errs[:maxListed], fmt.Errorf("and %d more", len(errs)-maxListed))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, &FormatError{File: x.path, Reason: "it names no file"}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// compare returns an error for all tensors that the index names and their shards lack, and one for
// all that shards have and the index does not name, or names in another one.
func (x *index) compare(f *File) (errs []error) {
	found := make(map[string]struct{}, len(f.tensors))
	var missing, extra []string
	for _, e := range f.tensors {
		base := filepath.Base(f.parts[e.part].path)
		if x.files[e.Name] == base {
			if _, ok := x.at[e.Name]; ok {
				found[e.Name] = struct{}{}
				continue
			}
		}
		extra = append(extra, fmt.Sprintf("%q in %s", shorten(e.Name), base))
	}
	for name, file := range x.files {
		if _, ok := found[name]; !ok {
			missing = append(missing, fmt.Sprintf("%q in %s", shorten(name), file))
		}
	}
	report := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		list := strings.Join(names[:min(len(names), maxListed)], ", ")
		if len(names) > maxListed {
			list += fmt.Sprintf(" and %d more", len(names)-maxListed)
		}
		errs = append(errs, &FormatError{File: x.path, Reason: fmt.Sprintf("%s: %s", what, list)})
	}
	report("the index names tensors that the files do not have", missing)
	report("the files have tensors that the index does not name there", extra)
	return errs
}

// verify compares the checksum of the index, and those of the shards that it lists with those that
// the shards have.
func (x *index) verify(parts []*part) error {
	if x.checksum.at == 0 {
		return fmt.Errorf("%s: %w", x.path, ErrNoChecksum)
	}
	text := slices.Clone(x.text)
	copy(text[x.checksum.at:], noDigits[:min(digitCount, len(x.checksum.digits))])
	var s sums
	s.add(text)
	if got := s.digits(); got != x.checksum.digits {
		return &FormatError{File: x.path, Offset: x.checksum.at,
			Reason: fmt.Sprintf("the index says %q, its bytes have %s", x.checksum.digits, got), Err: ErrChecksum}
	}
	for _, p := range parts {
		base := filepath.Base(p.path)
		if want := x.sums[base]; want == "" || want != p.checksum.digits {
			return &FormatError{File: p.path, Offset: p.checksum.at,
				Reason: fmt.Sprintf("its checksum is %q, and the index has %q", p.checksum.digits, want), Err: ErrChecksum}
		}
	}
	return nil
}
