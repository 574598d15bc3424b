package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// part is one part of the check. do fills a Part and returns an error if it failed, or a missing if
// it must be skipped.
type part struct {
	name  string
	limit time.Duration
	do    func(ctx context.Context, p *Part) error
}

// missing is the error of a part that cannot run: what names the missing thing.
type missing struct{ what string }

func (m missing) Error() string { return m.what }

// most is the time limit of each part.
const most = 2 * time.Minute

// parts returns all parts, the most important first.
func (c *check) parts() []part {
	tests := []string{"-test.v", "-test.short"}
	speed, steps := []string{"-test.run=^$", "-test.benchtime=20x"}, "-test.benchtime=2000x"
	promises := "/cuda"
	if c.small {
		speed, steps = []string{"-test.run=^$", "-test.short", "-test.benchtime=2x"}, "-test.benchtime=20x"
		promises = "Flat|Alloc|Slot/cuda"
	}
	bench := func(which string) []string { return append([]string{"-test.bench=" + which}, speed...) }
	all := []part{
		{"operations", most, c.tests("device.test", tests...)},
		{"kernels", most, c.benchmarks("device.test", bench("Kernel|Product|CuBLAS")...)},
		{"copies", most, c.benchmarks("device.test", bench("Upload|Overlap")...)},
		{"steps", most, c.benchmarks("device.test", append(bench("Step|Context"), steps)...)},
	}
	for _, w := range []string{"w1", "w3"} {
		all = append(all, part{"learning " + w, most, c.learning(w)})
	}
	for _, products := range []string{"float32", "tf32"} {
		for _, w := range workloads {
			all = append(all, part{w + " " + products, most, c.train(w, products)})
		}
		all = append(all, part{"w1 cublas " + products, most, c.train("w1", products, "-cublas")})
	}
	all = append(all, part{"flatness", most, c.flatness})
	for _, products := range []string{"float32", "tf32"} {
		for _, w := range workloads {
			all = append(all, part{w + " pytorch " + products, most, c.pytorch(w, products)})
		}
	}
	return append(all,
		part{"promises", most, c.tests("trainer.test", append(tests, "-test.run="+promises)...)},
		part{"graphs", most, c.tests("vm.test", append(tests, "-test.run=/cuda")...)},
		part{"nccl sums", most, c.several(c.tests("device.test", append(tests, "-test.run=TestCollectivesCompute|TestAStepSums")...))},
		part{"nccl training", most, c.several(c.tests("trainer.test", append(tests, "-test.run=OnNCCL")...))},
		part{"nccl speed", most, c.several(c.benchmarks("device.test", bench("SumOverGPUs")...))})
}

// several returns a part that needs two GPUs and NCCL: it is skipped if its output says that they are
// missing.
func (c *check) several(do func(context.Context, *Part) error) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		err := do(ctx, p)
		if log, e := os.ReadFile(filepath.Join(c.dir, p.Log)); e == nil {
			if line := needsGPUs.FindString(string(log)); line != "" && (p.Tests == nil || len(p.Tests.Failed) == 0) {
				return missing{line}
			}
		}
		return err
	}
}

// needsGPUs is what tests and benchmarks for several GPUs print where they are skipped.
var needsGPUs = regexp.MustCompile(`needs (2 GPUs|NCCL): .*`)

var workloads = []string{"w1", "w2", "w3", "w4"}

// do runs a part within its limit and the remaining time.
func (c *check) do(ctx context.Context, p part) Part {
	done := Part{Name: p.name, Status: Passed}
	began := time.Now()
	err := context.Cause(ctx)
	if err != nil {
		err = missing{"not started: " + err.Error()}
	} else {
		within, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("the time limit of %v is over", p.limit))
		defer cancel()
		if err = p.do(within, &done); err != nil && within.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(within), err)
		}
	}
	done.Seconds = math.Round(time.Since(began).Seconds()*10) / 10
	var m missing
	switch {
	case errors.As(err, &m):
		done.Status, done.Why = Skipped, err.Error()
	case err != nil:
		done.Status, done.Why = Failed, err.Error()
	}
	return done
}

// output runs a program of the folder, or an installed one, and writes its output to a log.
func (c *check) output(ctx context.Context, p *Part, where, program string, args ...string) ([]byte, error) {
	if !strings.ContainsRune(program, filepath.Separator) {
		if in := filepath.Join(c.dir, "bin", program); exists(in) {
			program = in
		}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(c.dir, where)
	cmd.WaitDelay = 5 * time.Second
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	p.Log = filepath.Join("log", strings.ReplaceAll(p.Name, " ", "-")+".txt")
	keep := errors.Join(os.MkdirAll(filepath.Join(c.dir, "log"), 0o755), os.WriteFile(filepath.Join(c.dir, p.Log), both.Bytes(), 0o644))
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(program), err, lastLine(both.String()))
	}
	return both.Bytes(), errors.Join(err, keep)
}

// exists reports whether a file exists.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// tests returns a part that runs the tests of a program.
func (c *check) tests(program string, args ...string) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		out, err := c.output(ctx, p, filepath.Join("files", program), program, args...)
		p.Tests = readTests(out)
		if err == nil && p.Tests.Passed == 0 {
			return errors.New("no test ran")
		}
		return err
	}
}

// readTests parses the output of go test -v.
func readTests(out []byte) *Tests {
	t := &Tests{Failed: []string{}, Skipped: []string{}}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "---" {
			continue
		}
		switch f[1] {
		case "PASS:":
			t.Passed++
		case "FAIL:":
			t.Failed = append(t.Failed, f[2])
		case "SKIP:":
			t.Skipped = append(t.Skipped, f[2])
		}
	}
	return t
}

// benchmarks returns a part that runs benchmarks of a program.
func (c *check) benchmarks(program string, args ...string) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		out, err := c.output(ctx, p, filepath.Join("files", program), program, args...)
		p.Figures = readFigures(out, c.report.GPU)
		if err == nil && len(p.Figures) == 0 {
			return errors.New("no benchmark ran")
		}
		return err
	}
}

// readFigures parses the output of Go's benchmarks: first lines "key: value", which it adds to
// keys, then one line for each benchmark.
func readFigures(out []byte, keys map[string]string) []Figure {
	var all []Figure
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.ContainsAny(key, " \t") {
			keys[key] = strings.TrimSpace(value)
			continue
		}
		f := strings.Fields(line)
		if len(f) < 4 || len(f)%2 != 0 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		n, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 { // the suffix is the number of processors
			name = name[:i]
		}
		x := Figure{Name: name, N: n, Metrics: map[string]float64{}}
		for i := 2; i < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				x.Metrics[f[i+1]] = v
			}
		}
		all = append(all, x)
	}
	return all
}

// peer runs a workload with this library, or with another program that has the same flags.
func (c *check) peer(ctx context.Context, p *Part, program string, args ...string) (*Run, error) {
	data, err := c.digits()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.dir, "log", strings.ReplaceAll(p.Name, " ", "-")+".json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	args = append(args, "-data", data, "-json", file)
	if c.small {
		args = append(args, "-shrink", "16", "-test-n", "200", "-train-n", "320")
	}
	if _, err := c.output(ctx, p, ".", program, args...); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// times returns the flags for the length of a training.
func (c *check) times(workload string) []string {
	switch {
	case c.small && workload == "w4":
		return []string{"-steps", "2"}
	case workload == "w4":
		return []string{"-steps", "200", "-window", "20"}
	}
	return []string{"-epochs", "3"}
}

// train returns a part that runs a workload on the GPU.
func (c *check) train(workload, products string, more ...string) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		args := append(c.times(workload), "-workload", workload, "-device", "cuda", "-products", products, "-budget", "60")
		r, err := c.peer(ctx, p, "peer", append(args, more...)...)
		switch {
		case err != nil && strings.Contains(err.Error(), "cuBLAS was not found"):
			return missing{"no cuBLAS: libcublas.so is not in LD_LIBRARY_PATH"}
		case err != nil:
			return err
		}
		p.Run, c.results[p.Name] = r, r
		if r.TrainImages <= 0 {
			return fmt.Errorf("%v images a second", r.TrainImages)
		}
		return nil
	}
}

// pytorch returns a part that runs a workload with PyTorch, if PyTorch finds a GPU.
func (c *check) pytorch(workload, products string) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		if c.small {
			return missing{"shrunk runs are not compared"}
		}
		if out, err := exec.CommandContext(ctx, "python3", "-c", "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 'torch sees no GPU')").CombinedOutput(); err != nil {
			return missing{"no PyTorch with a GPU: " + lastLine(string(out)+"\n"+err.Error())}
		}
		r, err := c.peer(ctx, p, "python3", append([]string{"pytorch.py", "-device", "cuda"}, append(c.times(workload), "-workload", workload, "-products", products)...)...)
		p.Run = r
		return err
	}
}

// alike is the largest relative difference between the losses on GPU and host after about ten
// steps. Both sum in different orders.
const alike = 1e-4

// learning returns a part that trains on the GPU and on the host with the same seed and compares
// the losses.
func (c *check) learning(workload string) func(context.Context, *Part) error {
	return func(ctx context.Context, p *Part) error {
		var losses [2]float64
		for i, device := range []string{"cpu", "cuda"} {
			r, err := c.peer(ctx, p, "peer", "-workload", workload, "-epochs", "1", "-device", device, "-train-n", "1280", "-test-n", "100")
			if err != nil {
				return err
			}
			if len(r.TrainLoss) != 1 {
				return fmt.Errorf("%d losses of one epoch on %s", len(r.TrainLoss), device)
			}
			losses[i] = r.TrainLoss[0]
		}
		apart := math.Abs(losses[1]-losses[0]) / math.Abs(losses[0])
		p.Figures = []Figure{{Name: "loss", N: 1, Metrics: map[string]float64{"cpu": losses[0], "cuda": losses[1], "apart": apart}}}
		if !(apart <= alike) {
			return fmt.Errorf("the loss is %v on the host and %v on the GPU: they differ by more than %v", losses[0], losses[1], alike)
		}
		return nil
	}
}

// flatness checks the memory of the runs before it: the bytes that are free, and in use, must be
// the same after every epoch.
func (c *check) flatness(context.Context, *Part) error {
	if len(c.results) == 0 {
		return missing{"no workload ran"}
	}
	var errs []error
	for name, r := range c.results {
		for what, bytes := range map[string][]int64{"free on the GPU": r.Free, "in use in the arena": r.InUse} {
			if len(bytes) < 2 {
				errs = append(errs, fmt.Errorf("%s: %d counts of bytes %s, need 2 or more", name, len(bytes), what))
			}
			for _, n := range bytes {
				if n != bytes[0] {
					errs = append(errs, fmt.Errorf("%s: bytes %s after each epoch: %v", name, what, bytes))
					break
				}
			}
		}
	}
	return errors.Join(errs...)
}

// digits returns the folder of MNIST's files. The first call unpacks them.
func (c *check) digits() (string, error) {
	dir := filepath.Join(c.dir, "mnist")
	packed, err := filepath.Glob(filepath.Join(dir, "*.gz"))
	if err != nil {
		return "", err
	}
	if len(packed) != 4 {
		return "", fmt.Errorf("%s holds %d of MNIST's 4 files: build the folder again", dir, len(packed))
	}
	for _, file := range packed {
		if to := strings.TrimSuffix(file, ".gz"); !exists(to) {
			if err := unpack(file, to); err != nil {
				return "", fmt.Errorf("unpack %s: %w", file, err)
			}
		}
	}
	return dir, nil
}

// unpack decompresses file to to.
func unpack(file, to string) (err error) {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	z, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	w, err := os.Create(to + ".part")
	if err != nil {
		return err
	}
	_, err = io.Copy(w, z)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.Rename(to+".part", to)
}
