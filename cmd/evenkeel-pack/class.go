package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// mostClassBytes is the most bytes of a file with the names of classes: more than a pack keeps.
const mostClassBytes = 1 << 20

// listClasses reads the names of classes of -classes, for the fields with labels.
func (in *input) listClasses(f flags) error {
	in.classes = map[string][]string{}
	for _, spec := range f.classes {
		field, path, named := strings.Cut(spec, "=")
		if !named {
			field, path = "", spec
		}
		if path == "" || named && field == "" {
			return fmt.Errorf("-classes %q: want FILE or FIELD=FILE: %w", spec, errUsage)
		}
		lists, err := readClasses(path)
		if err != nil {
			return err
		}
		if list, ok := lists[""]; ok { // a file with one name in a line
			if field == "" && len(in.labels) != 1 {
				return fmt.Errorf("-classes %s: there are %d fields with labels: name one, as in y=%s: %w", spec, len(in.labels), path, errUsage)
			}
			if field == "" {
				field = in.labels[0]
			}
			lists = map[string][]string{field: list}
		}
		found := false
		for _, name := range in.labels {
			list := lists[name]
			if list == nil || field != "" && field != name {
				continue
			}
			if in.classes[name] != nil {
				return fmt.Errorf("-classes %s: field %q has a list: %w", spec, name, errUsage)
			}
			in.classes[name], found = list, true
		}
		if !found {
			return fmt.Errorf("-classes %s: no names for a field with labels, which are %q: %w", spec, in.labels, errUsage)
		}
	}
	return nil
}

// readClasses returns the names of classes of a pack, by field; or those of a text with one name a
// line, for the field "".
func readClasses(path string) (map[string][]string, error) {
	is, err := isPack(path)
	if err != nil {
		return nil, err
	}
	if is {
		info, err := pack.Stat(path)
		return info.Classes, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostClassBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostClassBytes {
		return nil, &dataloader.FormatError{File: path, What: "names of classes", Want: fmt.Sprintf("at most %d bytes", mostClassBytes), Got: "more"}
	}
	var list []string
	at := int64(0)
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if name == "" {
			return nil, &dataloader.FormatError{File: path, Offset: at, What: fmt.Sprintf("line %d", len(list)+1), Want: "the name of a class", Got: "an empty line"}
		}
		list, at = append(list, name), at+int64(len(line))
	}
	if list == nil {
		return nil, &dataloader.FormatError{File: path, What: "names of classes", Want: "one in each line", Got: "nothing"}
	}
	return map[string][]string{"": list}, nil
}

// isPack reports whether the file at path is a pack, or begins like one. A file that is not regular is
// an error.
func isPack(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: want a regular file: %w", path, errUsage)
	}
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	start := make([]byte, len(pack.Magic))
	n, err := io.ReadFull(file, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return false, err
	}
	return string(start[:n]) == pack.Magic, nil
}
