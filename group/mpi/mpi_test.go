//go:build mpi && unix && cgo

package mpi_test

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/internal/seed"
)

// The program compares with a local group: bit for bit if strict or where the order does not matter.
func TestAllKindsComputeWhatALocalGroupDoes(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		for ranks := 1; ranks <= e.most; ranks++ {
			for _, strict := range []bool{false, true}[:min(2, ranks)] { // alone, no order differs
				r := e.start(t, ranks, fmt.Sprint("-strict=", strict)).wait()
				if n := strings.Count(r.out, ": all right"); n != ranks || r.code != 0 {
					t.Errorf("%d ranks, strict %v: %d are right, code %d: %s", ranks, strict, n, r.code, r.out)
				}
				if name := map[bool]string{true: "engine Open MPI ", false: "engine MPICH "}[e.open]; !strings.Contains(r.out, name) {
					t.Errorf("no %q in %s", name, r.out)
				}
			}
		}
	})
}

// failure is what the others printed of a rank that failed.
type failure struct {
	named   int     // ranks that named it: MPICH's launcher may kill them before
	soonest float64 // seconds until the first of them returned; +Inf: none did
}

// fails runs ranks until one fails, and compares what the others print.
func fails(t *testing.T, e engine, victim int, how, want string, more ...string) failure {
	t.Helper()
	ranks := min(3, e.most)
	args := append([]string{"-mode", "loop", "-victim", fmt.Sprint(victim), "-how", how}, more...)
	r := e.start(t, ranks, args...).wait()
	failed, ok := r.times("fails")[victim]
	if !ok || r.code == 0 {
		t.Fatalf("%s: rank %d did not fail, code %d: %s", how, victim, r.code, r.out)
	}
	ends := r.times("ends")
	f := failure{soonest: math.Inf(1)}
	for rank := range ranks {
		if rank == victim {
			continue
		}
		err, end := r.errorOf(rank), ends[rank]
		killed := err == "" && !e.open && (how == "kill" || how == "exit") // by the launcher
		switch {
		case killed:
		case !regexp.MustCompile(want).MatchString(err):
			t.Errorf("%s: rank %d returned %q, want %q: %s", how, rank, err, want, r.out)
		case how != "stop" && end-failed > 2, end-failed > 2.5:
			t.Errorf("%s: rank %d returned after %.3f s: %s", how, rank, end-failed, r.out)
		default:
			f.named++
			f.soonest = min(f.soonest, end-failed)
		}
	}
	return f
}

func TestAKilledRankIsNamedAndEndsAll(t *testing.T) {
	rng := seed.Rand(t, 1)
	engines(t, func(t *testing.T, e engine) {
		named, others := 0, 0
		for range seed.Cases(10, 100) {
			victim := rng.IntN(min(3, e.most))
			after := time.Duration(rng.IntN(100_000)) * time.Microsecond
			named += fails(t, e, victim, "kill", fmt.Sprintf("rank %d: died", victim),
				"-after", after.String(), "-n", fmt.Sprint(1<<rng.IntN(20))).named
			others += min(3, e.most) - 1
		}
		t.Logf("%d of %d ranks named the killed one; the launcher ended the rest before", named, others)
	})
}

func TestARankThatEndsWithoutCloseIsNamed(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		fails(t, e, 1, "exit", "rank 1: died", "-after", "50ms")
	})
}

// Ranks with notes in folders of their own do not see each other, as if each was on its own host.
func TestRanksThatDoNotSeeEachOtherEndByTheLauncherOrTheLimit(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		r := e.start(t, 2, "-apart").wait()
		if r.code != 0 {
			t.Errorf("code %d: %s", r.code, r.out)
		}
		fails(t, e, 1, "kill", "group: ended by SIGTERM in sum", "-apart", "-after", "50ms")
		fails(t, e, 1, "stop", "group: is stuck in sum", "-apart", "-after", "50ms", "-limit", "1s")
	})
}

func TestAnAbortSpreadsItsCause(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		if fails(t, e, 1, "abort", "^rank 1: gave up.*: out of memory: 7 bytes$", "-after", "50ms").named == 0 {
			t.Error("no rank learnt the cause")
		}
	})
}

func TestAStoppedRankIsNamedAfterTheLimit(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		for _, n := range []string{"1000", "8000000"} { // the large sum has begun, and progresses nowhere
			if fails(t, e, 1, "stop", "rank 1: is stuck in sum", "-after", "50ms", "-limit", "1s", "-n", n).named == 0 {
				t.Error("no rank named the stopped one")
			}
		}
	})
}

func TestDifferentOperationsAreNamedByAllRanks(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		ranks := min(3, e.most)
		r := e.start(t, ranks, "-mode", "mismatch").wait()
		want := fmt.Sprintf(`rank %d: started another operation in sum float32[100] "usual": it started broadcast uint8[100] from rank 0 "odd"`, ranks-1)
		for rank := range ranks {
			if err := r.errorOf(rank); err != want {
				t.Errorf("rank %d: %q, want %q", rank, err, want)
			}
		}
		if r.code != group.ExitMismatch {
			t.Errorf("code %d, want %d", r.code, group.ExitMismatch)
		}
	})
}

func TestABusyRankIsWaitedForAndOneThatClosesEarlyIsNamed(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		ranks := min(3, e.most)
		r := e.start(t, ranks, "-mode", "early", "-limit", "400ms").wait()
		if n := strings.Count(r.out, "rounds done"); n != ranks {
			t.Errorf("%d of %d ranks waited for the busy one: %s", n, ranks, r.out)
		}
		if want := fmt.Sprintf("error rank %d: started another operation in barrier \"round\": it started barrier \"close\"", ranks-1); !strings.Contains(r.out, want) {
			t.Errorf("no rank named the one that closed: %s", r.out)
		}
	})
}

func TestTheLauncherOfAnotherMPIIsRefused(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		found, _ := installed()
		for _, other := range found {
			if other.open == e.open {
				continue
			}
			other.program = e.program
			r := other.start(t, 2).wait()
			if strings.Contains(r.out, "unsupported PMI version") && r.code != 0 {
				return // MPICH 5 refuses by itself
			}
			if n := strings.Count(r.out, "sees 1 ranks, but the launcher set "); n != 2 || r.code != group.ExitOwn {
				t.Errorf("%d of 2 ranks refused, code %d: %s", n, r.code, r.out)
			}
			return
		}
		t.Skip("needs Open MPI and MPICH")
	})
}

func TestSIGTERMEndsAllRanks(t *testing.T) {
	engines(t, func(t *testing.T, e engine) {
		ranks := min(3, e.most)
		j := e.start(t, ranks, "-mode", "loop")
		j.until(`rank \d: ready`, ranks)
		start := time.Now()
		if err := j.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		r := j.wait()
		if d := time.Since(start); d > 3*time.Second || e.open && r.code == 0 { // MPICH's launcher may return 0
			t.Errorf("ended %v after the signal, code %d", d, r.code)
		}
		if !strings.Contains(r.out, "error group: ended by SIGTERM") {
			t.Errorf("no rank returned the signal: %s", r.out)
		}
		fails(t, e, 1, "term", "ended by SIGTERM", "-after", "50ms")
	})
}

// With Grace, SIGTERM of a rank breaks the group after that time, also if it is repeated; the end of a rank breaks it at once.
func TestGraceEndsWithItsTime(t *testing.T) {
	var bad *group.OpError
	if _, err := mpi.Open(mpi.Options{Grace: -time.Second}); !errors.As(err, &bad) || !strings.Contains(err.Error(), "Grace is -1s") {
		t.Errorf("a negative grace: %v", err)
	}
	engines(t, func(t *testing.T, e engine) {
		for _, c := range []struct {
			how, grace, want string
			least            float64 // seconds from the first signal until the others return; less 0.01 for rounding
		}{{"term", "400ms", "ended by SIGTERM", 0.39}, {"terms", "400ms", "ended by SIGTERM", 0.39}, {"kill", "1m", "rank 1: died", 0}} {
			if d := fails(t, e, 1, c.how, c.want, "-after", "50ms", "-grace", c.grace).soonest; d < c.least {
				t.Errorf("%s, grace %s: a rank returned after %.3f s, want %v", c.how, c.grace, d, c.least)
			}
		}
	})
}
