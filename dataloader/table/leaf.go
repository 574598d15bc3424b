package table

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
)

// Leaf is a column of a file that has values.
type Leaf struct {
	Name    string // members of structures are separated by dots
	Type    Type
	Refused string // what it holds if that cannot be read, such as "a map"; else ""
}

// Choose finds the columns among the leaves of a file. It returns the place of each, and the
// columns, which are all if none are given: a structure with the members "bytes" and "path", as
// Hugging Face stores images, is one column. A mistake is an error that joins one
// *dataloader.FieldError for each column that has one.
func Choose(all []Leaf, columns []Column) ([]int, []Column, error) {
	if len(columns) == 0 {
		columns = tops(all)
	}
	if len(columns) == 0 {
		return nil, nil, fmt.Errorf("no columns: %w", dataloader.ErrField)
	}
	var chosen []int
	var errs []error
	for k, c := range columns {
		l, problem := find(all, c.Name)
		switch {
		case problem != "":
		case all[l].Refused != "":
			problem = fmt.Sprintf("the column holds %s, which is not read: write it as lists of one length, or as columns of its own",
				all[l].Refused)
		case slices.Contains(chosen, l):
			problem = "the column is selected twice"
		}
		if problem != "" {
			errs = append(errs, &dataloader.FieldError{Index: k, Name: c.Name, Problem: problem})
		}
		chosen = append(chosen, l)
	}
	return chosen, columns, errors.Join(errs...)
}

// tops returns columns for all leaves.
func tops(all []Leaf) []Column {
	var columns []Column
	for _, l := range all {
		name := l.Name
		if at := strings.LastIndexByte(name, '.'); at >= 0 {
			parent, member := name[:at], name[at:]
			if (member == ".bytes" || member == ".path") && slices.ContainsFunc(all, named(parent+".bytes")) {
				name = parent
			}
		}
		if !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == name }) {
			columns = append(columns, Column{Name: name})
		}
	}
	return columns
}

// named returns a function that reports whether a leaf has the name.
func named(name string) func(Leaf) bool { return func(l Leaf) bool { return l.Name == name } }

// find returns the place of the leaf of a name, or what is wrong with the name.
func find(all []Leaf, name string) (int, string) {
	first := slices.IndexFunc(all, named(name))
	if first < 0 {
		first = slices.IndexFunc(all, named(name+".bytes"))
		name += ".bytes"
	}
	switch {
	case first < 0:
		var have []string
		for _, l := range all[:min(len(all), 20)] {
			have = append(have, fmt.Sprintf("%s (%v)", l.Name, l.Type))
		}
		if len(all) > 20 {
			have = append(have, fmt.Sprintf("and %d more", len(all)-20))
		}
		return 0, "the file has no such column, but " + strings.Join(have, ", ")
	case all[first].Refused == "" && slices.ContainsFunc(all[first+1:], named(name)):
		return 0, "the file has several columns of this name"
	}
	return first, ""
}

// Known returns t, a type of column number k, with the lengths of lists that c.Shape says, and
// whether all are known.
func (c Column) Known(k int, t Type) (Type, bool, error) {
	switch depth := len(t.Dims); {
	case c.Shape == nil || depth == 0:
	case elements(c.Shape) < 0:
		return t, false, &dataloader.FieldError{Index: k, Name: c.fieldName(),
			Problem: fmt.Sprintf("shape %v: each dimension must be 1 or more, and their product below 2^31", c.Shape)}
	case depth == 1 && t.Dims[0] == 0:
		t.Dims = []int{elements(c.Shape)}
	case depth == len(c.Shape) && slices.Contains(t.Dims, 0):
		t.Dims = c.Shape
	}
	return t, !slices.Contains(t.Dims, 0), nil
}
