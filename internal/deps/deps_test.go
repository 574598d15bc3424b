package deps_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/internal/deps"
)

// checks are the rules by name.
var checks = map[string]func([]deps.File) []error{
	"imports": deps.Imports, "sizes": deps.Sizes, "names": deps.Names, "comments": deps.Comments,
}

func TestThisModuleKeepsItsRules(t *testing.T) {
	t.Parallel()
	files, err := deps.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found", len(files))
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, err := range check(files) {
				t.Error(err)
			}
		})
	}
}

func TestTheTableNamesNoPackageThatIsGone(t *testing.T) {
	files, err := deps.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range deps.Stale(files) {
		t.Error(err)
	}
	gone := slices.DeleteFunc(files, func(f deps.File) bool { return f.Dir == "arena" })
	if errs := deps.Stale(gone); len(errs) != 1 || !strings.Contains(errs[0].Error(), "package arena") {
		t.Errorf("without arena: got %v, want one error", errs)
	}
}

func TestEveryKindOfMistakeIsFound(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("\tf()\n", n) }
	for _, c := range []struct {
		name, check, path, src, want string
	}{
		{"a device in the trainer", "imports", "trainer/trainer.go", ours("trainer", "kernels/cpu"), "trainer may not import " + deps.Module + "/kernels/cpu"},
		{"upwards", "imports", "arena/arena.go", ours("arena", "kernels"), "arena may not import"},
		{"a test device in production", "imports", "kernels/cpu/cpu.go", ours("cpu", "kernels/emu"), "may not import"},
		{"Gorgonia in a loader", "imports", "dataloader/x.go", theirs("dataloader", "gorgonia.org/tensor"), "may not import gorgonia.org/tensor"},
		{"Gorgonia in the compiler", "imports", "internal/compile/compile.go", theirs("compile", "gorgonia.org/gorgonia"), "internal/compile may not import gorgonia.org/gorgonia"},
		{"Gorgonia in a pass", "imports", "internal/compile/passes/fold.go", theirs("passes", "gorgonia.org/tensor"), "passes may not import gorgonia.org/tensor"},
		{"the front end in a pass", "imports", "internal/compile/passes/fold.go", ours("passes", "internal/compile/frontend"), "passes may not import"},
		{"cu outside of its folder", "imports", "kernels/cpu/x.go", theirs("cpu", "gorgonia.org/cu"), "may not import gorgonia.org/cu"},
		{"internal in an example", "imports", "examples/mlp/main.go", ours("main", "internal/ir"), "may not import"},
		{"a module nobody agreed on", "imports", "arena/arena.go", theirs("arena", "github.com/pkg/errors"), "may not import github.com/pkg/errors"},
		{"a prefix is not the module", "imports", "kernels/cuda/x.go", theirs("cuda", "gorgonia.org/cuckoo"), "may not import"},
		{"cgo", "imports", "arena/arena.go", theirs("arena", "C"), "may not import C"},
		{"an unknown package", "imports", "misc/x.go", "package misc\n", "not in the table"},
		{"a long file", "sizes", "arena/x.go", "package arena\n" + strings.Repeat("\n", 601), "602 lines"},
		{"a long assembly file", "sizes", "kernels/cpu/x.s", strings.Repeat("\n", 601), "601 lines"},
		{"a long function", "sizes", "arena/x.go", "package arena\nfunc f() {\n" + long(60) + "}\n", "f has 62 lines"},
		{"two nouns", "names", "arena/my_file.go", "package arena\n", "one lower-case noun"},
		{"a part of no family", "names", "arena/emu_part.go", "package arena\n", "one lower-case noun"},
		{"upper case", "names", "arena/Arena.go", "package arena\n", "one lower-case noun"},
		{"another name than its directory", "names", "arena/x.go", "package block\n", "package block is in directory arena"},
		{"a package of two words", "names", "big_arena/x.go", "package big_arena\n", "package must be one lower-case noun"},
		{"no package comment", "comments", "arena/x.go", "package arena\n", "0 package comments"},
		{"a package comment that is none", "comments", "arena/x.go", "// This is it.\npackage arena\n", "begin with Package arena"},
		{"an export without comment", "comments", "arena/x.go", "// Package arena x.\npackage arena\n\nfunc F() {}\n", "arena/x.go:4: exported F"},
		{"a method without comment", "comments", "arena/x.go", "// Package arena x.\npackage arena\n\nfunc (t *T[K]) F() {}\n", "exported F"},
		{"a variable without comment", "comments", "arena/x.go", "// Package arena x.\npackage arena\n\nvar A, B int\n", "exported B"},
		{"a type without comment", "comments", "arena/x.go", "// Package arena x.\npackage arena\n\ntype T int\n", "exported T"},
		{"something put off", "comments", "arena/x_test.go", "// Package arena x.\npackage arena\n\n// TODO: later.\n", "TODO"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := run(t, c.check, c.path, c.src)
			for _, err := range errs {
				if strings.Contains(err.Error(), c.want) {
					return
				}
			}
			t.Errorf("got %v, want one with %q", errs, c.want)
		})
	}
}

func TestWhatIsAllowedIsNotReported(t *testing.T) {
	t.Parallel()
	table := "var t = [...]int{\n" + strings.Repeat("\t1,\n", 700) + "}\n"
	for _, c := range []struct{ name, check, path, src string }{
		{"the table", "imports", "kernels/cpu/cpu.go", "package cpu\nimport (\n_ \"os\"\n_ \"" + deps.Module + "/kernels\"\n_ \"golang.org/x/sys/cpu\"\n)\n"},
		{"tests import what they test with", "imports", "kernels/cpu/cpu_test.go", ours("cpu_test", "kernels/kerneltest")},
		{"main opens the device", "imports", "examples/mlp/main.go", ours("main", "kernels/cpu")},
		{"generated tables", "sizes", "kernels/cpu/zz_table.go", "// Code generated by x; DO NOT EDIT.\n\npackage cpu\n" + table},
		{"one long switch", "sizes", "arena/x.go", "package arena\nfunc f() {\nswitch {\n" + strings.Repeat("case true:\n", 80) + "}\n}\n"},
		{"suffixes", "names", "kernels/cpu/matmul_amd64_test.go", "package cpu_test\n"},
		{"what examples share", "imports", "examples/mlp/main.go", ours("main", "examples/internal/run")},
		{"a part of a family", "names", "kernels/emu/emu_part.go", "package emu\n"},
		{"example programs", "names", "examples/mlp/main.go", "package main\n"},
		{"other modules", "imports", "internal/gen/x.go", "package gen\n"},
		{"testdata", "names", "arena/testdata/Bad_Name.go", "package bad\n"},
		{"Error needs no comment", "comments", "arena/x.go", "// Package arena x.\npackage arena\n\n// T is.\ntype T int\n\nfunc (T) Error() string { return \"\" }\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if errs := run(t, c.check, c.path, c.src); len(errs) > 0 {
				t.Errorf("reported: %v", errs)
			}
		})
	}
}

func run(t *testing.T, check, path, src string) []error {
	t.Helper()
	files, err := deps.Read(fstest.MapFS{
		path:                  {Data: []byte(src)},
		"internal/gen/go.mod": {Data: []byte("module gen\n")},
		"kernels/emu/emu.go":  {Data: []byte("// Package emu is right.\npackage emu\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return checks[check](files)
}

func ours(pkg, dir string) string { return theirs(pkg, deps.Module+"/"+dir) }

func theirs(pkg, path string) string { return fmt.Sprintf("package %s\n\nimport _ %q\n", pkg, path) }
