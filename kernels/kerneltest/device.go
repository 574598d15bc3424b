package kerneltest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

// testMemory checks sizes, visibility, and that memory cannot be given back twice.
func testMemory(t *testing.T, open opener) {
	dev := openBench(t, open).dev
	if dev.Name() == "" {
		t.Error("the device has no name")
	}
	info, err := dev.Info()
	if err != nil || info.Total <= 0 || info.Free <= 0 || info.Free > info.Total || info.Context < 0 {
		t.Errorf("Info() = %+v, %v: want 0 < Free <= Total", info, err)
	}
	for name, alloc := range map[string]func(int64) (arena.Memory, error){"Alloc": dev.Alloc, "Pin": dev.Pin} {
		if _, err := alloc(-1); err == nil {
			t.Errorf("%s(-1) gives memory", name)
		}
		for _, size := range []int64{1, 255, 256, 4097, 1 << 20} {
			m, err := alloc(size)
			if err != nil {
				t.Fatalf("%s(%d): %v", name, size, err)
			}
			visible := dev.Unified() || name == "Pin"
			if m.Size() != size || visible && int64(len(m.Bytes())) != size {
				t.Errorf("%s(%d): size %d, %d bytes visible", name, size, m.Size(), len(m.Bytes()))
			}
			if err := m.Free(); err != nil {
				t.Errorf("%s(%d): first Free: %v", name, size, err)
			}
			if err := m.Free(); !errors.Is(err, arena.ErrFreed) {
				t.Errorf("%s(%d): second Free: %v, want one that wraps ErrFreed", name, size, err)
			}
		}
	}
	if m, err := dev.Alloc(info.Total + 1); err == nil {
		t.Errorf("Alloc of %d bytes, one more than there are, gives %d", info.Total+1, m.Size())
	}
}

// pair is two blocks of device memory, and one of pinned memory to look at them.
type pair struct {
	*bench
	a, b, host arena.Memory
}

func openPair(t *testing.T, open opener, size int64) *pair {
	t.Helper()
	p := &pair{bench: openBench(t, open)}
	var errs [3]error
	p.a, errs[0] = p.dev.Alloc(size)
	p.b, errs[1] = p.dev.Alloc(size)
	p.host, errs[2] = p.dev.Pin(size)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return p
}

// must fails the test at the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// testStreams checks that work of a stream runs in order, and that spans which do not fit are refused.
func testStreams(t *testing.T, open opener) {
	const size = 4096
	p := openPair(t, open, size)
	must(t, p.stream.Fill(whole(p.a), 1), p.stream.Fill(whole(p.b), 2),
		p.stream.Copy(arena.Span{Memory: p.b, Offset: 100, Size: 50}, arena.Span{Memory: p.a, Offset: 7, Size: 50}),
		p.stream.Fill(whole(p.a), 3),
		p.stream.Copy(whole(p.host), whole(p.b)), p.stream.Sync())
	want := bytes.Repeat([]byte{2}, size)
	copy(want[100:150], bytes.Repeat([]byte{1}, 50))
	if !bytes.Equal(p.host.Bytes(), want) {
		t.Error("fill, copy and fill of one stream did not run in order")
	}
	bad := map[string]error{
		"spans of two lengths":    p.stream.Copy(arena.Span{Memory: p.a, Size: 8}, arena.Span{Memory: p.b, Size: 9}),
		"a span past the end":     p.stream.Copy(arena.Span{Memory: p.a, Offset: size - 4, Size: 8}, arena.Span{Memory: p.b, Size: 8}),
		"a span before the start": p.stream.Copy(arena.Span{Memory: p.a, Offset: -8, Size: 8}, arena.Span{Memory: p.b, Size: 8}),
		"a negative length":       p.stream.Copy(arena.Span{Memory: p.a, Size: -8}, arena.Span{Memory: p.b, Size: -8}),
		"a fill past the end":     p.stream.Fill(arena.Span{Memory: p.a, Offset: 1, Size: size}, 0),
		"a copy without memory":   p.stream.Copy(arena.Span{Size: 8}, arena.Span{Memory: p.b, Size: 8}),
	}
	for what, err := range bad {
		if err == nil {
			t.Errorf("%s was not refused", what)
		}
	}
	must(t, p.stream.Copy(whole(p.host), whole(p.a)), p.stream.Sync())
	if !bytes.Equal(p.host.Bytes(), bytes.Repeat([]byte{3}, size)) {
		t.Error("a refused copy or fill changed memory")
	}
	must(t, p.a.Free(), p.b.Free(), p.host.Free())
}

// testEvents checks that an event orders streams, each time it is recorded, and that an unrecorded
// one is done.
func testEvents(t *testing.T, open opener) {
	const size = 1 << 16
	p := openPair(t, open, size)
	other, err := p.dev.NewStream("other")
	must(t, err)
	filled, err := p.dev.NewEvent()
	must(t, err)
	copied, err := p.dev.NewEvent()
	must(t, err)
	if !filled.Done() {
		t.Error("an event that was never recorded is not done")
	}
	must(t, filled.Sync(), other.Wait(filled))
	for i := range 20 {
		b := byte(i + 1)
		must(t, p.stream.Wait(copied), p.stream.Fill(whole(p.a), b), p.stream.Record(filled),
			other.Wait(filled), other.Copy(whole(p.b), whole(p.a)), other.Copy(whole(p.host), whole(p.b)),
			other.Record(copied),
			copied.Sync())
		if !copied.Done() {
			t.Errorf("round %d: an event that was waited for is not done", i)
		}
		if want := bytes.Repeat([]byte{b}, size); !bytes.Equal(p.host.Bytes(), want) {
			t.Fatalf("round %d: a stream did not wait for the event: got %d, want %d", i, p.host.Bytes()[0], b)
		}
	}
	must(t, p.stream.Sync(), other.Sync(), other.Close(), other.Close(),
		filled.Close(), filled.Close(), copied.Close(), copied.Close())
	must(t, p.a.Free(), p.b.Free(), p.host.Free())
}
