package dataloader_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// moments computes the statistics of one channel in a second, independent way: with the mean first.
func moments(x []float64) (mean, variance, low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range x {
		mean += v / float64(len(x))
		low, high = min(low, v), max(high, v)
	}
	for _, v := range x {
		variance += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, variance, low, high
}

// statsCase is a dataset of n samples [2, 3, 4] with a large mean.
func statsCase[T dataloader.Element](t *testing.T, r *rand.Rand, n int) (dataloader.Dataset, []float64) {
	t.Helper()
	data, values := make([]T, n*24), make([]float64, n*24)
	for i := range data {
		data[i] = T(200 + 9*r.NormFloat64())
		values[i] = 4 - 3*float64(data[i])
	}
	return must[*dataloader.Slices](t)(dataloader.FromSlices(n, dataloader.Column("other", make([]uint8, n)), dataloader.Column("x", data, 2, 3, 4).Scaled(-3, 4))), values
}

func TestStatsAreThoseOfEachChannelWhateverTheWorkers(t *testing.T) {
	r := random(t)
	const n = 301
	cases := map[string]func() (dataloader.Dataset, []float64){
		"uint8":   func() (dataloader.Dataset, []float64) { return statsCase[uint8](t, r, n) },
		"int32":   func() (dataloader.Dataset, []float64) { return statsCase[int32](t, r, n) },
		"int64":   func() (dataloader.Dataset, []float64) { return statsCase[int64](t, r, n) },
		"float32": func() (dataloader.Dataset, []float64) { return statsCase[float32](t, r, n) },
		"float64": func() (dataloader.Dataset, []float64) { return statsCase[float64](t, r, n) },
	}
	for name, build := range cases {
		ds, values := build()
		for _, opt := range []dataloader.StatsOptions{{Axis: 0}, {Axis: 1}, {Axis: 2}, {Whole: true}} {
			opt.Workers = 1
			one, err := dataloader.Stats(t.Context(), ds, "x", opt)
			if err != nil {
				t.Fatal(err)
			}
			last := 0
			opt.Workers, opt.Progress = 5, func(done, total int) {
				if done <= last || total != n {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}
			five, err := dataloader.Stats(t.Context(), ds, "x", opt)
			if err != nil || last != n {
				t.Fatalf("%v, progress ends at %d", err, last)
			}
			if !slices.Equal(one.Mean, five.Mean) || !slices.Equal(one.Variance, five.Variance) || !slices.Equal(one.Min, five.Min) || !slices.Equal(one.Max, five.Max) {
				t.Errorf("%s: one worker gives %v, five give %v", name, one, five)
			}
			channels := []int{2, 3, 4}[opt.Axis]
			stride, axis := []int{12, 4, 1}[opt.Axis], opt.Axis
			if opt.Whole {
				channels, stride, axis = 1, 1, -1
			}
			if len(one.Mean) != channels || one.Axis != axis || one.Count != int64(len(values)/channels) {
				t.Fatalf("%s: axis %d: %v", name, axis, one)
			}
			for c := range channels {
				var x []float64
				for i, v := range values {
					if i/stride%channels == c {
						x = append(x, v)
					}
				}
				mean, variance, low, high := moments(x)
				if math.Abs(one.Mean[c]-mean) > 1e-12*math.Abs(mean) || math.Abs(one.Variance[c]-variance) > 1e-10*variance || one.Min[c] != low || one.Max[c] != high {
					t.Errorf("%s: channel %d: mean %v, variance %v, %v to %v, want %v, %v, %v to %v",
						name, c, one.Mean[c], one.Variance[c], one.Min[c], one.Max[c], mean, variance, low, high)
				}
			}
		}
	}
}

// The variance of values about 10⁹ is lost if squares are summed.
func TestStatsKeepTheVarianceOfLargeValues(t *testing.T) {
	x := make([]float64, 10_000)
	for i := range x {
		x[i] = 1e9 + float64(i%2)
	}
	ds := must[*dataloader.Slices](t)(dataloader.FromSlices(len(x), dataloader.Column("x", x)))
	m, err := dataloader.Stats(t.Context(), ds, "x", dataloader.StatsOptions{})
	if err != nil || math.Abs(m.Variance[0]-0.25) > 1e-9 || m.Mean[0] != 1e9+0.5 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestNormalizedFieldsHaveMean0AndVariance1(t *testing.T) {
	r := random(t)
	for _, whole := range []bool{false, true} {
		ds, _ := statsCase[uint8](t, r, 200)
		opt := dataloader.StatsOptions{Axis: 1, Whole: whole}
		m, err := dataloader.Stats(t.Context(), ds, "x", opt)
		if err != nil {
			t.Fatal(err)
		}
		normal := must[dataloader.Dataset](t)(dataloader.Normalize(ds, m))
		f := normal.Fields()[1]
		if whole {
			after, err := dataloader.Stats(t.Context(), normal, "x", opt)
			if err != nil || f.Type != arena.Uint8 || math.Abs(after.Mean[0]) > 1e-12 || math.Abs(after.Variance[0]-1) > 1e-12 {
				t.Errorf("field %+v has %+v, %v", f, after, err)
			}
		} else {
			after, err := dataloader.Stats(t.Context(), normal, "x", opt)
			if err != nil || f.Type != arena.Float32 || f.Scale != 0 || f.Shift != 0 {
				t.Fatalf("field %+v, %v", f, err)
			}
			for c := range 3 {
				if math.Abs(after.Mean[c]) > 1e-6 || math.Abs(after.Variance[c]-1) > 1e-6 {
					t.Errorf("channel %d has mean %v and variance %v", c, after.Mean[c], after.Variance[c])
				}
			}
		}
		if dataloader.Fingerprint(normal) == dataloader.Fingerprint(ds) {
			t.Error("the fingerprint is that of the dataset")
		}
		dst := [][]byte{make([]byte, 1), make([]byte, 96)}
		if !whole {
			if n := testing.AllocsPerRun(100, func() { _ = normal.Fetch(t.Context(), dataloader.At{}, dst) }); n != 0 {
				t.Errorf("Fetch allocates %v times", n)
			}
		}
		m.Mean = m.Mean[:0]
		if _, err := dataloader.Normalize(ds, m); !errors.Is(err, dataloader.ErrField) {
			t.Errorf("moments of another shape: %v", err)
		}
	}
}

func TestStatsReportWhatTheyCannotRead(t *testing.T) {
	x := slices.Repeat([]float32{1}, 300)
	x[200] = float32(math.NaN())
	x[251] = float32(math.Inf(1))
	ds := must[*dataloader.Slices](t)(dataloader.FromSlices(150, dataloader.Column("x", x, 2)))
	stats := func(ds dataloader.Dataset, field string, opt dataloader.StatsOptions) error {
		_, err := dataloader.Stats(t.Context(), ds, field, opt)
		return err
	}
	for want, c := range map[string]struct{ got, is error }{
		"sample 100: field 0 \"x\": element 0 is not finite": {stats(ds, "x", dataloader.StatsOptions{}), dataloader.ErrField},
		"\"y\": the dataset has the fields":                  {stats(ds, "y", dataloader.StatsOptions{}), dataloader.ErrOption},
		"axis 1 of shape [2]":                                {stats(ds, "x", dataloader.StatsOptions{Axis: 1}), dataloader.ErrOption},
		"axis -1 of shape":                                   {stats(ds, "x", dataloader.StatsOptions{Axis: -1}), dataloader.ErrOption},
		"workers -1":                                         {stats(ds, "x", dataloader.StatsOptions{PassOptions: dataloader.PassOptions{Workers: -1}}), dataloader.ErrOption},
		"nil dataset":                                        {stats(nil, "x", dataloader.StatsOptions{}), dataloader.ErrOption},
	} {
		if c.got == nil || !errors.Is(c.got, c.is) || !strings.Contains(c.got.Error(), want) {
			t.Errorf("%q: got %v", want, c.got)
		}
	}
}

// The first error in the order of samples is returned, whichever worker meets it first.
func TestAPassEndsWithTheFirstErrorAndWithItsContext(t *testing.T) {
	early, late := errors.New("early"), errors.New("late")
	ds := &fake{n: 2000, fetch: func(_ context.Context, at dataloader.At, _ [][]byte) error {
		switch at.Index {
		case 70:
			time.Sleep(20 * time.Millisecond)
			return early
		case 200:
			return late
		case 300:
			panic("of a dataset")
		}
		return nil
	}}
	opt := dataloader.PassOptions{Workers: 4}
	if _, err := dataloader.Labels(t.Context(), ds, "id", opt); !errors.Is(err, early) || !strings.Contains(err.Error(), "sample 70") {
		t.Errorf("got %v", err)
	}
	ds.fetch = func(_ context.Context, at dataloader.At, _ [][]byte) error {
		if at.Index == 300 {
			panic("of a dataset")
		}
		return nil
	}
	if _, err := dataloader.Labels(t.Context(), ds, "id", opt); !errors.Is(err, dataloader.ErrPanic) || !strings.Contains(err.Error(), "sample 300") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	ds.fetch = func(context.Context, dataloader.At, [][]byte) error {
		cancel()
		<-release // ignores its context
		return nil
	}
	within(t, "a pass with a stuck Fetch", 5*time.Second, func() {
		if _, err := dataloader.Labels(ctx, ds, "id", opt); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	close(release)
}

func TestLabelsAreReadInOrder(t *testing.T) {
	for name, ds := range map[string]dataloader.Dataset{
		"uint8": must[*dataloader.Slices](t)(dataloader.FromSlices(3, dataloader.Column("y", []uint8{5, 0, 255}))),
		"int32": must[*dataloader.Slices](t)(dataloader.FromSlices(3, dataloader.Column("y", []int32{5, 0, 255}))),
		"int64": must[*dataloader.Slices](t)(dataloader.FromSlices(3, dataloader.Column("y", []int64{5, 0, 255}))),
	} {
		if got, err := dataloader.Labels(t.Context(), ds, "y", dataloader.PassOptions{}); err != nil || !slices.Equal(got, []int{5, 0, 255}) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if _, err := dataloader.Labels(t.Context(), three(t), "c", dataloader.PassOptions{}); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("labels of floats: %v", err)
	}
	if _, err := dataloader.Labels(t.Context(), three(t), "b", dataloader.PassOptions{}); !errors.Is(err, dataloader.ErrField) {
		t.Errorf("labels of pairs: %v", err)
	}
}

func TestOneHotIs1AtTheClass(t *testing.T) {
	ds := must[dataloader.Dataset](t)(dataloader.OneHot(three(t), "a", 4)) // classes 1, 2, 3
	for i := range 3 {
		want := make([]byte, 4)
		want[i+1] = 1
		if got := fetched(t, ds, i)["a"]; !slices.Equal(got, want) {
			t.Errorf("sample %d: got %v", i, got)
		}
	}
	pairs := must[dataloader.Dataset](t)(dataloader.OneHot(three(t), "b", 7))
	if got := fetched(t, pairs, 1)["b"]; !slices.Equal(got, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}) || !slices.Equal(pairs.Fields()[1].Shape, []int{2, 7}) {
		t.Errorf("got %v of %+v", got, pairs.Fields()[1])
	}
	few := must[dataloader.Dataset](t)(dataloader.OneHot(three(t), "a", 3))
	dst := [][]byte{make([]byte, 3), make([]byte, 2), make([]byte, 4)}
	if err := few.Fetch(t.Context(), dataloader.At{Index: 2}, dst); !errors.Is(err, dataloader.ErrField) || !strings.Contains(err.Error(), "class 3: must be 0 to 2") {
		t.Errorf("a class beyond: %v", err)
	}
	for field, is := range map[string]error{"c": dataloader.ErrField, "z": dataloader.ErrOption} {
		if _, err := dataloader.OneHot(three(t), field, 4); !errors.Is(err, is) {
			t.Errorf("field %q: %v", field, err)
		}
	}
	if _, err := dataloader.OneHot(three(t), "a", 0); !errors.Is(err, dataloader.ErrOption) {
		t.Errorf("no classes: %v", err)
	}
}
