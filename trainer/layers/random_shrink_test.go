package layers_test

import (
	"slices"
	"strings"
	"testing"
)

// shrink returns a smaller graph that fails too. It tries to leave out statements, and to replace
// statements by parameters with their values or by their operands, until no try fails.
func shrink(g randomGraph, fails func(g randomGraph) bool) randomGraph {
	for smaller := true; smaller; {
		smaller = false
		for i := len(g) - 1; i >= 0; i-- {
			for _, try := range []func(randomGraph, int) randomGraph{without, asParameter, asOperand} {
				if i >= len(g) {
					break
				}
				if h := try(g, i); h != nil && fails(h) {
					g, smaller = h, true
				}
			}
		}
	}
	return g
}

// without leaves out statement i and all that read it, nil if nothing is left.
func without(g randomGraph, i int) randomGraph {
	gone := make([]bool, len(g))
	gone[i] = true
	for k, s := range g {
		gone[k] = gone[k] || slices.ContainsFunc(s.In, func(j int) bool { return gone[j] })
	}
	return g.keep(func(k int) bool { return !gone[k] })
}

// asParameter replaces statement i by a parameter with its values, and leaves out what only it read. Nil:
// it is a parameter already, or a scalar, which no parameter can be.
func asParameter(g randomGraph, i int) randomGraph {
	y := g.values(nil, exact)[i]
	if g[i].Op == leaf || len(y.shape) == 0 {
		return nil
	}
	h := slices.Clone(g)
	h[i] = statement{Op: leaf, Ints: y.shape, Floats: y.x}
	return h.used(g)
}

// asOperand replaces statement i by an operand of its shape. Nil: there is none.
func asOperand(g randomGraph, i int) randomGraph {
	all := g.values(nil, exact)
	for _, j := range g[i].In {
		if !slices.Equal(all[j].shape, all[i].shape) {
			continue
		}
		h := slices.Clone(g)
		for k := range h {
			h[k].In = slices.Clone(h[k].In)
			for n, in := range h[k].In {
				if in == i {
					h[k].In[n] = j
				}
			}
		}
		return h.keep(func(k int) bool { return k != i })
	}
	return nil
}

// used leaves out the parameters that no statement reads but was read in before, and so on.
func (g randomGraph) used(before randomGraph) randomGraph {
	roots := before.roots()
	needed := make([]bool, len(g))
	for i := len(g) - 1; i >= 0; i-- {
		needed[i] = needed[i] || slices.Contains(roots, i)
		for _, k := range g[i].In {
			needed[k] = needed[k] || needed[i]
		}
	}
	return g.keep(func(i int) bool { return needed[i] })
}

// keep returns the statements that ok selects, renumbered; nil if there are none.
func (g randomGraph) keep(ok func(i int) bool) (h randomGraph) {
	number := make([]int, len(g))
	for i, s := range g {
		if !ok(i) {
			continue
		}
		number[i] = len(h)
		s.In = slices.Clone(s.In)
		for k, in := range s.In {
			s.In[k] = number[in]
		}
		h = append(h, s)
	}
	return h
}

func TestAFailingGraphIsShrunkToTheStatementThatFails(t *testing.T) {
	r := random(t)
	found := 0
	for range 400 {
		g := growGraph(r, 30, operationNames())
		// A fault that needs an exp of a result of two dimensions that something reads.
		fails := func(g randomGraph) bool {
			all := g.values(nil, exact)
			return slices.ContainsFunc(g, func(s statement) bool {
				return slices.ContainsFunc(s.In, func(i int) bool { return g[i].Op == "exp" && len(all[i].shape) == 2 })
			})
		}
		if !fails(g) || found == 8 {
			continue
		}
		found++
		small := shrink(g, fails)
		scalars := 0 // no parameter can be one: what makes it stays
		for _, a := range small.values(nil, exact) {
			if len(a.shape) == 0 {
				scalars++
			}
		}
		if !fails(small) || len(small) > 4+scalars {
			t.Errorf("%d statements are left, want a parameter, the exp, its reader and one more operand at most, and scalars:\n%v", len(small), small)
		}
		again, err := parseGraph(small.String())
		if err != nil || again.String() != small.String() {
			t.Errorf("%v reads back as\n%v (%v)", small, again, err)
		}
		if !strings.Contains(small.String(), `net.Exp(v`) {
			t.Errorf("the text does not name the call:\n%v", small)
		}
	}
	if found == 0 {
		t.Error("no graph has such an exp")
	}
}
