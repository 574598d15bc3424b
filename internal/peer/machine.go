package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// load is the CPU time of the machine and of this process so far, in ticks of 10 ms.
type load struct {
	busy, own, all int64
	known          bool
}

// loaded reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and
// steal. From /proc/self/stat it reads user and system, the 12th and 13th fields after the name.
func loaded() (l load) {
	cpus, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l
	}
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return l
	}
	var t [8]int64
	if _, err := fmt.Sscanf(string(cpus), "cpu %d %d %d %d %d %d %d %d", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]); err != nil {
		return l
	}
	for i, n := range t {
		if l.all += n; i != 3 && i != 4 {
			l.busy += n
		}
	}
	var user, system int64
	if f := strings.Fields(string(own[bytes.LastIndexByte(own, ')')+1:])); len(f) > 12 {
		_, err = fmt.Sscan(f[11]+" "+f[12], &user, &system)
		l.own, l.known = user+system, err == nil
	}
	return l
}

// others returns the fraction of CPU time between l and m that other processes used; -1 if it is
// not known.
func (l load) others(m load) float64 {
	if !l.known || !m.known || m.all <= l.all {
		return -1
	}
	return float64(max(0, m.busy-l.busy-(m.own-l.own))) / float64(m.all-l.all)
}

// rest waits until other processes are idle for half a second, or patience is over.
func rest(ctx context.Context, patience time.Duration) error {
	const interval = 500 * time.Millisecond
	for ; patience > 0; patience -= interval {
		before := loaded()
		select {
		case <-time.After(min(interval, patience)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if before.others(loaded()) < disturbed {
			return nil
		}
	}
	return ctx.Err()
}

// machine describes the processor, instructions and system.
func machine(variant cpu.Instructions) (string, error) {
	d, err := cpu.Open(cpu.Options{Instructions: variant})
	if err != nil {
		return "", err
	}
	instructions, err := d.Instructions()
	if err != nil {
		return "", err
	}
	if err := d.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, kernels for %v, %d CPUs, %s, %s", processor(), instructions, runtime.NumCPU(), runtime.GOOS, runtime.Version()), nil
}

// processor returns the name of the processor, with family and model if the system reports them.
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
