package pack_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
)

// A pack has the fields and, in any order and by any way of reading, the samples of its dataset.
func TestAPackHasTheSamplesOfItsDataset(t *testing.T) {
	r := random(t)
	for range 30 {
		ds := &made{n: 1 + r.IntN(300), fields: someFields(r), failing: -1}
		opt := pack.WriteOptions{Seed: r.Uint64(), Workers: 1 + r.IntN(3), Notes: map[string]string{"classes": "cat, dog"}}
		p := write(t, ds, opt)
		for name, d := range map[string]*pack.Dataset{"read": open(t, p, pack.Options{Verify: true}), "mapped": open(t, p, pack.Options{Mapped: true})} {
			if !reflect.DeepEqual(normal(d.Fields()), normal(ds.fields)) || d.Len() != ds.n {
				t.Fatalf("%s: %d samples of %v, want %d of %v", name, d.Len(), d.Fields(), ds.n, ds.fields)
			}
			for _, i := range r.Perm(ds.n) {
				want := fetch(t, ds, dataloader.At{Index: i, Seed: opt.Seed})
				if got := fetch(t, d, dataloader.At{Index: i}); !equal(got, want) {
					t.Fatalf("%s: sample %d of %v: got %x, want %x", name, i, ds.fields, got, want)
				}
			}
			if d.Info().Notes["classes"] != "cat, dog" {
				t.Errorf("notes %v", d.Info().Notes)
			}
		}
	}
}

// normal returns fields whose scalars have an empty shape.
func normal(fields []dataloader.Field) []dataloader.Field {
	fields = slices.Clone(fields)
	for k := range fields {
		fields[k].Shape = append([]int{}, fields[k].Shape...)
	}
	return fields
}

func TestTheFileDoesNotDependOnWorkers(t *testing.T) {
	ds := &made{n: 5000, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{401}}, {Name: "y", Type: arena.Int32}}, failing: -1}
	first := bytesOf(t, write(t, ds, pack.WriteOptions{Workers: 1}))
	for _, workers := range []int{2, 5} {
		if got := bytesOf(t, write(t, ds, pack.WriteOptions{Workers: workers})); !bytes.Equal(got, first) {
			t.Errorf("%d workers: the file differs", workers)
		}
	}
	if other := bytesOf(t, write(t, ds, pack.WriteOptions{Seed: 1})); bytes.Equal(other, first) {
		t.Error("another seed gives the same file")
	}
}

// Encoded values keep their bytes, and a decoder gets them.
func TestEncodedValuesAreDecodedOnReading(t *testing.T) {
	ds := &made{n: 400, failing: -1, fields: []dataloader.Field{{Name: "y", Type: arena.Uint8},
		{Name: "jpg", Type: arena.Uint8, Shape: []int{3, 9, 9}}, {Name: "seg", Type: arena.Uint8, Shape: []int{9, 9}}}}
	p := write(t, ds, pack.WriteOptions{Encoded: []string{"seg", "jpg"}, Workers: 3})
	opt := pack.Options{Verify: true, Decoders: map[string]dataloader.Decoder{"jpg": measure{}, "seg": measure{}}}
	for _, opt.Mapped = range []bool{false, true} {
		d := open(t, p, opt)
		for _, i := range random(t).Perm(ds.n) {
			got := fetch(t, d, dataloader.At{Index: i})
			want := [][]byte{fetch(t, ds, dataloader.At{Index: i})[0], make([]byte, 16), make([]byte, 16)}
			for k := 1; k < 3; k++ {
				if err := (measure{}).Decode(dataloader.At{}, valueOf(i, k), want[k]); err != nil {
					t.Fatal(err)
				}
			}
			if !equal(got, want) {
				t.Fatalf("sample %d: got %v, want %v", i, got, want)
			}
		}
	}
	info, err := pack.Stat(p)
	if err != nil || !slices.Equal(info.Encoded, []string{"jpg", "seg"}) || info.Samples != 400 || info.Bytes != int64(len(bytesOf(t, p))) {
		t.Errorf("info %+v, %v", info, err)
	}
	bad := errors.New("no picture")
	d := open(t, p, pack.Options{Decoders: map[string]dataloader.Decoder{"jpg": measure{bad}, "seg": measure{}}})
	if err := d.Fetch(t.Context(), dataloader.At{Index: 3}, memory(d)); !errors.Is(err, bad) || !strings.Contains(err.Error(), "sample 3") || !strings.Contains(err.Error(), p) {
		t.Errorf("error of a decoder: got %v", err)
	}
}

// A field that is larger than what is read in one piece is read straight to its place.
func TestLongRecordsAreRead(t *testing.T) {
	ds := &made{n: 5, failing: -1, fields: []dataloader.Field{{Name: "a", Type: arena.Uint8, Shape: []int{3}},
		{Name: "x", Type: arena.Float32, Shape: []int{300, 300}}, {Name: "jpg", Type: arena.Uint8, Shape: []int{3}}}}
	d := open(t, write(t, ds, pack.WriteOptions{Encoded: []string{"jpg"}}), pack.Options{Decoders: map[string]dataloader.Decoder{"jpg": measure{}}, Verify: true})
	got, want := fetch(t, d, dataloader.At{Index: 4}), fetch(t, ds, dataloader.At{Index: 4})
	if !equal(got[:2], want[:2]) || got[2][0]|got[2][1] == 0 {
		t.Error("the sample differs")
	}
}

func TestOptionsThatDoNotFitAreRefused(t *testing.T) {
	ds := &made{n: 4, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8}, {Name: "y", Type: arena.Uint8}}, failing: -1}
	plain := struct{ dataloader.Dataset }{ds}
	large := &made{n: 4, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{1 << 20, 1 << 10, 2}}}, failing: -1}
	for name, try := range map[string]func() error{
		"unknown encoded field": func() error { return pack.Write(t.Context(), path(t), ds, pack.WriteOptions{Encoded: []string{"z"}}) },
		"encoded field twice": func() error {
			return pack.Write(t.Context(), path(t), ds, pack.WriteOptions{Encoded: []string{"x", "x"}})
		},
		"no encoded bytes": func() error {
			return pack.Write(t.Context(), path(t), plain, pack.WriteOptions{Encoded: []string{"x"}})
		},
		"too large a sample": func() error { return pack.Write(t.Context(), path(t), large, pack.WriteOptions{}) },
		"too long notes": func() error {
			return pack.Write(t.Context(), path(t), ds, pack.WriteOptions{Notes: map[string]string{"a": strings.Repeat("n", 1<<20)}})
		},
		"no context": func() error {
			var none context.Context
			return pack.Write(none, path(t), ds, pack.WriteOptions{})
		},
		"workers": func() error { return pack.Write(t.Context(), path(t), ds, pack.WriteOptions{Workers: -1}) },
		"missing decoder": func() error {
			_, err := pack.Open(write(t, ds, pack.WriteOptions{Encoded: []string{"x"}}), pack.Options{})
			return err
		},
		"decoder of a plain field": func() error {
			_, err := pack.Open(write(t, ds, pack.WriteOptions{}), pack.Options{Decoders: map[string]dataloader.Decoder{"x": measure{}}})
			return err
		},
		"negative limit": func() error {
			_, err := pack.Open(write(t, ds, pack.WriteOptions{}), pack.Options{MaxValue: -1})
			return err
		},
		"no such sample": func() error {
			d := open(t, write(t, ds, pack.WriteOptions{}), pack.Options{})
			return errors.Join(d.Fetch(t.Context(), dataloader.At{Index: 3}, memory(d)), d.Fetch(t.Context(), dataloader.At{Index: 4}, memory(d)))
		},
	} {
		if err := try(); !errors.Is(err, dataloader.ErrOption) {
			t.Errorf("%s: got %v, want ErrOption", name, err)
		}
	}
}

// After an error the former file is there, and nothing else.
func TestAFailedWriteLeavesTheFormerFile(t *testing.T) {
	ds := &made{n: 3000, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{1000}}}, failing: -1}
	p := write(t, ds, pack.WriteOptions{})
	before := bytesOf(t, p)
	ds.failing = 2500
	var sample *dataloader.SampleError
	if err := pack.Write(t.Context(), p, ds, pack.WriteOptions{}); !errors.As(err, &sample) || sample.Index != 2500 {
		t.Errorf("a bad sample: got %v", err)
	}
	ds.failing = -1
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := pack.Write(ctx, p, ds, pack.WriteOptions{Progress: func(at pack.Progress) {
		if calls++; at.Total != 3000 || at.Done < 1 || at.Bytes != int64(at.Done)*1000 {
			t.Errorf("progress %+v", at)
		}
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("cancelled: got %v after %d calls", err, calls)
	}
	files, err := os.ReadDir(filepath.Dir(p))
	if err != nil || len(files) != 1 || !bytes.Equal(bytesOf(t, p), before) {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

// Fetch allocates nothing, read or mapped, and with encoded values.
func TestFetchAllocatesNothing(t *testing.T) {
	ds := &made{n: 64, failing: -1, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{3072}}, {Name: "y", Type: arena.Int32}}}
	plain, encoded := write(t, ds, pack.WriteOptions{}), write(t, ds, pack.WriteOptions{Encoded: []string{"x"}})
	for name, d := range map[string]*pack.Dataset{
		"read": open(t, plain, pack.Options{}), "mapped": open(t, plain, pack.Options{Mapped: true}),
		"encoded": open(t, encoded, pack.Options{Decoders: map[string]dataloader.Decoder{"x": measure{}}}),
	} {
		dst, i, ctx := memory(d), 0, t.Context()
		step := func() {
			if err := d.Fetch(ctx, dataloader.At{Index: i % 64}, dst); err != nil {
				t.Fatal(err)
			}
			i++
		}
		for range 64 {
			step()
		}
		least := 1.0
		for range 5 { // the garbage collector empties a sync.Pool
			least = min(least, testing.AllocsPerRun(200, step))
		}
		if least != 0 {
			t.Errorf("%s: %v allocations a sample, want 0", name, least)
		}
	}
}

// The fingerprint depends on the samples and the fields, and not on the notes or the place.
func TestTheFingerprintIsThatOfTheContents(t *testing.T) {
	fields := []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{30}}}
	ds := &made{n: 40, fields: fields, failing: -1}
	one := open(t, write(t, ds, pack.WriteOptions{}), pack.Options{}).Fingerprint()
	if same := open(t, write(t, ds, pack.WriteOptions{Notes: map[string]string{"a": "b"}}), pack.Options{}).Fingerprint(); same != one {
		t.Error("notes change the fingerprint")
	}
	scaled := []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{30}, Scale: 2}}
	for name, p := range map[string]string{
		"other bytes":  write(t, ds, pack.WriteOptions{Seed: 1}),
		"other length": write(t, &made{n: 41, fields: fields, failing: -1}, pack.WriteOptions{}),
		"other scale":  write(t, &made{n: 40, fields: scaled, failing: -1}, pack.WriteOptions{}),
	} {
		if open(t, p, pack.Options{}).Fingerprint() == one {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
}

// printed is a decoder with a fingerprint.
type printed struct {
	measure
	is uint64
}

func (p printed) Fingerprint() uint64 { return p.is }

func TestTheFingerprintIsAlsoThatOfTheDecoders(t *testing.T) {
	ds := &made{n: 4, fields: []dataloader.Field{{Name: "x", Type: arena.Uint8}}, failing: -1}
	p := write(t, ds, pack.WriteOptions{Encoded: []string{"x"}})
	of := func(c dataloader.Decoder) uint64 {
		return open(t, p, pack.Options{Decoders: map[string]dataloader.Decoder{"x": c}}).Fingerprint()
	}
	one, again, other := of(printed{is: 1}), of(printed{is: 1}), of(printed{is: 2})
	if one != again || one == other || one == of(measure{}) {
		t.Error("the fingerprint does not depend on the decoder alone")
	}
}

func TestAPackInAFileSystemIsRead(t *testing.T) {
	ds := &made{n: 9, fields: []dataloader.Field{{Name: "x", Type: arena.Int32}}, failing: -1}
	fsys := fstest.MapFS{"a/b.pack": &fstest.MapFile{Data: bytesOf(t, write(t, ds, pack.WriteOptions{}))}}
	d, err := pack.OpenFS(fsys, "a/b.pack", pack.Options{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := fetch(t, d, dataloader.At{Index: 8}); !equal(got, fetch(t, ds, dataloader.At{Index: 8})) {
		t.Errorf("got %v", got)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := pack.OpenFS(fsys, "a/b.pack", pack.Options{Mapped: true}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("mapped: got %v", err)
	}
}

func TestAClosedPackIsNotRead(t *testing.T) {
	ds := &made{n: 9, fields: []dataloader.Field{{Name: "x", Type: arena.Int32}}, failing: -1}
	for _, mapped := range []bool{false, true} {
		d, err := pack.Open(write(t, ds, pack.WriteOptions{}), pack.Options{Mapped: mapped})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		if err := d.Fetch(t.Context(), dataloader.At{}, memory(d)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("mapped %v: got %v", mapped, err)
		}
	}
}
