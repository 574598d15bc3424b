package deps

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
)

var later = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

// Comments returns an error for each package without exactly one package comment, each exported
// name without a doc comment, and each comment that postpones work.
func Comments(files []File) []error {
	var errs []error
	packages := map[string]int{}
	for _, f := range files {
		if f.AST == nil || f.Generated {
			continue
		}
		for _, g := range f.AST.Comments {
			if m := later.FindString(g.Text()); m != "" && f.Dir != "internal/deps" {
				errs = append(errs, fmt.Errorf("%s: %s: do it or remove the comment", f.place(g), m))
			}
		}
	}
	for _, f := range production(files) {
		name := f.AST.Name.Name
		packages[f.Dir] += 0
		if f.AST.Doc != nil {
			packages[f.Dir]++
			if t := f.AST.Doc.Text(); name != "main" && !strings.HasPrefix(t, "Package "+name+" ") {
				errs = append(errs, fmt.Errorf("%s: a package comment must begin with Package %s", f.Path, name))
			}
		}
		if name == "main" {
			continue
		}
		for _, d := range f.AST.Decls {
			errs = append(errs, f.undocumented(d)...)
		}
	}
	for dir, n := range packages {
		if n != 1 {
			errs = append(errs, fmt.Errorf("package %s has %d package comments, want 1", dir, n))
		}
	}
	return errs
}

// undocumented returns an error for each exported name of a declaration that has no doc comment.
func (f File) undocumented(d ast.Decl) []error {
	var errs []error
	need := func(n *ast.Ident, docs ...*ast.CommentGroup) {
		for _, d := range docs {
			if d != nil {
				return
			}
		}
		if n.IsExported() {
			errs = append(errs, fmt.Errorf("%s: exported %s has no doc comment", f.place(n), n.Name))
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || exported(d) && !wellKnown[d.Name.Name] {
			need(d.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				need(s.Name, s.Doc, d.Doc)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					need(n, s.Doc, s.Comment, d.Doc)
				}
			}
		}
	}
	return errs
}

// wellKnown are methods that the standard library defines.
var wellKnown = map[string]bool{"Error": true, "String": true, "Len": true, "Less": true, "Swap": true}

// exported reports whether a method belongs to an exported type.
func exported(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
