package jsonl_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/jsonl"
)

// Short lines must not cost the memory of the values that they should have.
func TestShortLinesCostNoMemory(t *testing.T) {
	fill := 1.0
	for _, c := range []struct {
		line string
		fill *float64
		want string
	}{
		{"{}\n", nil, `line 1`}, {"{\"x\":[1]}\n", nil, "line 1"}, {"{}\n", &fill, "at most 20971520 bytes"},
	} {
		ds, err := parse("a.jsonl", strings.Repeat(c.line, 300_000/len(c.line)), jsonl.Options{Fields: []jsonl.Field{{Name: "x", Shape: []int{1 << 20}, Fill: c.fill}}, Memory: 20 << 20})
		if err != nil {
			t.Fatal(err)
		}
		err = ds.Fetch(t.Context(), dataloader.At{}, [][]byte{make([]byte, 4<<20)})
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.line, err, c.want)
		}
		ds.Close()
	}
}

// A fill is for members that are null or not there, not for others.
func TestAMemberWithoutTheObjectThatThePathNeeds(t *testing.T) {
	fill := 7.0
	opt := jsonl.Options{Fields: []jsonl.Field{{Name: "x", Path: "a.b", Fill: &fill}}}
	for line, want := range map[string]string{`{"a":3}`: "an object", `{"a":[1]}`: "an object", `{"a":"b"}`: "an object", `{"a":null}`: "", `{"a":{}}`: "", `{}`: ""} {
		ds, err := parse("a.jsonl", line, opt)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rows(ds)
		if want == "" && (err != nil || !equal(got, [][]float64{{7}})) {
			t.Errorf("%s: got %v, %v", line, got, err)
		}
		if want != "" && (!errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, %v; want an error for %q", line, got, err, want)
		}
		ds.Close()
	}
}

func TestFillsThatATypeDoesNotHold(t *testing.T) {
	fill := 1e39
	if _, err := parse("a.jsonl", "{}", jsonl.Options{Fields: []jsonl.Field{{Name: "x", Fill: &fill}}}); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("float32 with a fill of 1e39: got %v", err)
	}
	if _, err := parse("a.jsonl", "{}", jsonl.Options{Fields: []jsonl.Field{{Name: "x", Type: arena.Float64, Fill: &fill}}}); err != nil {
		t.Error(err)
	}
}

func TestFingerprintsTellFillsApart(t *testing.T) {
	one, two := 1.0, 2.0
	seen := make(map[uint64]bool)
	for _, fill := range []*float64{nil, &one, &two} {
		ds, err := parse("a.jsonl", `{"x":1}`, jsonl.Options{Fields: []jsonl.Field{{Name: "x", Fill: fill}}})
		if err != nil {
			t.Fatal(err)
		}
		if seen[ds.Fingerprint()] {
			t.Error("fills have the same fingerprint")
		}
		seen[ds.Fingerprint()] = true
		ds.Close()
	}
}

// A member without fill, of a Decoder, says what it is that is wanted.
func TestADecoderHasNoFill(t *testing.T) {
	for _, line := range []string{`{}`, `{"x":null}`} {
		ds, err := parse("a.jsonl", line, jsonl.Options{Fields: []jsonl.Field{{Name: "x", Decoder: lengths{}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := first(ds); !errors.Is(err, dataloader.ErrFormat) || strings.Contains(err.Error(), "Fill") {
			t.Errorf("%s: got %v", line, err)
		}
		ds.Close()
	}
}

// Bombs end at Options.Unpacked, whichever way they are decompressed.
func TestBombsAreRefused(t *testing.T) {
	bomb := strings.Repeat(" ", 4<<20)
	for _, kind := range []string{".gz", ".zst"} {
		name := "a.jsonl" + kind
		_, err := parse(name, packed(t, kind, bomb), jsonl.Options{Unpacked: 4<<20 - 1, Fields: []jsonl.Field{{Name: "x"}}})
		if !errors.Is(err, dataloader.ErrFormat) || !strings.Contains(err.Error(), "Unpacked") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := parse(name, packed(t, kind, bomb), jsonl.Options{Unpacked: 4 << 20, Fields: []jsonl.Field{{Name: "x"}}}); !errors.Is(err, dataloader.ErrEmpty) {
			t.Errorf("%s of exactly Unpacked: got %v", name, err)
		}
		whole := packed(t, kind, "{\"x\":1}\n", "{\"x\":2}\n")
		one := len(packed(t, kind, "{\"x\":1}\n"))
		for cut := 1; cut < len(whole); cut++ {
			ds, err := parse(name, whole[:cut], jsonl.Options{Fields: []jsonl.Field{{Name: "x"}}})
			if err == nil {
				ds.Close()
			}
			if want := cut == one; (err == nil) != want || err != nil && !errors.Is(err, dataloader.ErrFormat) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut at %d of %d: got %v", name, cut, len(whole), err)
			}
		}
	}
}
