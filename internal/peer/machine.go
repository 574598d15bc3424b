package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// load is what the CPUs of the machine have done since it started, in the system's ticks of 10 ms.
type load struct {
	busy, all int64
	known     bool
}

// busy reads the first line of /proc/stat: user, nice, system, idle, waiting for disks, two kinds of interrupts, and what other machines stole.
func busy() load {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}
	}
	var t [8]int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]); err != nil {
		return load{}
	}
	l := load{known: true}
	for i, n := range t {
		if l.all += n; i != 3 && i != 4 {
			l.busy += n
		}
	}
	return l
}

// others returns the share of all CPUs' time from l to m that was neither idle nor a process's own; -1 where it is not known.
func (l load) others(m load, own time.Duration) float64 {
	if !l.known || !m.known || m.all <= l.all {
		return -1
	}
	const tick = 10 * time.Millisecond
	return max(0, float64(m.busy-l.busy)-float64(own)/float64(tick)) / float64(m.all-l.all)
}

// rest waits until others leave the CPUs alone for half a second, or patience is over.
func rest(ctx context.Context, patience time.Duration) error {
	const look = 500 * time.Millisecond
	for ; patience > 0; patience -= look {
		before := busy()
		select {
		case <-time.After(min(look, patience)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if before.others(busy(), 0) < disturbed {
			return nil
		}
	}
	return ctx.Err()
}

// machine says what this one computes with.
func machine(variant cpu.Instructions) (string, error) {
	d := cpu.OpenWith(cpu.Options{Instructions: variant})
	instructions, err := d.Instructions()
	if err != nil {
		return "", err
	}
	if err := d.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, kernels for %v, %d CPUs, %s, %s", processor(), instructions, runtime.NumCPU(), runtime.GOOS, runtime.Version()), nil
}

// processor returns the name by which the system knows it, with family and model where these are told.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	found := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); found[key] == "" {
			found[key] = strings.TrimSpace(value)
		}
	}
	name := found["model name"]
	if name == "" {
		return runtime.GOARCH
	}
	if found["cpu family"] != "" {
		name += fmt.Sprintf(" (family %s model %s)", found["cpu family"], found["model"])
	}
	return name
}
