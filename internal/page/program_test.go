package page

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var program = regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```$")

// A whole program on a page is one that go vet accepts.
func TestTheProgramsOnPagesBuild(t *testing.T) {
	programs := 0
	for _, name := range names(t) {
		for _, m := range program.FindAllStringSubmatch(Read(t, name), -1) {
			programs++
			file := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			vet := exec.Command("go", "vet", file)
			vet.Dir = root(t)
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
	if programs == 0 {
		t.Error("no page has a whole program")
	}
}
