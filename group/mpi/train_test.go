//go:build mpi && unix && cgo

package mpi_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// After 50 steps, ranks of MPI have learned what one rank with all samples learns, up to the rounding of sums; with Strict, the bits of
// a local group; and the same bits in every run.
func TestRanksOfMPILearnAsOneWithAllSamples(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		if err := e.build("train."+filepath.Base(e.mpirun), "./train/main"); err != nil {
			t.Fatal(err)
		}
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
