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
func foreign(python, dir string) []contender {
	script := func(file string, flags ...string) []string {
		return append([]string{python, filepath.Join(dir, file)}, flags...)
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
	all = []contender{{name: "Evenkeel", command: []string{self, "-variant", f.variant}}}
	if f.peer == "" {
		return all, nil, nil
	}
	for name, text := range map[string][]byte{"measure.py": measure, "pytorch.py": pytorch, "jaxnets.py": jaxnets} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, nil, err
		}
	}
	others := foreign(f.peer, dir)
	var modules []string
	for _, c := range others {
		if !slices.Contains(modules, c.module) {
			modules = append(modules, c.module)
		}
	}
	has, err := installed(ctx, f.peer, modules)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range others {
		if slices.Contains(has, c.module) {
			all = append(all, c)
			continue
		}
		notes = append(notes, fmt.Sprintf("%s is left out: %s has no module %s", c.name, f.peer, c.module))
	}
	return all, notes, nil
}

// installed returns those modules that a Python finds.
func installed(ctx context.Context, python string, modules []string) ([]string, error) {
	const ask = `import importlib.util, json, sys; print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m)]))`
	var has []string
	out, complaints, _, err := start(ctx, append([]string{python, "-c", ask}, modules...))
	if err == nil {
		err = json.Unmarshal(out, &has)
	}
	if err != nil {
		return nil, fmt.Errorf("peer %q must be a Python, such as DIR/bin/python after `python3 -m venv DIR && DIR/bin/pip install jax torch`: %w%s",
			python, err, behind(lastLine(complaints)))
	}
	return has, nil
}

// outcome is what came of a run.
type outcome struct {
	report
	others float64 // share of the machine's CPUs that other processes took meanwhile; below 0 where the system does not say
}

// disturbed is the share of the CPUs' time in others' hands from which a run is repeated.
const disturbed = 0.05

// run runs a workload when the machine is at rest, or patience is over. Where others disturb it runs again, up to three times in all; of those it
// returns the least disturbed.
func (c *contender) run(ctx context.Context, w string, flags []string, patience time.Duration) (best outcome, err error) {
	for try := range 3 {
		if err := rest(ctx, patience); err != nil {
			return best, err
		}
		o, err := c.once(ctx, w, flags)
		if err != nil {
			return best, fmt.Errorf("%s, %s: %w", w, c.name, err)
		}
		if try == 0 || o.others < best.others {
			best = o
		}
		if best.others < disturbed || patience == 0 {
			break
		}
	}
	return best, nil
}

// once runs a workload.
func (c *contender) once(ctx context.Context, w string, flags []string) (o outcome, err error) {
	before := busy()
	out, complaints, own, err := start(ctx, slices.Concat(c.command, []string{"-workload", w}, flags, c.more[w]))
	o.others = before.others(busy(), own)
	if err == nil {
		err = json.Unmarshal(out, &o.report)
	}
	if err != nil {
		return o, fmt.Errorf("%w%s", err, behind(lastLine(complaints)))
	}
	if !(o.TrainImages > 0 && o.EvalImages > 0) || len(o.TrainLoss) == 0 {
		return o, fmt.Errorf("%v samples/s in training, %v in evaluation, %d losses", o.TrainImages, o.EvalImages, len(o.TrainLoss))
	}
	return o, nil
}

// alike returns an error where o is not of the same training as ours.
func (o *outcome) alike(ours *outcome) error {
	if o.Workload != ours.Workload || o.Batch != ours.Batch || o.TrainN != ours.TrainN || o.Parameters != ours.Parameters {
		return fmt.Errorf("%s of %d samples in batches of %d, with %d parameters; want %s of %d in batches of %d, with %d", o.Workload, o.TrainN, o.Batch, o.Parameters,
			ours.Workload, ours.TrainN, ours.Batch, ours.Parameters)
	}
	return nil
}

// start runs a command, and returns what it wrote and the time that its threads took.
func start(ctx context.Context, command []string) (out, complaints []byte, took time.Duration, err error) {
	var o, c bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &o, &c
	err = cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if s := cmd.ProcessState; s != nil {
		took = s.UserTime() + s.SystemTime()
	}
	return o.Bytes(), c.Bytes(), took, err
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
