package pack_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"golang.org/x/sys/unix"
)

// sparse makes a pack of records of 4 MiB without writing them: they are holes, which read as zeros.
// It changes the description of a pack of one record.
func sparse(t testing.TB, records int64) string {
	ds := &made{n: 1, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{4 << 20}}}, failing: -1}
	p := write(t, ds, pack.WriteOptions{Notes: map[string]string{"space": strings.Repeat("-", 100)}})
	b := described(t, bytesOf(t, p), func(d map[string]any) {
		d["count"], d["notes"] = records, map[string]string{}
		d["values"] = 4096 + records<<22
		d["sums"] = 4096 + records<<22
	})
	if err := errors.Join(os.WriteFile(p, b[:4096], 0o600), os.Truncate(p, 4096+records<<22+16*records)); err != nil {
		t.Fatal(err)
	}
	return p
}

// Reading a pack of any size needs the memory of one batch. With EVENKEEL_MILLION=1 a process whose
// address space is limited to 1.5 GiB reads 6 GiB; else 128 MiB are read, without a limit.
func TestReadingNeedsNoMemoryOfItsOwn(t *testing.T) {
	const child = "EVENKEEL_PACK"
	if p := os.Getenv(child); p != "" {
		limited(t, p)
		return
	}
	if !million() {
		p := sparse(t, 32)
		before := resident()
		readAll(t, p)
		if grown := resident() - before; grown > 48<<20 {
			t.Errorf("reading 128 MiB needs %d bytes of memory", grown)
		}
		return
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReadingNeedsNoMemoryOfItsOwn$", "-test.v")
	c.Env = append(os.Environ(), child+"="+sparse(t, 1536))
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// limited reads a pack in a process whose address space is limited.
func limited(t *testing.T, path string) {
	limit := unix.Rlimit{Cur: 3 << 29, Max: 3 << 29}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	if _, err := pack.Open(path, pack.Options{Mapped: true}); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("mapped: got %v, want ENOMEM", err)
	}
	n := readAll(t, path)
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmPeak") {
			fmt.Println(line)
		}
	}
	fmt.Printf("read %d bytes within %d bytes of address space\n", n, limit.Cur)
}

// readAll reads a pack with a loader, shuffled, and returns the bytes.
func readAll(t *testing.T, path string) (bytes int64) {
	d := open(t, path, pack.Options{})
	l, err := dataloader.New(d, dataloader.Options{Batch: 2, Shuffle: true, Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 2)
	for i := range slots {
		slots[i].Fields = [][]byte{make([]byte, 8<<20)}
	}
	run, err := l.Epoch(t.Context(), 0, slots)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for range l.Steps() {
		b, err := run.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		bytes += int64(b.Rows) << 22
		if err := run.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
	if bytes != int64(d.Len())<<22 {
		t.Errorf("read %d bytes", bytes)
	}
	return bytes
}
