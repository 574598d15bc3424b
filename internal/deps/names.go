package deps

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var noun = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// suffixes of file names: build constraints, tests, and exports for tests.
var suffixes = []string{"_test", "_export", "_amd64", "_arm64", "_linux", "_darwin", "_windows", "_unix", "_go", "_purego", "_noasm", "_gpu", "_other", "_race"}

// programs are the directories of commands outside examples.
var programs = map[string]bool{
	"cmd/evenkeel-pack":     true,
	"cmd/evenkeel-runs":     true,
	"internal/gpucheck":     true,
	"internal/peer":         true,
	"internal/peer/data":    true,
	"internal/peer/gan":     true,
	"internal/peer/onnxout": true,
	"internal/peer/predict": true,
	"internal/peer/ranks":   true,
	"internal/peer/torch":   true,
	"onnx/internal/models":  true,
}

// Names returns an error for each package whose name is not that of its directory, and each file
// whose name is not one noun. A part of a family has two: matmul_plan.go belongs to matmul.go.
func Names(files []File) []error {
	var errs []error
	nouns := map[string]bool{}
	for _, f := range files {
		nouns[path.Join(f.Dir, stem(f))] = true
	}
	for _, f := range files {
		name := stem(f)
		if family, part, ok := strings.Cut(name, "_"); ok && nouns[path.Join(f.Dir, family)] {
			name = part
		}
		if !noun.MatchString(name) && !strings.HasPrefix(name, "zz_") {
			errs = append(errs, fmt.Errorf("%s: the name of a file must be one lower-case noun, for its content", f.Path))
		}
		if f.AST == nil {
			continue
		}
		dir, pkg := path.Base(f.Dir), f.AST.Name.Name
		if f.Test {
			pkg = strings.TrimSuffix(pkg, "_test")
		}
		if pkg != dir && !(pkg == "main" && (strings.HasPrefix(f.Dir, "examples/") || programs[f.Dir])) {
			errs = append(errs, fmt.Errorf("%s: package %s is in directory %s: both must have the same name", f.Path, f.AST.Name.Name, dir))
		}
		if !noun.MatchString(dir) && !(strings.HasPrefix(f.Dir, "cmd/") && programs[f.Dir]) { // a command is called as its users call it
			errs = append(errs, fmt.Errorf("%s: the name of a package must be one lower-case noun", f.Dir))
		}
	}
	return errs
}

// stem returns the name of f without its extension and suffixes.
func stem(f File) string {
	name := strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path))
	for cut := true; cut; {
		cut = false
		for _, s := range suffixes {
			if rest, ok := strings.CutSuffix(name, s); ok {
				name, cut = rest, true
			}
		}
	}
	return name
}
