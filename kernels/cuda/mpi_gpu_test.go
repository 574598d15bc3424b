//go:build gpu && mpi && unix && cgo

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/group/mpi"
	"github.com/evenkeel/evenkeel/internal/fakecuda"
)

// mpiVariable makes the test binary a rank of mpirun's: "sum", or "die", which rank 1 does after two steps.
const mpiVariable = "EVENKEEL_NCCL_MPI"

// GPUs of processes that MPI carries sum in the step's graph; when a process is killed, the other one
// names it.
func TestGPUsOfMPIRanks(t *testing.T) {
	if what := os.Getenv(mpiVariable); what != "" {
		rankOfMPI(t, what)
		return
	}
	emulated(t)
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skipf("needs mpirun: %v", err)
	}
	for what, want := range map[string]string{"sum": "rank 0: <nil>", "die": "rank 0: rank 1: died"} {
		cmd := exec.Command(mpirun, "-n", "2", os.Args[0], "-test.run=^TestGPUsOfMPIRanks$", "-test.v")
		cmd.Env = append(os.Environ(), mpiVariable+"="+what, "FAKECUDA_DEVICES=2", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
			"OMPI_MCA_rmaps_base_oversubscribe=1")
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != (what == "sum") || time.Since(begin) > 30*time.Second {
			t.Errorf("%s: %v after %v, want %q in\n%s", what, err, time.Since(begin), want, out)
		}
	}
}

func rankOfMPI(t *testing.T, what string) {
	g, err := mpi.Open(mpi.Options{Options: group.Options{Limit: 20 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	d := opened(t, Options{Device: g.Rank()})
	p := &peer{d: d, local: g}
	if p.Comm, err = d.Join(t.Context(), g, group.Options{Limit: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if p.s, err = d.NewStream("test"); err != nil {
		t.Fatal(err)
	}
	x, err := p.bindSums(sumCalls(p.Comm))
	if err != nil {
		t.Fatal(err)
	}
	for k := range 4 {
		if k == 2 && what == "die" && g.Rank() == 1 {
			os.Exit(7)
		}
		if err = x.step(float32(p.Rank()+k), 1, 0); err != nil {
			break
		}
		p.checkStep(t, x, float32(k), []int32{0, 0})
	}
	if broken := new(group.RankError); errors.As(err, &broken) {
		t.Logf("rank %d: %v", g.Rank(), broken)
	} else {
		t.Logf("rank %d: %v", g.Rank(), err)
	}
	err = errors.Join(err, x.Close(), p.Close(), g.Close())
	if what == "sum" && (err != nil || len(fakecuda.Reports()) > 0) {
		t.Error(err, fakecuda.Reports())
	}
	if err != nil {
		os.Exit(group.ExitCode(err))
	}
}
