package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The functions of math.cuh use only operations that a host rounds as a GPU does, so their errors
// can be measured on the host.
func TestFunctionsOfNumbersAreExactTo4Ulp(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles C++ for seconds: not in short mode")
	}
	compiler, err := exec.LookPath("g++")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs g++ on amd64, whose long double has 64 bits")
	}
	dir := t.TempDir()
	source, err := os.ReadFile("math.cuh")
	if err != nil {
		t.Fatal(err)
	}
	// Its own cuda.cuh is for GPUs alone.
	text := strings.Replace(string(source), `#include "cuda.cuh"`, "", 1)
	if err := os.WriteFile(filepath.Join(dir, "math.cuh"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "math")
	if out, err := exec.Command(compiler, "-std=c++17", "-O2", "-ffp-contract=off", "-I", dir, "testdata/math.cpp", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	for line := range strings.Lines(string(out)) {
		var name string
		var worst, at float64
		if n, _ := fmt.Sscanf(line, "worst %s %g %g", &name, &worst, &at); n != 3 {
			t.Error(line)
			continue
		}
		functions++
		if !(worst <= 4) {
			t.Errorf("%s is off by %g ulp at %v", name, worst, at)
		}
	}
	if functions < 40 {
		t.Errorf("%d results, want those of every function and range", functions)
	}
}
