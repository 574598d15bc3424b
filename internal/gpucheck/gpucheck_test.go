package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder returns a folder as gpu-check build makes it, with scripts instead of programs.
func folder(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(file string, b []byte, mode os.FileMode) {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range scripts {
		write("bin/"+name, []byte("#!/bin/sh\n"+text), 0o755)
		write("files/"+name+"/empty", nil, 0o644)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		write("mnist/"+name+".gz", b.Bytes(), 0o644)
	}
	write("commit", []byte("abc\n"), 0o644)
	return dir
}

// written runs the check and returns its report.
func written(t *testing.T, dir string, args ...string) (ok bool, r Report, text string) {
	t.Helper()
	ok, err := run(context.Background(), append([]string{"-dir", dir}, args...))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(filepath.Join(dir, "report.md"))
	if err != nil {
		t.Fatal(err)
	}
	return ok, r, string(b)
}

func (r Report) part(t *testing.T, name string) Part {
	t.Helper()
	for _, p := range r.Parts {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no part %q in %+v", name, r.Parts)
	return Part{}
}

// peerScript writes a run with the given free bytes and the given loss on the GPU.
const peerScript = `
while [ $# -gt 0 ]; do
	case $1 in -cublas) shift; continue ;; -json) json=$2 ;; -workload) w=$2 ;; -device) device=$2 ;; -data) cat $2/a >/dev/null || exit 3 ;; esac
	shift 2
done
loss=0.5
[ $device = cpu ] || loss=LOSS
echo "{\"peer\":\"evenkeel\",\"workload\":\"$w\",\"train_img_s\":1000,\"train_loss\":[$loss],\"test_acc\":[0.9],\"free_bytes\":[FREE],\"arena_use_bytes\":[7,7]}" >$json
`

func peerWith(loss, free string) string {
	return strings.NewReplacer("LOSS", loss, "FREE", free).Replace(peerScript)
}

const goodTests = "echo '--- PASS: TestA (0.00s)'; echo '    --- PASS: TestA/x (0.00s)'; echo '--- SKIP: TestB (0.00s)'; echo PASS\n" +
	"echo; echo 'gpu: test card'; printf 'BenchmarkKernel/add-16 \\t 20\\t 12.5 ns/op\\t 900 GB/s\\t 90 %%B\\n'"

func TestAReportHoldsAllThatWasAsked(t *testing.T) {
	dir := folder(t, map[string]string{"device.test": goodTests, "trainer.test": goodTests, "vm.test": goodTests, "peer": peerWith("0.50001", "9,9,9"), "python3": "exit 1"})
	ok, r, text := written(t, dir, "-small")
	if !ok || !r.Passed || r.Commit != "abc" || r.GPU["gpu"] != "test card" || !r.Small {
		t.Errorf("ok %v, got %+v", ok, r)
	}
	if p := r.part(t, "operations"); p.Tests == nil || p.Tests.Passed != 2 || len(p.Tests.Skipped) != 1 || p.Tests.Skipped[0] != "TestB" || p.Log == "" {
		t.Errorf("operations: %+v", p)
	}
	if p := r.part(t, "kernels"); len(p.Figures) != 1 || p.Figures[0].Name != "Kernel/add" || p.Figures[0].N != 20 || p.Figures[0].Metrics["%B"] != 90 {
		t.Errorf("kernels: %+v", p)
	}
	if p := r.part(t, "w3 tf32"); p.Run == nil || p.Run.Workload != "w3" || p.Run.TrainImages != 1000 {
		t.Errorf("w3: %+v", p)
	}
	if p := r.part(t, "flatness"); p.Status != Passed {
		t.Errorf("flatness: %+v", p)
	}
	for _, want := range []string{"gpu: test card", "| Kernel/add | 0.01 | 90 | 900 |", "| w1 | evenkeel  |", "| operations | passed |"} {
		if !strings.Contains(text, want) {
			t.Errorf("report.md lacks %q:\n%s", want, text)
		}
	}
}

// On a machine with one GPU the parts for several are skipped, and say what they need; elsewhere they count like all others.
func TestPartsForSeveralGPUsAreSkippedOnOne(t *testing.T) {
	one := goodTests + "\necho '    x_test.go:1: needs 2 GPUs: there are 1'\n"
	dir := folder(t, map[string]string{"device.test": one, "trainer.test": goodTests, "vm.test": goodTests, "peer": peerWith("0.50001", "9,9,9"), "python3": "exit 1"})
	ok, r, _ := written(t, dir, "-small")
	if !ok {
		t.Errorf("the check fails: %+v", r)
	}
	for _, name := range []string{"nccl sums", "nccl speed"} {
		if p := r.part(t, name); p.Status != Skipped || p.Why != "needs 2 GPUs: there are 1" {
			t.Errorf("%s: %+v, want skipped", name, p)
		}
	}
	if p := r.part(t, "nccl training"); p.Status != Passed {
		t.Errorf("nccl training: %+v, want passed", p)
	}
}

func TestAPartThatFailsDoesNotStopTheRest(t *testing.T) {
	dir := folder(t, map[string]string{
		"device.test":  "echo '--- FAIL: TestA (0.00s)'; echo 'sudden end' >&2; kill -SEGV $$",
		"trainer.test": goodTests, "vm.test": goodTests, "peer": peerWith("0.6", "9,8,8"), "python3": "exit 1"})
	ok, r, text := written(t, dir)
	if ok || r.Passed {
		t.Error("what failed passes")
	}
	for name, why := range map[string]string{"operations": "signal", "kernels": "signal", "learning w1": "0.6 on the GPU", "flatness": "[9 8 8]"} {
		if p := r.part(t, name); p.Status != Failed || !strings.Contains(p.Why, why) {
			t.Errorf("%s: %+v, want failed and %q", name, p, why)
		}
	}
	if p := r.part(t, "w1 pytorch float32"); p.Status != Skipped {
		t.Errorf("PyTorch: %+v, want skipped", p)
	}
	if p := r.part(t, "promises"); p.Status != Passed {
		t.Errorf("promises: %+v, want passed", p)
	}
	if !strings.Contains(text, "- TestA\n") {
		t.Errorf("report.md lacks the test that failed:\n%s", text)
	}
}

func TestTheLimitEndsWhatHangs(t *testing.T) {
	dir := folder(t, map[string]string{"device.test": "exec sleep 600", "trainer.test": goodTests, "vm.test": goodTests})
	ok, r, _ := written(t, dir, "-limit", "1s", "-parts", "operations,promises")
	if p := r.part(t, "operations"); ok || p.Status != Failed || !strings.Contains(p.Why, "the limit of 1s is over") {
		t.Errorf("%+v, want failed by the limit", p)
	}
	if p := r.part(t, "promises"); p.Status != Skipped || !strings.Contains(p.Why, "not started") {
		t.Errorf("%+v, want skipped", p)
	}
	if _, err := run(context.Background(), []string{"-dir", dir, "-parts", "nothing"}); err == nil {
		t.Error("an unknown part: no error")
	}
}
