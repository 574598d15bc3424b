package deps

import (
	"fmt"
	"go/ast"
)

const (
	fileLines = 600 // the limit; 100 to 400 lines are better
	funcLines = 60
)

// tables are files that may be longer because they are tables.
var tables = map[string]bool{}

// Sizes returns an error for each file and function that is too long. Generated files and tables
// may be long, and so may functions that consist of one switch, one loop nest or one literal.
func Sizes(files []File) []error {
	var errs []error
	for _, f := range files {
		if f.Lines > fileLines && !f.Generated && !tables[f.Path] {
			errs = append(errs, fmt.Errorf("%s has %d lines, more than %d: split it by subject", f.Path, f.Lines, fileLines))
		}
	}
	for _, f := range production(files) {
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := f.lines(fn); n > funcLines && !f.single(fn) {
				errs = append(errs, fmt.Errorf("%s: %s has %d lines, more than %d", f.place(fn), fn.Name.Name, n, funcLines))
			}
		}
	}
	return errs
}

// lines returns the number of lines of a node.
func (f File) lines(n ast.Node) int {
	return f.Set.Position(n.End()).Line - f.Set.Position(n.Pos()).Line + 1
}

// single reports whether fn consists of one long statement (a switch, a loop or one with a literal)
// and at most rest other lines.
func (f File) single(fn *ast.FuncDecl) bool {
	const rest = 20
	for _, s := range fn.Body.List {
		switch s.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.ForStmt, *ast.RangeStmt, *ast.AssignStmt, *ast.ReturnStmt:
			if f.lines(fn)-f.lines(s) <= rest {
				return true
			}
		}
	}
	return false
}
