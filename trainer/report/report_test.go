package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/trainer/report"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files in testdata")

// scratchBuffers are those of one training step of 784-512-256-10, batch 128.
func scratchBuffers() []arena.Buffer {
	const row = 4 * 128
	b := func(owner, name string, size int64, start, end int32) arena.Buffer {
		return arena.Buffer{Owner: owner, Name: name, Size: size, Start: start, End: end}
	}
	return []arena.Buffer{
		b("", "x", row*784, 0, 17), b("hidden", "hidden/act", row*512, 1, 16), b("second", "second/act", row*256, 2, 13),
		b("out", "out/out", row*10, 3, 8), b("loss", "loss/rows", row, 4, 6), b("", "correct", row, 5, 7),
		b("loss", "loss", 4, 6, 9), b("out", "d out/out", row*10, 8, 12), b("out", "d out/w", 4*256*10, 9, 10),
		b("out", "d out/b", 4*10, 10, 11), b("second", "d second/act", row*256, 11, 15), b("second", "d second/w", 4*512*256, 13, 14),
		b("second", "d second/b", 4*256, 14, 15), b("hidden", "d hidden/act", row*512, 14, 19), b("hidden", "d hidden/w", 4*784*512, 16, 18),
		b("hidden", "d hidden/b", 4*512, 18, 19),
	}
}

// plan returns the plan of 784-512-256-10 with Adam.
func plan(t testing.TB) report.Plan {
	t.Helper()
	buffers := scratchBuffers()
	solved, err := arena.Solve(context.Background(), arena.Problem{Buffers: buffers})
	if err != nil {
		t.Fatal(err)
	}
	var l arena.Layout
	sizes := []struct {
		layer string
		w, b  int64
	}{{"hidden", 784 * 512, 512}, {"second", 512 * 256, 256}, {"out", 256 * 10, 10}}
	params, state := l.Region("parameters"), l.Region("state")
	for _, s := range sizes {
		l.Place(params, s.layer, s.layer+"/w", 4*s.w)
		l.Place(params, s.layer, s.layer+"/b", 4*s.b)
		for _, k := range []string{"m", "v"} {
			l.Place(state, s.layer, s.layer+"/w "+k, 4*s.w)
			l.Place(state, s.layer, s.layer+"/b "+k, 4*s.b)
		}
	}
	for _, name := range []string{"slot 0", "slot 1"} {
		r := l.Region(name)
		l.Place(r, "", "x", 128*784)
		l.Place(r, "", "y", 128)
		l.Place(r, "", "controls", 64)
	}
	l.Place(l.Region("results"), "", "loss", 4)
	l.Reserve(l.Region("scratch"), solved.Bytes)
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	var labels []string
	for i := range 20 {
		labels = append(labels, fmt.Sprintf("call %d", i))
	}
	train := report.Program{
		Name: "train 128", Batch: 128, Instructions: 20, Scratch: solved.Bytes, Live: solved.Live,
		LiveAt: labels[solved.LiveAt], Buffers: buffers, Offsets: solved.Offsets, Labels: labels,
	}
	evaluate := report.Program{
		Name: "evaluate 128", Batch: 128, Instructions: 6, Scratch: 4 * 128 * 1296, Live: 4 * 128 * 1296, LiveAt: "hidden/xw",
		Fallbacks: []string{"pool/max"}, Doubts: []string{`"gate" may be two slices`}, Notes: []string{"bias and activation are part of 3 matmuls"},
	}
	train.Specs, train.Ops, train.Passes = []string{"float32 (128, 784)"}, []string{"cast"}, []report.Pass{report.Forward, report.Backward}
	return report.Plan{Device: "cpu", Mode: "streaming", Regions: l.Regions(), Programs: []report.Program{train, evaluate}, Total: l.Total()}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -rewrite, and read the difference. Got:\n%s", path, got)
	}
}

func TestThePlanAsTextIsTheGoldenFile(t *testing.T) {
	t.Parallel()
	golden(t, "plan.txt", []byte(plan(t).String()))
}

func TestRegionsAndLayersAddUpToTheArena(t *testing.T) {
	t.Parallel()
	p := plan(t)
	var regions, layers, cells int64
	for _, r := range p.Regions {
		regions += r.Size
	}
	for _, l := range p.Layers() {
		layers += l.Total
		for _, n := range l.Bytes {
			cells += n
		}
	}
	if regions != p.Total || layers != p.Total || cells != p.Total {
		t.Errorf("regions %d, layers %d, their cells %d, arena %d: want all the same", regions, layers, cells, p.Total)
	}
	if got := p.Layers()[0]; got.Name != "hidden" || got.Total != 3*4*(784*512+512) {
		t.Errorf("first layer is %q with %d bytes, want hidden with %d", got.Name, got.Total, 3*4*(784*512+512))
	}
}

func TestCategoryCountsNumberedRegionsTogether(t *testing.T) {
	t.Parallel()
	p := plan(t)
	one := p.Category("slot 0")
	if one == 0 || p.Category("slot") != 2*one {
		t.Errorf("slot 0 has %d bytes and all slots %d, want twice as many", one, p.Category("slot"))
	}
	if got := p.Category("nothing"); got != 0 {
		t.Errorf("a category that is not there has %d bytes", got)
	}
}

func TestTopListsTheLargestTensorsFirst(t *testing.T) {
	t.Parallel()
	top := plan(t).Top(5)
	if len(top) != 5 {
		t.Fatalf("got %d, want 5", len(top))
	}
	var got []string
	for _, s := range top {
		got = append(got, fmt.Sprint(s.Region, ": ", s.Label(), " ", s.Bytes))
	}
	want := []string{
		"parameters: hidden/w 1605632", "scratch: d hidden/w 1605632", "state: hidden/w m 1605632", "state: hidden/w v 1605632",
		"parameters: second/w 524288",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(plan(t).Top(math.MaxInt)); n < 12 {
		t.Errorf("all tensors are %d, want 12 or more", n)
	}
	if n := len(plan(t).Top(-1)); n != 0 {
		t.Errorf("Top(-1) has %d", n)
	}
}

func TestJSONHoldsTheWholePlan(t *testing.T) {
	t.Parallel()
	p := plan(t)
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Total   int64 `json:"total_bytes"`
		Regions []struct {
			Name  string `json:"name"`
			Bytes int64  `json:"bytes"`
			Parts []any  `json:"parts"`
		} `json:"regions"`
		Programs []struct {
			Scratch   int64    `json:"scratch_bytes"`
			Fallbacks []string `json:"fallbacks"`
			Doubts    []string `json:"doubts"`
			Buffers   []struct {
				Offset int64 `json:"offset"`
				Bytes  int64 `json:"bytes"`
			} `json:"buffers"`
		} `json:"programs"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, r := range got.Regions {
		sum += r.Bytes
	}
	if got.Total != p.Total || sum != p.Total {
		t.Errorf("total %d, sum of regions %d, want %d", got.Total, sum, p.Total)
	}
	for i, b := range got.Programs[0].Buffers {
		if b.Offset != p.Programs[0].Offsets[i] || b.Bytes != p.Programs[0].Buffers[i].Size {
			t.Errorf("buffer %d is %+v", i, b)
		}
	}
	if !slices.Equal(got.Programs[1].Fallbacks, []string{"pool/max"}) {
		t.Errorf("fallbacks %v", got.Programs[1].Fallbacks)
	}
	if !slices.Equal(got.Programs[1].Doubts, p.Programs[1].Doubts) {
		t.Errorf("doubts %v", got.Programs[1].Doubts)
	}
	if strings.Contains(b.String(), "null") {
		t.Error("an empty list is null")
	}
	if s := b.String(); !strings.Contains(s, `"spec": "float32 (128, 784)"`) || !strings.Contains(s, `"ops": [
        "cast"`) || !strings.Contains(s, `"backward"`) {
		t.Errorf("no shape, operation or pass in\n%.3000s", s)
	}
}

func TestOddPlansAreShownToo(t *testing.T) {
	t.Parallel()
	long := plan(t)
	long.Programs[0].Instructions = 5000
	for _, c := range []struct {
		name string
		p    report.Plan
	}{
		{"empty", report.Plan{}},
		{"no programs", report.Plan{Device: "cpu", Total: 512, Regions: []arena.RegionInfo{{Name: "parameters", Size: 512}}}},
		{"a program without buffers", report.Plan{Programs: []report.Program{{Name: "train 1"}}}},
		{"zero-size buffers", report.Plan{Programs: []report.Program{{Buffers: []arena.Buffer{{Name: "x", Start: 0, End: 1}}, Offsets: []int64{0}}}}},
		{"offsets missing", report.Plan{Programs: []report.Program{{Scratch: 512, Live: 512, Buffers: []arena.Buffer{{Name: "x", Size: 512, Start: 0, End: 1}}}}}},
		{"very large", report.Plan{Total: math.MaxInt64, Regions: []arena.RegionInfo{{Name: "scratch", Size: math.MaxInt64}}, Programs: []report.Program{{Scratch: math.MaxInt64}}}},
		{"many instructions", long},
		{"a long life", report.Plan{Programs: []report.Program{{Scratch: 512, Buffers: []arena.Buffer{{Name: "x", Size: 512, End: math.MaxInt32}}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s := c.p.String(); !strings.Contains(s, "arena") {
				t.Errorf("the table has no total: %q", s)
			}
			if err := c.p.JSON(io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
}

// A screen has 100 columns: long names are shortened, small categories counted as other, and notes wrapped.
func TestNoLineIsWiderThanAScreen(t *testing.T) {
	t.Parallel()
	p := plan(t)
	for i := range 9 {
		p.Regions = append(p.Regions, arena.RegionInfo{Name: fmt.Sprintf("category %c", 'a'+i), Size: 1 << 40, Parts: []arena.Part{
			{Owner: strings.Repeat("layer/", 30), Name: "w", Size: 1 << 40}}})
		p.Total += 1 << 40
	}
	q := &p.Programs[0]
	q.LiveAt, q.Notes = strings.Repeat("block/", 30), []string{strings.Repeat("words of a long note ", 20)}
	c := report.Choices{Limit: 1 << 40, Best: -1, Choices: []report.Choice{{Total: 1 << 40, Regions: map[string]int64{"scratch": 1 << 40}}, {Total: 1 << 41}}}
	for range 6 {
		c.Axes = append(c.Axes, "recompute")
		c.Choices[0].Settings = append(c.Choices[0].Settings, "hidden1, hidden2")
		c.Choices[1].Settings = append(c.Choices[1].Settings, "state, parameters")
	}
	for columns, text := range map[int]string{100: p.String() + c.String(), 80: p.Text(80) + c.Text(80)} {
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
				t.Errorf("%d columns, want at most %d: %s", n, columns, line)
			}
		}
	}
	if text := p.String(); !strings.Contains(text, "category i") || !strings.Contains(text, "…") {
		t.Errorf("nothing is shown of the largest category, or no name is shortened:\n%s", text)
	}
}

func TestATimeThatRoundsToNothingHasNoMinus(t *testing.T) {
	t.Parallel()
	c := report.Choices{Best: -1, Axes: []string{"batch"}, Choices: []report.Choice{{Settings: []string{"64"}, Time: -0.004}}}
	if text := c.String(); !strings.Contains(text, "+0 %") {
		t.Errorf("got\n%s", text)
	}
}

type fullDisk struct{}

var errFull = errors.New("disk is full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWritersErrorsAreReturned(t *testing.T) {
	t.Parallel()
	p := plan(t)
	if err := p.JSON(fullDisk{}); !errors.Is(err, errFull) {
		t.Errorf("JSON: got %v, want %v", err, errFull)
	}
}
