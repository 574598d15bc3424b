//go:build mpi && unix && cgo

package mpi_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// training returns e with the program that trains.
func (e engine) training(t *testing.T) engine {
	t.Helper()
	if err := e.build("train."+filepath.Base(e.mpirun), "./train/main"); err != nil {
		t.Fatal(err)
	}
	return e
}

// After 50 steps, ranks of MPI have learned what one rank with all samples learns, up to the rounding of sums; with Strict, the bits of
// a local group; and the same bits in every run.
func TestRanksOfMPILearnAsOneWithAllSamples(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		e = e.training(t)
		for ranks := 1; ranks <= e.most; ranks++ {
			same := map[string]string{} // by network and order of sums: what the first rank of a run has learned
			for _, strict := range []bool{false, true, false} {
				r := e.start(t, ranks, fmt.Sprint("-strict=", strict)).wait()
				what := fmt.Sprintf("%d ranks, strict %v", ranks, strict)
				if n := strings.Count(r.out, ", right true\n"); n != 6 || r.code != 0 {
					t.Errorf("%s: %d of 6 networks are right, code %d: %s", what, n, r.code, r.out)
				}
				if n := strings.Count(r.out, "the bits of a local group: true\n"); n != 6 && (strict || ranks < 3) { // a sum of two has one order
					t.Errorf("%s: %d of 6 networks have the bits of a local group: %s", what, n, r.out)
				}
				learned := regexp.MustCompile(`(?m)^rank \d+: (.*) learned (.*)$`).FindAllStringSubmatch(r.out, -1)
				if len(learned) != 6*ranks {
					t.Errorf("%s: %d lines of 6 networks: %s", what, len(learned), r.out)
				}
				for _, m := range learned {
					key := fmt.Sprint(m[1], strict)
					if was, ok := same[key]; ok && was != m[2] {
						t.Errorf("%s: %s has learned %s, and %s in another run or on another rank", what, m[1], m[2], was)
					}
					same[key] = m[2]
				}
			}
		}
	})
}

// Ctrl-C and SIGTERM of the launcher leave the Grace for a last checkpoint of all ranks. The next job goes on with the same bits.
func TestASignalOfTheLauncherLeavesACheckpoint(t *testing.T) {
	t.Setenv("OMPI_MCA_odls_base_sigkill_timeout", "3") // seconds until SIGTERM, and from there to SIGKILL: by default 1
	engines(t, func(t *testing.T, e engine) {
		e = e.training(t)
		train := func(dir string, more ...string) *job {
			return e.start(t, 2, append([]string{"-epochs", "150", "-grace", "3s", "-checkpoint", dir}, more...)...)
		}
		whole := train(t.TempDir()).wait()
		want := regexp.MustCompile(`learned .* in 1050 steps`).FindString(whole.out)
		if want == "" || whole.code != 0 {
			t.Fatalf("code %d: %s", whole.code, whole.out)
		}
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			dir := t.TempDir()
			j := train(dir, "-pace", "10ms")
			j.until(`rank \d: ready`, 2)
			if err := j.cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			r := j.wait()
			stops := regexp.MustCompile(`rank \d: stopped after step (\d+)`).FindAllStringSubmatch(r.out, -1)
			if len(stops) != 2 || stops[0][1] != stops[1][1] || strings.Contains(r.out, "error") {
				t.Errorf("%v: %d ranks stopped: %s", signal, len(stops), r.out)
			}
			if r := train(dir).wait(); strings.Count(r.out, want) != 2 || r.code != 0 {
				t.Errorf("%v: the next job has code %d, want %q: %s", signal, r.code, want, r.out)
			}
		}
	})
}
