// Package deps checks the source of this module against the rules of the project: imports, lengths
// of files and functions, names, and doc comments.
//
// [Read] returns the files of a tree, each a [File]. [Imports], [Stale], [Sizes], [Names] and [Comments]
// return an error for each violation of a rule. The tests run them on this module, and on small
// trees with known mistakes.
package deps

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// Module is the import path of this module.
const Module = "github.com/evenkeel/evenkeel"

// File is one source file.
type File struct {
	Path      string // path from the root, with slashes
	Dir       string // directory of its package, from the root
	Lines     int
	Test      bool // _test.go
	Generated bool
	AST       *ast.File // nil for languages other than Go
	Set       *token.FileSet
}

// Read reads the sources (Go, assembly, CUDA, C++) in fsys and parses those in Go. It skips hidden
// directories, testdata and other modules.
func Read(fsys fs.FS) ([]File, error) {
	var files []File
	set := token.NewFileSet()
	err := fs.WalkDir(fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if p != "." && skip(fsys, p) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(p) {
		case ".go", ".s", ".cu", ".cuh", ".cpp", ".hpp":
		default:
			return nil
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		f := File{Path: p, Dir: path.Dir(p), Lines: bytes.Count(src, []byte("\n")), Set: set,
			Test:      strings.HasSuffix(p, "_test.go"),
			Generated: strings.HasPrefix(path.Base(p), "zz_") || bytes.HasPrefix(src, []byte("// Code generated "))}
		if path.Ext(p) == ".go" {
			if f.AST, err = parser.ParseFile(set, p, src, parser.ParseComments); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// skip reports whether directory p is hidden, testdata or another module.
func skip(fsys fs.FS, p string) bool {
	base := path.Base(p)
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(p, "go.mod"))
	return err == nil
}

// place formats a position as file:line.
func (f File) place(n ast.Node) string {
	p := f.Set.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// production returns the Go files that are neither tests nor generated.
func production(files []File) []File {
	var out []File
	for _, f := range files {
		if f.AST != nil && !f.Test && !f.Generated {
			out = append(out, f)
		}
	}
	return out
}
