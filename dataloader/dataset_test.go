package dataloader_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// claims is a dataset that says of itself what a test wants.
type claims struct {
	fake
	fields []dataloader.Field
}

func (c *claims) Fields() []dataloader.Field { return c.fields }

func TestADatasetsMistakesAreAllNamed(t *testing.T) {
	good := dataloader.Field{Name: "good", Type: arena.Float32, Shape: []int{3}}
	for _, c := range []struct {
		name   string
		n      int
		fields []dataloader.Field
		class  error
		says   []string
	}{
		{"no samples", 0, []dataloader.Field{good}, dataloader.ErrEmpty, nil},
		{"negative length", -3, []dataloader.Field{good}, dataloader.ErrEmpty, []string{"-3"}},
		{"more samples than an index counts", math.MaxInt, []dataloader.Field{good}, dataloader.ErrOption, []string{"72057594037927936"}},
		{"no fields", 1, nil, dataloader.ErrField, nil},
		{"no name", 1, []dataloader.Field{{Type: arena.Uint8}}, dataloader.ErrField, []string{"field 0"}},
		{"unknown type", 1, []dataloader.Field{{Name: "x", Type: 99}}, dataloader.ErrField, []string{`"x"`, "dtype(99)"}},
		{"zero dimension", 1, []dataloader.Field{good, {Name: "x", Type: arena.Uint8, Shape: []int{2, 0}}}, dataloader.ErrField,
			[]string{`field 1 "x"`, "[2 0]"}},
		{"negative dimension", 1, []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{-2, -2}}}, dataloader.ErrField, []string{"-2"}},
		{"overflow", 1, []dataloader.Field{{Name: "x", Type: arena.Uint8, Shape: []int{1 << 40, 1 << 40}}}, dataloader.ErrField, []string{`"x"`}},
		{"same name", 1, []dataloader.Field{good, good}, dataloader.ErrField, []string{`field 1 "good"`, "field 0"}},
		{"one name three times", 1, []dataloader.Field{{Name: "x", Type: arena.Uint8}, good, good, good}, dataloader.ErrField,
			[]string{`field 2 "good": has the same name as field 1`, `field 3 "good": has the same name as field 1`}},
		{"scale is NaN", 1, []dataloader.Field{{Name: "x", Type: arena.Uint8, Scale: math.NaN()}}, dataloader.ErrField, []string{`"x"`}},
		{"two at once", 0, []dataloader.Field{{Name: "x", Type: 99}}, dataloader.ErrEmpty, []string{`"x"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ds := &claims{fake{n: c.n}, c.fields}
			_, err := dataloader.New(ds, dataloader.Options{Batch: 1})
			for _, err := range []error{dataloader.Check(ds), err} {
				if !errors.Is(err, c.class) {
					t.Fatalf("got %v, want %v", err, c.class)
				}
				for _, s := range c.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("got %q, want it to say %q", err, s)
					}
				}
			}
		})
	}
	if err := dataloader.Check(nil); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("nil dataset: got %v", err)
	}
}

// testColumn makes sure that values of type T arrive bit for bit, in the storage type want, from the caller's memory.
func testColumn[T dataloader.Element](t *testing.T, want arena.DType, from func(uint64) T) {
	t.Run(want.String(), func(t *testing.T) {
		rng := random(t)
		n, width := 1+rng.IntN(20), 1+rng.IntN(5)
		data := make([]T, n*width)
		ds, err := dataloader.FromSlices(n, dataloader.Column("x", data, width))
		if err != nil {
			t.Fatal(err)
		}
		for i := range data { // after the dataset was made: it must not hold a copy
			data[i] = from(rng.Uint64())
		}
		f := ds.Fields()[0]
		if f.Type != want || f.Bytes() != want.Size()*int64(width) || dataloader.SampleBytes(ds) != f.Bytes() {
			t.Errorf("got %v of %d bytes, want %v", f.Type, f.Bytes(), want)
		}
		dst := make([]byte, f.Bytes())
		for i := range n {
			if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{dst}); err != nil {
				t.Fatal(err)
			}
			if got := dataloader.View[T](dst); !slices.Equal(got, data[i*width:(i+1)*width]) {
				t.Fatalf("sample %d: got %v, want %v", i, got, data[i*width:(i+1)*width])
			}
		}
	})
}

func TestColumnsKeepTheirStorageTypeAndAreNotCopied(t *testing.T) {
	type pixel uint8
	testColumn(t, arena.Float32, func(x uint64) float32 { return float32(x) })
	testColumn(t, arena.Float64, func(x uint64) float64 { return float64(x) })
	testColumn(t, arena.Uint8, func(x uint64) uint8 { return uint8(x) })
	testColumn(t, arena.Uint8, func(x uint64) pixel { return pixel(x) })
	testColumn(t, arena.Int32, func(x uint64) int32 { return int32(x) })
	testColumn(t, arena.Int64, func(x uint64) int64 { return int64(x) })
	if math.MaxInt == math.MaxInt64 {
		testColumn(t, arena.Int64, func(x uint64) int { return int(x) })
	}
}

func TestColumnLengthsAreChecked(t *testing.T) {
	_, err := dataloader.FromSlices(3,
		dataloader.Column("good", make([]uint8, 6), 2),
		dataloader.Column("short", make([]uint8, 5), 2),
		dataloader.Column("long", make([]float32, 4)),
		dataloader.Column("none", []int32(nil)))
	for _, name := range []string{"short", "long", "none"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %q", err, name)
		}
	}
	var f *dataloader.FieldError
	if !errors.Is(err, dataloader.ErrField) || !errors.As(err, &f) || strings.Contains(err.Error(), "good") {
		t.Errorf("got %v, want field errors for three of four columns", err)
	}
	if _, err := dataloader.FromSlices(0, dataloader.Column("x", []uint8{})); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("no samples: got %v", err)
	}
	if _, err := dataloader.FromSlices(1); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("no columns: got %v", err)
	}
}

func TestViewRefusesWhatIsNotWholeOrAligned(t *testing.T) {
	b := dataloader.View[uint8](make([]byte, 16))
	if got := dataloader.View[float32](b[:7]); got != nil {
		t.Errorf("7 bytes: got %v", got)
	}
	if a, o := dataloader.View[float32](b[0:4]), dataloader.View[float32](b[1:5]); (a == nil) == (o == nil) {
		t.Errorf("offsets 0 and 1: got %v and %v, want one of them refused", a, o)
	}
	if got := dataloader.View[int64](nil); got != nil {
		t.Errorf("nothing: got %v", got)
	}
}

func TestSubsetsKeepTheirSamples(t *testing.T) {
	ds := &fake{n: 10}
	head, tail, err := dataloader.Split(ds, 7)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := drain(t, open(t, ds, dataloader.Options{Batch: 4, Seed: 5}), 2, slots(ds, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	var ids []int
	var draws []uint64
	for _, part := range []dataloader.Dataset{head, tail} {
		s, err := drain(t, open(t, part, dataloader.Options{Batch: 4, Seed: 5}), 2, slots(ds, 2, 4))
		if err != nil {
			t.Fatal(err)
		}
		ids, draws = append(ids, s.IDs...), append(draws, s.Draws...)
	}
	if !slices.Equal(ids, whole.IDs) || !slices.Equal(draws, whole.Draws) {
		t.Errorf("got %v %v, want %v %v", ids, draws, whole.IDs, whole.Draws)
	}
	for _, c := range []struct {
		from, to int
		class    error
	}{{-1, 3, dataloader.ErrOption}, {0, 11, dataloader.ErrOption}, {4, 3, dataloader.ErrOption}, {3, 3, dataloader.ErrEmpty}} {
		if _, err := dataloader.Subset(ds, c.from, c.to); !errors.Is(err, c.class) {
			t.Errorf("subset [%d, %d): got %v, want %v", c.from, c.to, err, c.class)
		}
	}
	for _, n := range []int{0, 10, 11, -1} {
		if _, _, err := dataloader.Split(ds, n); err == nil {
			t.Errorf("split at %d of 10: got no error", n)
		}
	}
}

func TestMapsChangeSamplesInPlaceWithDrawsOfTheirOwn(t *testing.T) {
	var outer, inner []uint64
	ds := dataloader.Map(dataloader.Map(&fake{n: 4}, func(at dataloader.At, s [][]byte) error {
		r := at.Rand()
		inner = append(inner, r.Uint64())
		s[0][0] += 10
		return nil
	}), func(at dataloader.At, s [][]byte) error {
		r := at.Rand()
		outer = append(outer, r.Uint64())
		s[0][0] *= 2
		return nil
	})
	got, err := drain(t, open(t, ds, dataloader.Options{Batch: 4, Workers: 1}), 0, slots(ds, 1, 4))
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{20, 22, 24, 26}; !slices.Equal(got.IDs, want) {
		t.Errorf("got %v, want %v", got.IDs, want)
	}
	all := slices.Concat(outer, inner, got.Draws)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 12 {
		t.Errorf("got %d distinct draws, want 12", n)
	}
	bad := errors.New("bad pixel")
	ds = dataloader.Map(&fake{n: 4}, func(at dataloader.At, _ [][]byte) error {
		if at.Index == 2 {
			return bad
		}
		return nil
	})
	_, err = drain(t, open(t, ds, dataloader.Options{Batch: 4}), 0, slots(ds, 1, 4))
	var s *dataloader.SampleError
	if !errors.Is(err, bad) || !errors.As(err, &s) || s.Index != 2 {
		t.Errorf("got %v, want sample 2: bad pixel", err)
	}
}

func TestIndicesIsADatasetOfIndices(t *testing.T) {
	ds := dataloader.Indices(10)
	s := slots(ds, 2, 4)
	l := open(t, ds, dataloader.Options{Batch: 4, Shuffle: true, Seed: 3})
	r := start(t, l, 1, s)
	defer r.Close()
	for range 3 {
		b, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := dataloader.View[int32](s[b.Slot].Fields[0])[:b.Rows]; !slices.Equal(wide(got), b.Indices) {
			t.Errorf("got %v, want %v", got, b.Indices)
		}
		if err := r.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := dataloader.Check(dataloader.Indices(0)); !errors.Is(err, dataloader.ErrEmpty) {
		t.Errorf("got %v", err)
	}
}
