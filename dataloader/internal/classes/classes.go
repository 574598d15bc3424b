// Package classes numbers the texts of a column, such as the names of classes.
package classes

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader/internal/number"
)

// Labels are the classes of a field and the label of each, its index. The zero value is that of a field
// without classes. After Set the methods may be called by many goroutines at once.
type Labels struct {
	texts []string
	of    map[string]int32 // nil before Set
}

// Set sets the classes, which were found in the data or given. problem is "" or why a field of type t
// cannot hold the labels, or why fill, a value of t, cannot stand for missing ones, nil for none: it is
// a label, or a negative number that the model ignores. Labels of found classes depend on the data, so
// that no fill is one.
func (l *Labels) Set(list []string, found bool, t arena.DType, fill *float64) (problem string) {
	n := len(list)
	switch {
	case t.Float() || t.Half():
		return fmt.Sprintf("classes are whole numbers, and its type is %v", t)
	case n > 0 && !number.Holds(t, float64(n-1)):
		return fmt.Sprintf("%v does not hold the number of %d classes", t, n)
	case fill == nil:
	case found && *fill >= 0:
		return fmt.Sprintf("fill %v: the labels of found classes depend on the data: list the Classes, or take a negative number, for layers.Ignore", *fill)
	case *fill >= float64(n):
		return fmt.Sprintf("fill %v: must be a label of the %d classes, or a negative number, for layers.Ignore", *fill, n)
	}
	of := make(map[string]int32, n)
	for i, c := range list {
		if _, twice := of[c]; twice {
			return fmt.Sprintf("class %.60q occurs twice", c)
		}
		of[c] = int32(i)
	}
	l.texts, l.of = list, of
	return ""
}

// Used reports whether Set has set classes, which may be none.
func (l *Labels) Used() bool { return l.of != nil }

// Of returns the label of a text, and whether it is a class.
func (l *Labels) Of(text []byte) (label int32, ok bool) {
	label, ok = l.of[string(text)]
	return label, ok
}

// Texts returns a copy of the classes.
func (l *Labels) Texts() []string { return slices.Clone(l.texts) }

// Len returns the number of classes.
func (l *Labels) Len() int { return len(l.texts) }

// Bounds of the texts of a column that are collected.
const (
	Most      = 1 << 16  // texts
	MostBytes = 16 << 20 // of all texts
)

// Found collects the texts of a column. The zero value has none; its methods may be called by many
// goroutines at once.
type Found struct {
	mu    sync.RWMutex
	texts map[string]bool
	bytes int
}

// Add adds a text. Beyond the bounds it returns what was wanted, else "".
func (f *Found) Add(text []byte) (want string) {
	f.mu.RLock()
	known := f.texts[string(text)]
	f.mu.RUnlock()
	if known {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.texts[string(text)] {
		return ""
	}
	if len(f.texts) == Most || f.bytes > MostBytes-len(text) {
		return fmt.Sprintf("at most %d different texts of %d bytes in all", Most, MostBytes)
	}
	if f.texts == nil {
		f.texts = map[string]bool{}
	}
	f.texts[string(text)] = true
	f.bytes += len(text)
	return ""
}

// Sorted returns the texts, sorted by bytes; not nil.
func (f *Found) Sorted() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := slices.AppendSeq(make([]string, 0, len(f.texts)), maps.Keys(f.texts))
	slices.Sort(all)
	return all
}
