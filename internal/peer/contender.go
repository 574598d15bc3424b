package main

import (
	"bytes"
	"context"
	_ "embed" // of scripts
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	//go:embed measure.py
	measure []byte
	//go:embed pytorch.py
	pytorch []byte
	//go:embed jaxnets.py
	jaxnets []byte
)

// contender is a program that trains workloads and writes a report.
type contender struct {
	name    string
	module  string              // Python module that it needs; "" for this program
	command []string            // command, before the flags of a run
	only    []string            // its workloads; empty: all
	more    map[string][]string // further flags, by workload
}

// plays reports whether c runs workload w.
func (c *contender) plays(w string) bool { return len(c.only) == 0 || slices.Contains(c.only, w) }

// foreign returns the contenders of other libraries, with scripts in dir. PyTorch runs w5 with one
// thread, where it is faster than with two. JAX does not run whole epochs of convolutions in one
// call: in a loop its CPU compiler uses slow convolutions.
func foreign(f flags, dir string) []contender {
	script := func(file string, flags ...string) []string {
		return slices.Concat(f.started(), []string{f.peer, filepath.Join(dir, file)}, flags)
	}
	single := map[string][]string{"w5": {"-threads", "1"}}
	return []contender{
		{name: "PyTorch", module: "torch", command: script("pytorch.py"), more: single},
		{name: "PyTorch, compiled", module: "torch", command: script("pytorch.py", "-compile"), more: single},
		{name: "JAX, a call a step", module: "jax", command: script("jaxnets.py")},
		{name: "JAX, a call an epoch", module: "jax", command: script("jaxnets.py", "-scan"), only: []string{"w1", "w2", "w5"}},
	}
}

// contenders returns this program and the other libraries that the Python has, and writes their
// scripts to dir. notes name the libraries that it lacks.
func contenders(ctx context.Context, f flags, dir string) (all []contender, notes []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	all = []contender{{name: "Evenkeel", command: append(f.started(), self, "-variant", f.variant)}}
	if f.peer == "" {
		return all, nil, nil
	}
	for name, text := range map[string][]byte{"measure.py": measure, "pytorch.py": pytorch, "jaxnets.py": jaxnets} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, nil, err
		}
	}
	others := foreign(f, dir)
	var modules []string
	for _, c := range others {
		if !slices.Contains(modules, c.module) {
			modules = append(modules, c.module)
		}
	}
	p, err := ask(ctx, f, modules)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range others {
		if slices.Contains(p.Has, c.module) {
			all = append(all, c)
			continue
		}
		notes = append(notes, fmt.Sprintf("%s is left out: %s has no module %s", c.name, f.peer, c.module))
	}
	return all, notes, nil
}

// python describes a Python installation.
type python struct {
	Has  []string // the modules that it has, of those in question
	CPUs int      // number of CPUs that it may use
}

// ask finds out which modules the Python has. It returns an error if JAX would use another number
// of CPUs than -threads.
func ask(ctx context.Context, f flags, modules []string) (p python, err error) {
	const question = `import importlib.util, json, os, sys
has = [m for m in sys.argv[1:] if importlib.util.find_spec(m)]
print(json.dumps({"Has": has, "CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()}))`
	out, messages, err := start(ctx, slices.Concat(f.started(), []string{f.peer, "-c", question}, modules))
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("peer %q must be a Python, such as DIR/bin/python after `python3 -m venv DIR && DIR/bin/pip install jax torch`: %w%s",
			f.peer, err, suffix(lastLine(messages)))
	case slices.Contains(p.Has, "jax") && p.CPUs != f.threads:
		return p, fmt.Errorf("threads %d: JAX uses a thread for each of its %d CPUs: add -threads %d, or limit it to %d CPUs, for example with -via 'taskset -c 0,1'",
			f.threads, p.CPUs, p.CPUs, f.threads)
	}
	return p, nil
}

// disturbed is the fraction of CPU time in other processes from which a run is repeated.
const disturbed = 0.05

// run runs a workload when the machine is idle, or patience is over. If other processes disturb the
// run, it is repeated, up to three runs in all; run returns the least disturbed one.
func (c *contender) run(ctx context.Context, w string, flags []string, patience time.Duration) (best report, err error) {
	for try := range 3 {
		if err := rest(ctx, patience); err != nil {
			return best, err
		}
		o, err := c.once(ctx, w, flags)
		if err != nil {
			return best, fmt.Errorf("%s, %s: %w", w, c.name, err)
		}
		if try == 0 || o.Others < best.Others {
			best = o
		}
		if best.Others < disturbed || patience == 0 {
			break
		}
	}
	return best, nil
}

// once runs a workload.
func (c *contender) once(ctx context.Context, w string, flags []string) (o report, err error) {
	out, messages, err := start(ctx, slices.Concat(c.command, []string{"-workload", w}, flags, c.more[w]))
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		return o, fmt.Errorf("%w%s", err, suffix(lastLine(messages)))
	}
	if !(o.TrainImages > 0 && o.EvalImages > 0) || len(o.TrainLoss) == 0 {
		return o, fmt.Errorf("%v samples/s in training, %v in evaluation, %d losses", o.TrainImages, o.EvalImages, len(o.TrainLoss))
	}
	return o, nil
}

// alike returns an error unless r and ours are the same training.
func (r *report) alike(ours *report) error {
	if r.Workload != ours.Workload || r.Batch != ours.Batch || r.TrainN != ours.TrainN || r.Parameters != ours.Parameters {
		return fmt.Errorf("%s of %d samples in batches of %d, with %d parameters; want %s of %d in batches of %d, with %d", r.Workload, r.TrainN, r.Batch, r.Parameters,
			ours.Workload, ours.TrainN, ours.Batch, ours.Parameters)
	}
	return nil
}

// start runs a command and returns its output and its messages.
func start(ctx context.Context, command []string) (out, messages []byte, err error) {
	var o, c bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &o, &c
	err = cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return o.Bytes(), c.Bytes(), err
}

// suffix returns a colon and the text, or "" for no text.
func suffix(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// lastLine returns the last line that is not empty. Python writes the error there.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
