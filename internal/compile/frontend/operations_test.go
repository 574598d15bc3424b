package frontend

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/internal/graphtest"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/kernels"
)

// A page shows which operations of Gorgonia run as what, between these lines.
const (
	operationsPage  = "docs/from-gorgonia.md"
	operationsStart = "<!-- Written by: go test ./internal/compile/frontend -run TestTheTableOfOperations -rewrite -->\n"
	operationsEnd   = "<!-- End of the table. -->\n"
)

// withoutNodes are types with a Do that no node of a model has: the tape machine makes them.
var withoutNodes = []string{"ExternalOp", "devTrans"}

// gorgoniaOps returns the names of the types of ops in Gorgonia's source.
func gorgoniaOps(t *testing.T) (ops []string) {
	t.Helper()
	file, _ := runtime.FuncForPC(reflect.ValueOf(gorgonia.NewGraph).Pointer()).FileLine(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of Gorgonia in %s: %v", filepath.Dir(file), err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.Base(name), "cuda") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			m, ok := d.(*ast.FuncDecl)
			if !ok || m.Recv == nil || m.Name.Name != "Do" || len(m.Type.Params.List) != 1 {
				continue
			}
			if _, variadic := m.Type.Params.List[0].Type.(*ast.Ellipsis); !variadic {
				continue
			}
			receiver := m.Recv.List[0].Type
			if p, ok := receiver.(*ast.StarExpr); ok {
				receiver = p.X
			}
			if name := receiver.(*ast.Ident).Name; !slices.Contains(withoutNodes, name) {
				ops = append(ops, name)
			}
		}
	}
	slices.Sort(ops)
	return ops
}

// lowered returns whether an op of that type has a lowering, and whether it is refused.
func lowered(name string) (kernel, isRefused bool) {
	for _, key := range []string{"gorgonia." + name, "*gorgonia." + name} {
		kernel = kernel || lowerings()[key] != nil || kernels.ByGorgonia(key) != nil
		isRefused = isRefused || refused[key] != ""
	}
	return kernel, isRefused
}

// operationsTable returns the table. An op with a lowering may fall back in the recipes of fallbacks.
func operationsTable(t *testing.T) string {
	t.Helper()
	differentiable, others := fallbacks()
	partly := make(map[string]bool)
	for _, c := range append(differentiable, others...) {
		d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 3)), tensor.Float64)
		r, err := readGraph(training, c.build(d))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, i := range r.Instrs {
			if f, ok := i.Attrs.(*gorgoniaOp); ok {
				name := strings.TrimPrefix(fmt.Sprintf("%T", f.op), "*")
				if kernel, _ := lowered(strings.TrimPrefix(name, "gorgonia.")); kernel {
					partly["`"+strings.TrimPrefix(name, "gorgonia.")+"`: "+c.name] = true
				}
			}
		}
	}
	var kernel, code, host, no []string
	ours := onHost(t)
	for _, name := range gorgoniaOps(t) {
		switch has, isRefused := lowered(name); {
		case name == "letOp":
			if !refusesStatements(t) {
				t.Error("a model with gorgonia.Set is not refused: the table is wrong")
			}
			no = append(no, "`letOp` (a machine executes it)")
		case isRefused:
			no = append(no, "`"+name+"`")
		case ours[name]:
			code = append(code, "`"+name+"`")
		case has:
			kernel = append(kernel, "`"+name+"`")
		default:
			host = append(host, "`"+name+"`")
		}
	}
	host = append(host, slices.Sorted(maps.Keys(partly))...)
	text := "| operations of Gorgonia | CPU | GPU |\n|---|---|---|\n"
	for _, row := range []struct {
		ops      []string
		cpu, gpu string
	}{{kernel, "kernels", "kernels"}, {code, "Go code of ours", "Go code of ours, on the host"}, {host, "fallback", "fallback, on the host"}, {no, "refused", "refused"}} {
		text += fmt.Sprintf("| %s | %s | %s |\n", strings.Join(row.ops, ", "), row.cpu, row.gpu)
	}
	return text
}

// onHost returns the ops that are lowered to Go code of ours.
func onHost(t *testing.T) map[string]bool {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 3)), tensor.Float64)
	nodes := gorgonia.Nodes{
		d.Must(gorgonia.Sparsemax(d.In(3, 4))),
		d.Must(gorgonia.CTCLoss(d.In(5, 2, 4), d.Ints(4, 2, 2), d.Ints(4, 2), d.Ints(2, 2), gorgonia.ReductionMean)),
	}
	all := make(map[string]bool)
	for _, n := range nodes {
		r, err := readGraph(training, n)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(fmt.Sprintf("%T", n.Op()), "*gorgonia.")] = slices.ContainsFunc(r.Instrs, func(i ir.Instr) bool {
			_, ours := i.Attrs.(*hostFunc)
			return ours
		})
	}
	return all
}

// refusesStatements reports whether a node of gorgonia.Set is refused.
func refusesStatements(t *testing.T) bool {
	t.Helper()
	d := graphtest.New(rand.New(rand.NewPCG(seed.Value(), 3)), tensor.Float64)
	_, err := readGraph(training, gorgonia.Set(d.In(2), d.In(2)))
	return err != nil
}

func TestTheTableOfOperationsIsOnThePage(t *testing.T) {
	text := page.Read(t, operationsPage)
	before, rest, ok := strings.Cut(text, operationsStart)
	shown, after, end := strings.Cut(rest, operationsEnd)
	if !ok || !end {
		t.Fatalf("%s has no table between %q and %q", operationsPage, operationsStart, operationsEnd)
	}
	want := operationsTable(t)
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(filepath.Join("../../..", operationsPage), []byte(before+operationsStart+want+operationsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("%s shows\n%swant\n%s-rewrite writes it anew", operationsPage, shown, want)
	}
}
