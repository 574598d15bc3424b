package weights_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// memory is a source of tensors. It fails in one of its reads.
type memory struct {
	tensors []safetensors.Tensor
	data    map[string][]byte
	reads   int
	fail    int // the number of the read that fails, from 1; 0: none
}

func (m *memory) add(name string, t safetensors.DType, data []byte, shape ...int) {
	if m.data == nil {
		m.data = map[string][]byte{}
	}
	m.tensors = append(m.tensors, safetensors.Tensor{Name: name, DType: t, Shape: append([]int{}, shape...)})
	m.data[name] = data
}

func (m *memory) Tensors() []safetensors.Tensor { return m.tensors }

func (m *memory) ReadAt(name string, dst []byte, offset int64) error {
	if m.reads++; m.reads == m.fail {
		return syscall.EIO
	}
	copy(dst, m.data[name][offset:])
	return nil
}

// floats returns the bytes of numbers.
func floats(x ...float32) []byte { return rawBytes(x) }

// weightsOf returns a source of all weights of net(8), of one value.
func weightsOf(t *testing.T, tr *trainer.Trainer, value float32) *memory {
	t.Helper()
	m := &memory{}
	for _, w := range tr.Weights() {
		m.add(w.Name, safetensors.Float32, floats(slices.Repeat([]float32{value}, w.Spec.Shape.Elems())...), w.Spec.Shape...)
	}
	return m
}

func TestAllMismatchesAreInOneError(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, net(8), trainer.Options{Device: dev})
		before := values(t, tr)
		m := weightsOf(t, tr, 1)
		at := func(name string) *safetensors.Tensor {
			return &m.tensors[slices.IndexFunc(m.tensors, func(x safetensors.Tensor) bool { return x.Name == name })]
		}
		at("hidden/w").Shape = []int{8, 4}
		at("out/b").Shape = []int{1, 3}
		at("norm/gamma").DType = safetensors.Int32
		at("norm/beta").DType = safetensors.F8E4M3
		at("norm/mean").Name = "norm/average"
		at("out/w").Name = "head/w"
		_, err := weights.LoadFrom(t.Context(), m, tr, weights.LoadOptions{Exact: true})
		var bad *trainer.WeightsError
		if !errors.As(err, &bad) || !errors.Is(err, trainer.ErrData) {
			t.Fatalf("got %v, want a *WeightsError", err)
		}
		want := &trainer.WeightsError{
			Source:  "reader",
			Missing: []string{"norm/mean", "out/w"},
			Other: []trainer.Mismatch{{Name: "hidden/w", Want: "F32 [4 8]", Got: "F32 [8 4]"}, {Name: "norm/gamma", Want: "F32 [8]", Got: "I32 [8]"},
				{Name: "norm/beta", Want: "F32 [8]", Got: "F8_E4M3 [8]"}, {Name: "out/b", Want: "F32 [3]", Got: "F32 [1 3]"}},
			Extra: []string{"head/w", "norm/average"},
		}
		if !reflect.DeepEqual(bad, want) {
			t.Errorf("got %+v\nwant %+v", bad, want)
		}
		for _, part := range []string{"reader", `"norm/mean"`, `"hidden/w" is F32 [8 4] in the source, and must be F32 [4 8]`, `"head/w"`} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in %v", part, err)
			}
		}
		if m.reads != 0 {
			t.Errorf("%d reads", m.reads)
		}
		if d := differing(before, values(t, tr)); d != nil {
			t.Errorf("%q changed", d)
		}
	})
}

func TestPartsAreLoadedByPattern(t *testing.T) {
	dev := devices["cpu"](t)
	for what, c := range map[string]struct {
		opt    weights.LoadOptions
		rename map[string]string // in the source
		want   weights.Report
	}{
		"only a scope": {weights.LoadOptions{Only: []string{"hidden"}}, nil, weights.Report{Loaded: []string{"hidden/b", "hidden/w"},
			Excluded: []string{"norm/beta", "norm/gamma", "norm/mean", "norm/variance", "out/b", "out/w"}, LeftOver: []string{"norm/beta", "norm/gamma", "norm/mean", "norm/variance", "out/b", "out/w"}}},
		"only a pattern and a scope": {weights.LoadOptions{Only: []string{"*/w", "norm/"}, Except: []string{"norm/mean"}}, nil, weights.Report{Loaded: []string{"hidden/w", "norm/beta", "norm/gamma", "norm/variance", "out/w"},
			Excluded: []string{"hidden/b", "norm/mean", "out/b"}, LeftOver: []string{"hidden/b", "norm/mean", "out/b"}}},
		"a new head": {weights.LoadOptions{Except: []string{"out"}}, map[string]string{"out/w": "head/w", "out/b": "head/b"}, weights.Report{Loaded: weightNames[:6],
			Excluded: []string{"out/b", "out/w"}, LeftOver: []string{"head/b", "head/w"}}},
		"what is there": {weights.LoadOptions{Partial: true}, map[string]string{"out/w": "head/w", "hidden/b": "x"}, weights.Report{Loaded: []string{"hidden/w", "norm/beta", "norm/gamma", "norm/mean", "norm/variance", "out/b"},
			Missing: []string{"hidden/b", "out/w"}, LeftOver: []string{"head/w", "x"}}},
	} {
		tr := made(t, net(8), trainer.Options{Device: dev})
		before := values(t, tr)
		m := weightsOf(t, tr, 7)
		for i := range m.tensors {
			if now, ok := c.rename[m.tensors[i].Name]; ok {
				m.data[now] = m.data[m.tensors[i].Name]
				m.tensors[i].Name = now
			}
		}
		got, err := weights.LoadFrom(t.Context(), m, tr, c.opt)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v\nwant %+v", what, got, err, c.want)
		}
		after := values(t, tr)
		for _, name := range weightNames {
			seven := strings.Repeat(string(floats(7)), len(before[name])/4)
			if slices.Contains(c.want.Loaded, name) != (after[name] == seven) || after[name] != seven && after[name] != before[name] {
				t.Errorf("%s: %q is % x", what, name, after[name])
			}
		}
	}
	r := weights.Report{Loaded: []string{"a", "b"}, LeftOver: []string{"c"}}
	if got, want := r.String(), "loaded 2: a, b\nleft over 1: c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPatternsSelectNamesLayersAndScopes(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{{"out", "out/w", true}, {"out/", "out/w", true}, {"out/w", "out/w", true}, {"net/out", "net/out/w", true}, {"net", "net/out/w", true}, {"*/w", "out/w", true}, {"out/?", "out/b", true},
		{"ou", "out/w", false}, {"out", "outer/w", false}, {"w", "out/w", false}, {"*/w", "net/out/w", false}, {"", "out/w", false}, {"/", "out/w", false}, {"[", "[", true}, {"[", "a", false}} {
		if got := weights.Matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q selects %q: %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestValuesThatAreNotFiniteAreRefusedUnlessAsked(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, net(8), trainer.Options{Device: dev})
		before := values(t, tr)
		m := weightsOf(t, tr, 1)
		copy(m.data["hidden/w"][4*5:], floats(float32(math.Inf(-1)), float32(math.NaN())))
		copy(m.data["out/w"][8:], floats(float32(math.Inf(1)))) // the last one in a file
		// A float64 that is finite, and no float32.
		m.tensors[slices.IndexFunc(m.tensors, func(x safetensors.Tensor) bool { return x.Name == "norm/beta" })].DType = safetensors.Float64
		m.data["norm/beta"] = rawBytes([]float64{0, 1e300, 0, 0, 0, 0, 0, -1e-300})
		_, err := weights.LoadFrom(t.Context(), m, tr, weights.LoadOptions{})
		var bad *weights.ValueError
		if !errors.As(err, &bad) || !errors.Is(err, trainer.ErrNonFinite) {
			t.Fatalf("got %v, want a *ValueError", err)
		}
		want := []weights.BadValue{{Name: "hidden/w", Index: 5, Value: "-Inf", Count: 2}, {Name: "norm/beta", Index: 1, Value: "+Inf", Count: 1}, {Name: "out/w", Index: 2, Value: "+Inf", Count: 1}}
		if !reflect.DeepEqual(bad.Tensors, want) {
			t.Errorf("got %+v\nwant %+v", bad.Tensors, want)
		}
		if d := differing(before, values(t, tr)); d != nil {
			t.Errorf("%q changed", d)
		}
		path := filepath.Join(t.TempDir(), "model.safetensors")
		if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := weights.LoadFrom(t.Context(), m, tr, weights.LoadOptions{AllowNonFinite: true}); err != nil {
			t.Fatal(err)
		}
		// Save lists them all, and keeps the former file.
		err = weights.Save(t.Context(), path, tr, weights.SaveOptions{})
		if !errors.As(err, &bad) || !reflect.DeepEqual(sorted(bad.Tensors), want) || bad.Source != path {
			t.Errorf("save: got %v, %+v", err, bad)
		}
		if d := differing(fileValues(t, path), before); d != nil {
			t.Errorf("%q changed in the file", d)
		}
		if err := weights.Save(t.Context(), path, tr, weights.SaveOptions{AllowNonFinite: true}); err != nil {
			t.Fatal(err)
		}
		if d := differing(fileValues(t, path), values(t, tr)); d != nil {
			t.Errorf("%q differ", d)
		}
		other := made(t, net(8), trainer.Options{Device: dev})
		if _, err := weights.Clone(t.Context(), other, tr, weights.LoadOptions{}); !errors.As(err, &bad) {
			t.Errorf("clone: got %v, want a *ValueError", err)
		}
	})
}

func sorted(all []weights.BadValue) []weights.BadValue {
	slices.SortFunc(all, func(a, b weights.BadValue) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Each read of the source fails in turn, before and after the first weight is set, with the former
// values in memory and in a file.
func TestTheWeightsAreAsBeforeAfterAnyFault(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		for _, keep := range []int64{1, 1 << 20} {
			tr := made(t, net(weights.BufferBytes/16+5), trainer.Options{Device: dev})
			before := values(t, tr)
			m := weightsOf(t, tr, 3)
			opt := weights.LoadOptions{}.WithMemory(keep << 10)
			reads := 2 * (len(weightNames) + 1) // hidden/w is read in two pieces, and everything twice
			for m.fail = 1; m.fail <= reads; m.fail++ {
				m.reads = 0
				if _, err := weights.LoadFrom(t.Context(), m, tr, opt); !errors.Is(err, syscall.EIO) || errors.Is(err, weights.ErrPartial) {
					t.Fatalf("read %d: got %v, want EIO", m.fail, err)
				}
				if d := differing(before, values(t, tr)); d != nil {
					t.Fatalf("read %d fails: %q changed", m.fail, d)
				}
			}
			m.reads = 0
			if _, err := weights.LoadFrom(t.Context(), m, tr, opt); err != nil || m.reads != reads {
				t.Errorf("without a fault: %d reads, want %d; %v", m.reads, reads, err)
			}
		}
	})
}

// Cancelled at any time, Load changes nothing or everything.
func TestCancellingChangesNothing(t *testing.T) {
	dev := devices["cpu"](t)
	tr := made(t, net(8), trainer.Options{Device: dev})
	before := values(t, tr)
	m := weightsOf(t, tr, 3)
	for n := 1; ; n++ {
		ctx := &countdown{Context: t.Context(), left: n}
		_, err := weights.LoadFrom(ctx, m, tr, weights.LoadOptions{})
		if err == nil {
			if n < 2*len(weightNames) {
				t.Errorf("ctx was asked %d times only", n)
			}
			break
		}
		if !errors.Is(err, errCountdown) {
			t.Fatalf("got %v", err)
		}
		if d := differing(before, values(t, tr)); d != nil {
			t.Fatalf("cancelled at %d: %q changed", n, d)
		}
	}
}

// The temporary file for former values cannot be made.
func TestWithoutATemporaryFileNothingChanges(t *testing.T) {
	dev := devices["cpu"](t)
	tr := made(t, net(8), trainer.Options{Device: dev})
	before := values(t, tr)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := weights.LoadFrom(t.Context(), weightsOf(t, tr, 3), tr, weights.LoadOptions{}.WithMemory(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	if d := differing(before, values(t, tr)); d != nil {
		t.Errorf("%q changed", d)
	}
}

// A damaged file of every kind is refused, and nothing changes: cut at every offset, one bit of
// every byte flipped.
func TestDamagedFilesAreRefused(t *testing.T) {
	dev := devices["cpu"](t)
	tr := made(t, net(2), trainer.Options{Device: dev})
	path := filepath.Join(t.TempDir(), "model.safetensors")
	check(t, weights.Save(t.Context(), path, tr, weights.SaveOptions{}))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := made(t, net(2), trainer.Options{Device: dev, Seed: 9})
	before := values(t, other)
	refused := func(what string, file []byte) {
		t.Helper()
		check(t, os.WriteFile(path, file, 0o600))
		if _, err := weights.Load(t.Context(), path, other, weights.LoadOptions{RequireChecksum: true}); !errors.Is(err, safetensors.ErrFormat) && !errors.Is(err, safetensors.ErrNoChecksum) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for i := 0; i < len(good); i += 3 { // package safetensors tries all
		refused("a cut", good[:i])
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		refused("a flipped bit", bad)
	}
	if d := differing(before, values(t, other)); d != nil {
		t.Errorf("%q changed", d)
	}
	check(t, os.WriteFile(path, good, 0o600))
	if _, err := weights.Load(t.Context(), path, other, weights.LoadOptions{RequireChecksum: true}); err != nil {
		t.Error(err)
	}
}

// Other programs' files have no checksum.
func TestFilesWithoutAChecksumAreLoadedUnlessOneIsRequired(t *testing.T) {
	dev := devices["cpu"](t)
	tr := made(t, net(8), trainer.Options{Device: dev})
	path := filepath.Join(t.TempDir(), "model.safetensors")
	m := weightsOf(t, tr, 2)
	err := safetensors.Create(t.Context(), path, m.tensors, safetensors.CreateOptions{}, func(x safetensors.Tensor, w io.Writer) error {
		_, err := w.Write(m.data[x.Name])
		return err
	})
	check(t, err)
	if _, err := weights.Load(t.Context(), path, tr, weights.LoadOptions{RequireChecksum: true}); !errors.Is(err, safetensors.ErrNoChecksum) {
		t.Errorf("got %v, want ErrNoChecksum", err)
	}
	if _, err := weights.Load(t.Context(), path, tr, weights.LoadOptions{}); err != nil {
		t.Error(err)
	}
}
