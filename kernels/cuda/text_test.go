package cuda

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/kernels"
)

func TestEveryOperationHasAKernel(t *testing.T) {
	for _, op := range kernels.All() {
		if _, ok := lookup(op); ok == op.Optional { // no call is prepacked
			t.Errorf("%s, optional %v: has one: %v", op.Name, op.Optional, ok)
		}
		if _, ok := elementRules[op]; ok != (op.Elem != nil) {
			t.Errorf("%s is elementwise: %v, has a rule for elements: %v", op.Name, op.Elem != nil, ok)
		}
	}
}

// TestTextsWrittenForCallsDeclareWhatTheyUse binds random calls of every operation and looks at the
// modules written for them.
func TestTextsWrittenForCallsDeclareWhatTheyUse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := map[string]string{}
	for _, op := range kernels.All() {
		if op.Optional {
			continue
		}
		for i := range 20 {
			c := op.Cases(r, []arena.DType{arena.Float32, arena.Float64}[i%2])
			call, size := callOf(t, gpu(4), op, c.Attrs, c.In)
			steps, err := bindAt(gpu(4), []kernels.Call{call}, 1<<20, size, []int64{0})
			if err != nil {
				t.Fatalf("%s on %v: %v", op.Name, c.In, err)
			}
			for _, s := range steps {
				text := s.module.text
				if text == "" {
					continue
				}
				texts[text] = op.Name
				if n := entries(text)[s.function]; n != len(s.args) {
					t.Errorf("%s on %v: %d arguments for %d parameters of %s", op.Name, c.In, len(s.args), n, s.function)
				}
				if a := anyOrder.FindString(text); a != "" {
					t.Errorf("%s on %v: %q in\n%s", op.Name, c.In, a, text)
				}
				if err := declared(text); err != nil {
					t.Errorf("%s on %v: %v in\n%s", op.Name, c.In, err, text)
				}
			}
		}
	}
	if dir := os.Getenv("EVENKEEL_PTX_TEXTS"); dir != "" {
		keep(t, dir, texts)
	}
}

// No kernel works on memory that others change at the same time: results would depend on who came first.
func TestShippedKernelsHaveNoAtomics(t *testing.T) {
	files, err := filepath.Glob("zz_*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no modules", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if a := anyOrder.Find(text); a != nil {
			t.Errorf("%s: %q", f, a)
		}
	}
}

var (
	anyOrder    = regexp.MustCompile(`(?m)^.*\s(atom|red)\..*$`)
	declaration = regexp.MustCompile(`\.reg \.\w+\s+%(\w+)<(\d+)>`)
	use         = regexp.MustCompile(`%((?:c\d+_)?[a-z]+)(\d+)\b`)
)

// declared returns an error where a text uses a register that it does not declare.
func declared(text string) error {
	count := map[string]int{}
	for _, m := range declaration.FindAllStringSubmatch(text, -1) {
		n := 0
		if _, err := fmt.Sscan(m[2], &n); err != nil {
			return err
		}
		count[m[1]] = n
	}
	for _, m := range use.FindAllStringSubmatch(text, -1) {
		n := 0
		if _, err := fmt.Sscan(m[2], &n); err != nil {
			return err
		}
		if n >= count[m[1]] {
			return fmt.Errorf("%s is not declared", m[0])
		}
	}
	return nil
}

// keep writes some of the texts to dir, for scripts/ptx-check: of each operation the two that are
// longest, the rest is alike.
func keep(t *testing.T, dir string, texts map[string]string) {
	byOp := map[string][]string{}
	for text, op := range texts {
		byOp[op] = append(byOp[op], text)
	}
	for op, all := range byOp {
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		for i, text := range all[:min(2, len(all))] {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s_%d.ptx", op, i)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDimensionsThatGoOnEvenlyAreJoined(t *testing.T) {
	for name, c := range map[string]struct {
		dims     kernels.Shape
		operands []operand
		want     string
	}{
		"contiguous":    {kernels.Shape{2, 3, 4}, []operand{{strides: []int{12, 4, 1}}}, "(24) [[1]]"},
		"rows repeated": {kernels.Shape{2, 3, 4}, []operand{{strides: []int{12, 4, 1}}, {strides: []int{0, 0, 1}}}, "(6, 4) [[4 1] [0 1]]"},
		"dimension 1":   {kernels.Shape{2, 1, 4}, []operand{{strides: []int{4, 9, 1}}}, "(8) [[1]]"},
		"transposed":    {kernels.Shape{2, 3}, []operand{{strides: []int{1, 2}}, {strides: []int{3, 1}}}, "(2, 3) [[1 2] [3 1]]"},
		"scalar":        {kernels.Shape{1, 1}, []operand{{strides: []int{1, 1}}}, "() [[]]"},
	} {
		dims, out := collapse(c.dims, c.operands)
		var strides [][]int
		for _, o := range out {
			strides = append(strides, o.strides)
		}
		if got := fmt.Sprint(dims, strides); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestPlansOfReductionsCoverTheirElementsWithinTheWorkspace(t *testing.T) {
	for _, outputs := range []int{1, 7, 33, 500, 20000, 1 << 20} {
		for _, count := range []int{0, 1, 5, 129, 4097, 1 << 22} {
			for _, last := range []bool{false, true} {
				p := newPlan(outputs, count, last)
				switch {
				case p.pieces*p.perCut < count || p.pieces > 1 && (p.pieces-1)*p.perCut >= count:
					t.Errorf("%d × %d: %d pieces of %d", outputs, count, p.pieces, p.perCut)
				case p.blocksOfOutputs*p.lanes < outputs || p.lanes*p.workers != blockThreads:
					t.Errorf("%d × %d: %+v", outputs, count, p)
				case p.pieces > 1 && int64(p.pieces*outputs)*8 > p.work():
					t.Errorf("%d × %d: %d pieces need %d bytes, have %d", outputs, count, p.pieces, p.pieces*outputs*8, p.work())
				}
			}
		}
	}
}
