package ir

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

var regionNames = [Regions]string{
	"parameters", "gradients", "state", "host parameters", "host state", "host averages",
	"statistics", "averages", "prepacked", "slot", "guard", "results", "resident", "scratch",
}

// String returns p as text, for tests and debugging: a line for each home that exists before the
// first instruction, a line for each instruction, and the needed values. Attributes that are zero
// are left out. "again" marks a recomputation, "after %4" an entry of Follows.
//
//	%0 = parameters "w" float32 (5, 3)
//	%1 = slot "x" float32 (4, 3)
//	%2 = matmul %1 %0 {TransB} float32 (4, 5) @scratch:0 "layer0/xw"
//	%3 = relu %2 float32 (4, 5) alias %2 @scratch:0 "layer0/y"
//	needed %3
func (p *Program) String() string {
	var s strings.Builder
	made := make([]bool, len(p.Values))
	for i := range p.Instrs {
		for _, o := range p.Instrs[i].Out {
			made[o] = true
		}
	}
	for v, val := range p.Values {
		if val.Home && !made[v] {
			fmt.Fprintf(&s, "%%%d = %s %q %v\n", v, regionNames[val.Ref.Region], val.Name, val.Spec)
		}
	}
	for i := range p.Instrs {
		p.printInstr(&s, &p.Instrs[i])
	}
	fmt.Fprintf(&s, "needed%s\n", values(p.Needed))
	return s.String()
}

func (p *Program) printInstr(s *strings.Builder, in *Instr) {
	fmt.Fprintf(s, "%s = %s%s", strings.TrimSpace(values(in.Out)), in.Op.Name, values(in.In))
	if a := attributes(in.Attrs); a != "" {
		fmt.Fprintf(s, " {%s}", a)
	}
	for _, o := range in.Out {
		val := &p.Values[o]
		fmt.Fprintf(s, " %v", val.Spec)
		if val.Home {
			fmt.Fprintf(s, " in %s", regionNames[val.Ref.Region])
		}
		if val.Of != kernels.None {
			fmt.Fprintf(s, " alias %%%d", val.Of)
			if val.Delta != 0 {
				fmt.Fprintf(s, "+%d", val.Delta)
			}
		}
		if !val.Home && val.Ref != (arena.Ref{}) {
			fmt.Fprintf(s, " @%s:%d", regionNames[val.Ref.Region], val.Ref.Offset)
		}
	}
	for _, o := range in.Out {
		if v, ok := p.Follows[o]; ok {
			fmt.Fprintf(s, " after %%%d", v)
		}
	}
	fmt.Fprintf(s, " %q", in.Label)
	for _, mark := range []struct {
		set  bool
		name string
	}{{in.Recomputed, "again"}, {in.Backward && !in.Recomputed, "backward"}, {in.Mark != "", in.Mark}} {
		if mark.set {
			s.WriteString(" " + mark.name)
		}
	}
	s.WriteByte('\n')
}

// values returns the names of vs, each after a space.
func values(vs []kernels.Value) string {
	var s strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&s, " %%%d", v)
	}
	return s.String()
}

// attributes returns the fields of a that are not zero, by name; the steps of a chain as calls.
func attributes(a any) string {
	if c, ok := a.(*kernels.ChainAttrs); ok {
		return chain(c)
	}
	v := reflect.ValueOf(a)
	switch {
	case a == nil:
		return ""
	case v.Kind() == reflect.Pointer && v.Type() != reflect.TypeFor[*kernels.Op]():
		return fmt.Sprint(a) // attributes of a Host instruction have a String method
	case v.Kind() != reflect.Struct:
		return fmt.Sprint(a)
	}
	var parts []string
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.IsZero() || !f.CanInterface() {
			continue
		}
		switch x := f.Interface().(type) {
		case bool:
			parts = append(parts, name)
		case *kernels.Op:
			parts = append(parts, name+":"+x.Name)
		default:
			if f.Kind() == reflect.Struct {
				parts = append(parts, attributes(x))
			} else {
				parts = append(parts, fmt.Sprintf("%s:%v", name, x))
			}
		}
	}
	return strings.Join(parts, " ")
}

// chain returns the steps of a chain. Operands below the number of inputs are inputs, the others
// are results of steps.
func chain(c *kernels.ChainAttrs) string {
	var parts []string
	for _, s := range c.Steps {
		operands := ""
		switch {
		case s.A >= 0 && s.B >= 0:
			operands = fmt.Sprintf("(%d, %d)", s.A, s.B)
		case s.A >= 0:
			operands = fmt.Sprintf("(%d)", s.A)
		}
		if a := attributes(s.Attrs); a != "" {
			operands += "{" + a + "}"
		}
		parts = append(parts, s.Op.Name+operands)
	}
	if c.Reduce != nil {
		parts = append(parts, strings.TrimSpace(c.Reduce.Name+" "+attributes(c.ReduceAttrs)))
	}
	return strings.Join(parts, "; ")
}
