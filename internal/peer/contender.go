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
	module  string              // of Python that it needs; "" for this program
	command []string            // that the flags of a run follow
	only    []string            // workloads that it is for; all where empty
	more    map[string][]string // flags by workload
}

// plays reports whether c is for a workload.
func (c *contender) plays(w string) bool { return len(c.only) == 0 || slices.Contains(c.only, w) }

// foreign returns the contenders of other libraries, for scripts in dir. PyTorch has w5 on one thread, where it is faster than on two. An epoch of
// convolutions is no call of JAX: inside of a loop its CPU compiler falls back to slow ones.
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

// contenders returns this program, and those of other libraries that the Python has. It writes scripts to dir. Others are named in notes.
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

// python is what one says of itself.
type python struct {
	Has  []string // modules that were asked for
	CPUs int      // that it may use
}

// ask asks the Python for modules, and refuses one that may not use as many CPUs as there are to be threads.
func ask(ctx context.Context, f flags, modules []string) (p python, err error) {
	const question = `import importlib.util, json, os, sys
has = [m for m in sys.argv[1:] if importlib.util.find_spec(m)]
print(json.dumps({"Has": has, "CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()}))`
	out, complaints, err := start(ctx, slices.Concat(f.started(), []string{f.peer, "-c", question}, modules))
	if err == nil {
		err = json.Unmarshal(out, &p)
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("peer %q must be a Python, such as DIR/bin/python after `python3 -m venv DIR && DIR/bin/pip install jax torch`: %w%s",
			f.peer, err, behind(lastLine(complaints)))
	case slices.Contains(p.Has, "jax") && p.CPUs != f.threads:
		return p, fmt.Errorf("threads %d: JAX takes one for each of the %d CPUs that it may use: add -threads %d, or give it %d CPUs, as -via 'taskset -c 0,1' gives it two",
			f.threads, p.CPUs, p.CPUs, f.threads)
	}
	return p, nil
}

// disturbed is the share of the CPUs' time in others' hands from which a run is repeated.
const disturbed = 0.05

// run runs a workload when the machine is at rest, or patience is over. Where others disturb it runs again, up to three times in all; of those it
// returns the least disturbed.
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
	out, complaints, err := start(ctx, slices.Concat(c.command, []string{"-workload", w}, flags, c.more[w]))
	if err == nil {
		err = json.Unmarshal(out, &o)
	}
	if err != nil {
		return o, fmt.Errorf("%w%s", err, behind(lastLine(complaints)))
	}
	if !(o.TrainImages > 0 && o.EvalImages > 0) || len(o.TrainLoss) == 0 {
		return o, fmt.Errorf("%v samples/s in training, %v in evaluation, %d losses", o.TrainImages, o.EvalImages, len(o.TrainLoss))
	}
	return o, nil
}

// alike returns an error where r is not of the same training as ours.
func (r *report) alike(ours *report) error {
	if r.Workload != ours.Workload || r.Batch != ours.Batch || r.TrainN != ours.TrainN || r.Parameters != ours.Parameters {
		return fmt.Errorf("%s of %d samples in batches of %d, with %d parameters; want %s of %d in batches of %d, with %d", r.Workload, r.TrainN, r.Batch, r.Parameters,
			ours.Workload, ours.TrainN, ours.Batch, ours.Parameters)
	}
	return nil
}

// start runs a command, and returns what it wrote.
func start(ctx context.Context, command []string) (out, complaints []byte, err error) {
	var o, c bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &o, &c
	err = cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return o.Bytes(), c.Bytes(), err
}

// behind returns what follows an error: a colon and the text, if there is one.
func behind(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// lastLine returns the last line of a text that is not empty, which is where Python names an error.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
