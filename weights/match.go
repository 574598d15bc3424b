package weights

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// assignment is how one weight is computed from tensors of a source.
type assignment struct {
	target  trainer.NamedSpec
	sources []safetensors.Tensor
	// transform sets dst, the elements of the target, from those of the sources, which have its
	// type by then. nil: the one source has the elements as they are, and need not be in memory at
	// once.
	transform func(dst []byte, src [][]byte) error
}

// Report says what Load or Clone did with each name. All lists are sorted.
type Report struct {
	Loaded   []string // weights that were set
	Missing  []string // weights that the source lacks; LoadOptions.Partial left them as they were
	Excluded []string // weights that Only, Except and Rules.Scope left as they were
	LeftOver []string // tensors of the source that no weight was set from
	Dropped  []string // tensors of the source that LoadOptions.Rules drop, such as counts of steps
}

// String returns the report in a line for each list that is not empty.
func (r Report) String() string {
	var b strings.Builder
	line := func(what string, names []string) {
		if len(names) > 0 {
			fmt.Fprintf(&b, "%s %d: %s\n", what, len(names), strings.Join(names, ", "))
		}
	}
	line("loaded", r.Loaded)
	line("missing", r.Missing)
	line("excluded", r.Excluded)
	line("left over", r.LeftOver)
	line("dropped", r.Dropped)
	return b.String()
}

// matches reports whether a pattern selects a weight: it is its name, that of its layer or scope,
// with or without a final "/", or a pattern of path.Match, as in trainer.Options.Frozen.
func matches(pattern, name string) bool {
	scope := strings.TrimSuffix(pattern, "/")
	if name == pattern || scope != "" && strings.HasPrefix(name, scope+"/") {
		return true
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// selected reports whether Only and Except select a weight.
func selected(only, except []string, name string) bool {
	is := func(pattern string) bool { return matches(pattern, name) }
	return (len(only) == 0 || slices.ContainsFunc(only, is)) && !slices.ContainsFunc(except, is)
}

// checkPatterns returns an error for each pattern of Only and Except that selects nothing.
func checkPatterns(only, except []string, weights []trainer.NamedSpec) error {
	var errs []error
	check := func(what string, patterns []string) {
		for _, p := range patterns {
			if !slices.ContainsFunc(weights, func(w trainer.NamedSpec) bool { return matches(p, w.Name) }) {
				errs = append(errs, fmt.Errorf("%s %q selects no weight: name a weight, a layer or a scope, or write a pattern of path.Match: %w",
					what, p, trainer.ErrOption))
			}
		}
	}
	check("only", only)
	check("except", except)
	return errors.Join(errs...)
}

// match finds the tensors of the source for each weight. All that does not fit is in one
// *trainer.WeightsError.
func match(weights []trainer.NamedSpec, tensors []safetensors.Tensor, source string, opt *LoadOptions) ([]assignment, Report, error) {
	plan, err := opt.Rules.planLoad(weights, tensors)
	if err != nil {
		return nil, Report{}, err
	}
	var all []assignment
	var r Report
	bad := &trainer.WeightsError{Source: source}
	used := map[string]bool{}
	for i := range plan.recipes {
		c := &plan.recipes[i]
		name := c.target.Name
		switch {
		case c.outside || !selected(opt.Only, opt.Except, name):
			r.Excluded = append(r.Excluded, name)
			continue
		case len(c.bad) > 0:
			bad.Other = append(bad.Other, c.bad...)
		case len(c.parts) > 0:
			all = append(all, c.assignment())
			r.Loaded = append(r.Loaded, name)
		case opt.Partial:
			r.Missing = append(r.Missing, name)
		default:
			bad.Missing = append(bad.Missing, c.missing())
		}
		for _, t := range c.found {
			used[t] = true
		}
	}
	for _, t := range tensors {
		switch {
		case used[t.Name]:
		case plan.drops(t.Name):
			r.Dropped = append(r.Dropped, t.Name)
		default:
			r.LeftOver = append(r.LeftOver, t.Name)
		}
	}
	for _, list := range [][]string{r.Loaded, r.Missing, r.Excluded, r.LeftOver, r.Dropped, bad.Missing} {
		slices.Sort(list)
	}
	if opt.Exact {
		bad.Extra = r.LeftOver
	}
	if len(bad.Missing)+len(bad.Other)+len(bad.Extra) > 0 {
		return nil, Report{}, bad
	}
	return all, r, nil
}
