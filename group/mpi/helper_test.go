//go:build mpi && unix && cgo

package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// engine is an MPI of this machine, and the test program built for it.
type engine struct {
	mpicc   string
	mpirun  string
	program string
	open    bool // Open MPI; else MPICH
	most    int  // ranks: MPICH waits by spinning, so more ranks than processors take minutes
}

// installed finds the MPIs of this machine and builds the program for each, once.
var installed = sync.OnceValues(func() (found []engine, err error) {
	seen := map[string]bool{}
	for _, suffix := range []string{".openmpi", ".mpich", ""} {
		mpicc, err := exec.LookPath("mpicc" + suffix)
		mpirun, err2 := exec.LookPath("mpirun" + suffix)
		if err != nil || err2 != nil {
			continue
		}
		if file, err := filepath.EvalSymlinks(mpicc); err != nil || seen[file] { // without suffix it may be one of the others
			continue
		} else {
			seen[file] = true
		}
		version, _ := exec.Command(mpirun, "--version").CombinedOutput()
		e := engine{mpicc: mpicc, mpirun: mpirun, open: !bytes.Contains(version, []byte("HYDRA")), most: 2}
		if e.open {
			e.most = 4
		}
		if err := e.build("rank"+suffix, "./main"); err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil
})

// build builds the program of the package for the MPI of e, as a file of that name.
func (e *engine) build(name, from string) error {
	e.program = filepath.Join(folder, name)
	build := exec.Command("go", "build", "-tags", "mpi", "-o", e.program, from)
	build.Env = append(os.Environ(), "CC="+e.mpicc, "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", e.mpicc, err, out)
	}
	return nil
}

// folder holds the programs.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "evenkeel-mpi-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// engines runs a test with each MPI that is installed.
func engines(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	found, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skip("no MPI: install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev")
	}
	for _, e := range found {
		t.Run(filepath.Base(e.mpirun), func(t *testing.T) { test(t, e) })
	}
}

// job is a run of the program under a launcher.
type job struct {
	t     *testing.T
	e     engine
	cmd   *exec.Cmd
	stop  context.CancelFunc
	notes string
	log   string
}

// start starts ranks of the program.
func (e engine) start(t *testing.T, ranks int, args ...string) *job {
	t.Helper()
	j := &job{t: t, e: e, notes: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	line := []string{"-n", strconv.Itoa(ranks), e.program, "-notes", j.notes, "-log", j.log}
	if e.open {
		line = append([]string{"--oversubscribe"}, line...)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	j.stop = stop
	j.cmd = exec.CommandContext(ctx, e.mpirun, append(line, args...)...)
	j.cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	f, err := os.OpenFile(j.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j.cmd.Stdout, j.cmd.Stderr = f, f
	if err := j.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return j
}

// result is what a job printed and returned.
type result struct {
	out  string
	code int
}

// wait waits for the end of the job, and fails the test if it took too long, or left processes or
// notes.
func (j *job) wait() result {
	j.t.Helper()
	defer j.stop()
	err := j.cmd.Wait()
	r := result{out: j.output(), code: j.cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || r.code < 0 {
		j.t.Errorf("launcher: %v: %s", err, r.out)
	}
	left := j.processes()
	for range 50 { // a launcher may end shortly before its ranks
		if len(left) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		left = j.processes()
	}
	for _, pid := range left {
		j.t.Errorf("process %d is left: %s", pid, r.out)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = filepath.WalkDir(j.notes, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			j.t.Errorf("a note is left: %s, %v", path, err)
		}
		return nil
	})
	return r
}

// output returns what ranks and launcher have printed.
func (j *job) output() string {
	b, err := os.ReadFile(j.log)
	if err != nil {
		j.t.Error(err)
	}
	return string(b)
}

// processes returns the ranks of the job that run.
func (j *job) processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == j.e.program {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// until waits until the output has n matches.
func (j *job) until(pattern string, n int) {
	j.t.Helper()
	re := regexp.MustCompile(pattern)
	for range 3000 {
		if len(re.FindAllString(j.output(), -1)) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	j.t.Errorf("no %d times %q in: %s", n, pattern, j.output())
}

// times returns the numbers after a word in lines "rank 2: word 123.456", by rank.
func (r result) times(word string) map[int]float64 {
	found := map[int]float64{}
	for _, m := range regexp.MustCompile(`rank (\d+): `+word+` ([\d.]+)`).FindAllStringSubmatch(r.out, -1) {
		rank, _ := strconv.Atoi(m[1])
		found[rank], _ = strconv.ParseFloat(m[2], 64)
	}
	return found
}

// errorOf returns what a rank printed as its error, "" for nothing.
func (r result) errorOf(rank int) string {
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^rank %d: error (.*)$`, rank)).FindStringSubmatch(r.out)
	if m == nil {
		return ""
	}
	return m[1]
}
