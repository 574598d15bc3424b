package mpi

import (
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

func TestTheLauncherMustHaveStartedAsManyRanksAsMPISees(t *testing.T) {
	t.Parallel()
	type env = map[string]string
	for _, c := range []struct {
		size int
		env  env
		bad  string
	}{
		{size: 1, env: env{}},
		{size: 4, env: env{"OMPI_COMM_WORLD_SIZE": "4"}},
		{size: 4, env: env{"OMPI_COMM_WORLD_SIZE": "4", "SLURM_NTASKS": "2"}}, // mpirun in a Slurm job
		{size: 4, env: env{"PMI_SIZE": "4", "SLURM_NTASKS": "8"}},
		{size: 2, env: env{"SLURM_NTASKS": "2"}},
		{size: 1, env: env{"OMPI_COMM_WORLD_SIZE": "4"}, bad: "OMPI_COMM_WORLD_SIZE"},
		{size: 1, env: env{"PMI_SIZE": "2"}, bad: "PMI_SIZE"},
		{size: 1, env: env{"SLURM_NTASKS": "2"}, bad: "SLURM_NTASKS"},
		{size: 1, env: env{"OMPI_COMM_WORLD_SIZE": "1", "PMI_SIZE": "2"}, bad: "PMI_SIZE"},
	} {
		err := checkLauncher("MPI", c.size, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok })
		var e *LauncherError
		if c.bad == "" {
			if err != nil {
				t.Errorf("%d ranks, %v: %v", c.size, c.env, err)
			}
		} else if !errors.As(err, &e) || e.Variable != c.bad || e.Value != c.env[c.bad] || !errors.Is(err, arena.ErrOption) {
			t.Errorf("%d ranks, %v: %v, want an error about %s", c.size, c.env, err, c.bad)
		}
	}
}
