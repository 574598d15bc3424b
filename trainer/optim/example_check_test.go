package optim_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

// declarations returns the exported types that have one of the methods, and the names of all examples.
func declarations(t *testing.T, methods ...string) (types, examples map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types, examples = map[string]bool{}, map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Example") {
				examples[fn.Name.Name] = true
			}
			if ok && fn.Recv != nil && f.Name.Name == "optim" && slices.Contains(methods, fn.Name.Name) {
				types[fmt.Sprint(fn.Recv.List[0].Type)] = true
			}
		}
	}
	return types, examples
}

// Every optimizer of All has an example: ExampleAdam for the name adam, ExampleAdam_adam8 for adam8. So has every
// type with the method of a schedule or of an option.
func TestEveryOptimizerAndScheduleHasAnExample(t *testing.T) {
	t.Parallel()
	types, examples := declarations(t, "Rate", "Validate")
	if len(types) < 10 {
		t.Fatalf("found only the types %v", types)
	}
	for name := range types {
		if !examples["Example"+name] {
			t.Errorf("%s has no example: write Example%s", name, name)
		}
	}
	for _, n := range optim.All() {
		name := reflect.TypeOf(n.Optimizer).Name()
		want := "Example" + name
		if !strings.EqualFold(name, n.Name) {
			want += "_" + n.Name
		}
		if !examples[want] {
			t.Errorf("optimizer %s has no example: write %s", n.Name, want)
		}
	}
}
