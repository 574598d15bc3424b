package picture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/report"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden file in testdata")

// buffers are those of one training step of 784-512-256-10 with a batch of 128.
func buffers() []arena.Buffer {
	const row = 4 * 128
	b := func(owner, name string, size int64, start, end int32) arena.Buffer {
		return arena.Buffer{Owner: owner, Name: name, Size: size, Start: start, End: end}
	}
	return []arena.Buffer{
		b("", "x", row*784, 0, 17), b("hidden", "hidden/act", row*512, 1, 16), b("second", "second/act", row*256, 2, 13),
		b("out", "out/out", row*10, 3, 8), b("loss", "loss/rows", row, 4, 6), b("", "correct", row, 5, 7),
		b("loss", "loss", 4, 6, 9), b("out", "dout/out", row*10, 8, 12), b("out", "dout/w", 4*256*10, 9, 10),
		b("out", "dout/b", 4*10, 10, 11), b("second", "dsecond/act", row*256, 11, 15), b("second", "dsecond/w", 4*512*256, 13, 14),
		b("second", "dsecond/b", 4*256, 14, 15), b("hidden", "dhidden/act", row*512, 14, 19), b("hidden", "dhidden/w", 4*784*512, 16, 18),
		b("hidden", "dhidden/b", 4*512, 18, 19),
	}
}

// plan returns the plan of 784-512-256-10 with Adam.
func plan(t testing.TB) *report.Plan {
	t.Helper()
	solved, err := arena.Solve(context.Background(), arena.Problem{Buffers: buffers()})
	if err != nil {
		t.Fatal(err)
	}
	var l arena.Layout
	params, state := l.Region("parameters"), l.Region("optimizer state")
	for _, s := range []struct {
		layer string
		w, b  int64
	}{{"hidden", 784 * 512, 512}, {"second", 512 * 256, 256}, {"out", 256 * 10, 10}} {
		l.Place(params, s.layer, s.layer+"/w", 4*s.w)
		l.Place(params, s.layer, s.layer+"/b", 4*s.b)
		for _, k := range []string{"m", "v"} {
			l.Place(state, s.layer, s.layer+"/w/"+k, 4*s.w)
			l.Place(state, s.layer, s.layer+"/b/"+k, 4*s.b)
		}
	}
	for _, name := range []string{"slot 0", "slot 1"} {
		r := l.Region(name)
		l.Place(r, "", "x", 128*784)
		l.Place(r, "", "y", 128)
	}
	l.Place(l.Region("results"), "", "loss", 4)
	l.Reserve(l.Region("scratch"), solved.Bytes)
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	train := report.Program{
		Name: "train 128", Batch: 128, Instructions: 20, Scratch: solved.Bytes, Live: solved.Live, Time: 100, LiveAt: fmt.Sprint("call ", solved.LiveAt),
		Buffers: buffers(), Offsets: solved.Offsets, Notes: []string{"placed by a test"}, Specs: []string{"float32 (128, 784)"},
	}
	for i := range 20 {
		pass := report.Forward
		if i > 7 {
			pass = report.Backward
		}
		train.Labels, train.Ops, train.Passes = append(train.Labels, fmt.Sprint("call ", i)), append(train.Ops, "matmul"), append(train.Passes, pass)
	}
	evaluate := report.Program{Name: "evaluate 128", Batch: 128, Instructions: 6, Scratch: 4 * 128 * 1296, Live: 4 * 128 * 1296}
	return &report.Plan{Device: "cpu", Mode: "streaming", Regions: l.Regions(), Programs: []report.Program{train, evaluate}, Total: l.Total()}
}

// draw returns a picture.
func draw(t testing.TB, f picture.Format, p *report.Plan, opt picture.Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := picture.Write(&b, f, p, opt); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheMapIsTheGoldenFile(t *testing.T) {
	t.Parallel()
	got, path := draw(t, picture.SVG, plan(t), picture.Options{}), filepath.Join("testdata", "plan.svg")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs, %v; go test -rewrite, and look at it", path, err)
	}
}

// wellFormed parses XML and returns the text in it, an element a line.
func wellFormed(t *testing.T, doc []byte) string {
	t.Helper()
	var text strings.Builder
	d := xml.NewDecoder(bytes.NewReader(doc))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("not well formed: %v", err)
		}
		if c, ok := token.(xml.CharData); ok {
			text.Write(append(c, '\n'))
		}
	}
}

// number parses 1,234.
func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheNumbersOfTheMapAddUp(t *testing.T) {
	t.Parallel()
	p := plan(t)
	text := wellFormed(t, draw(t, picture.SVG, p, picture.Options{}))
	isRegion := map[string]bool{}
	for _, r := range p.Regions {
		isRegion[r.Name] = true
	}
	var regions, parts int64
	for _, m := range regexp.MustCompile(`(?m)^(.+): ([0-9,]+) bytes at ([0-9,]+)$`).FindAllStringSubmatch(text, -1) {
		size, at := number(t, m[2]), number(t, m[3])
		if !isRegion[m[1]] {
			parts += size
			continue
		}
		if at != regions {
			t.Errorf("%s is at %d, want %d, the end of the region before it", m[1], at, regions)
		}
		regions += size
	}
	if regions != p.Total || parts == 0 || parts > p.Total {
		t.Errorf("regions of %d bytes and parts of %d, in an arena of %d", regions, parts, p.Total)
	}
	tips := regexp.MustCompile(`: ([0-9,]+) bytes at [0-9,]+, instructions`).FindAllStringSubmatch(text, -1)
	if len(tips) != len(buffers()) {
		t.Fatalf("%d buffers in the map, want %d", len(tips), len(buffers()))
	}
	for i, b := range buffers() {
		if n := number(t, tips[i][1]); n != b.Size {
			t.Errorf("%s has %d bytes in the map, want %d", b.Name, n, b.Size)
		}
	}
}

// The bar of a PNG has each region in its place, in the colour of its layer.
func TestThePNGHasTheSameMap(t *testing.T) {
	t.Parallel()
	p := plan(t)
	m, err := png.Decode(bytes.NewReader(draw(t, picture.PNG, p, picture.Options{})))
	if err != nil {
		t.Fatal(err)
	}
	if w := m.Bounds().Dx(); w != 2*1280 {
		t.Errorf("%d dots wide, want %d", w, 2*1280)
	}
	for name, want := range map[string]color.RGBA{"hidden/w": {0x4e, 0x79, 0xa7, 255}, "second/w": {0xf2, 0x8e, 0x2b, 255}} {
		part := p.Regions[0].Parts[0]
		for _, q := range p.Regions[0].Parts {
			if q.Name == name {
				part = q
			}
		}
		middle := float64(part.Offset) + float64(part.Size)/2
		y := int(2 * (596 - 500*middle/float64(p.Total)))
		if got := color.RGBAModel.Convert(m.At(2*60, y)); got != want {
			t.Errorf("%s, at %d: colour %v, want %v", name, y, got, want)
		}
	}
}

// embedded returns the data of a page.
func embedded(t *testing.T, page []byte) (d struct {
	Plans []struct {
		Name    string
		Total   int64
		Regions []struct {
			Name  string
			At    int64
			Bytes int64
			Parts []struct {
				N string
				B int64
				L int
			}
		}
		Layers   []struct{ Total int64 }
		Programs []struct {
			Live      int64
			Livebytes [][2]int64
			Atpeak    map[string]int64
			Passes    string
			Buffers   []struct {
				N, S string
				L    int
			}
		}
	}
	Lines   [][]string
	Changes *picture.Changes
}) {
	t.Helper()
	_, after, _ := strings.Cut(string(page), `<script type="application/json" id="data">`)
	text, _, ok := strings.Cut(after, "</script>")
	if !ok {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheNumbersOfThePageAddUp(t *testing.T) {
	t.Parallel()
	p := plan(t)
	d := embedded(t, draw(t, picture.HTML, p, picture.Options{})).Plans[0]
	var regions, layers, peak, most int64
	for _, r := range d.Regions {
		if r.At != regions {
			t.Errorf("%s is at %d, want %d", r.Name, r.At, regions)
		}
		regions += r.Bytes
	}
	for _, l := range d.Layers {
		layers += l.Total
	}
	for _, n := range d.Programs[0].Atpeak {
		peak += n
	}
	for _, s := range d.Programs[0].Livebytes {
		most = max(most, s[1])
	}
	if d.Total != p.Total || regions != p.Total || layers != p.Total {
		t.Errorf("total %d, regions %d, layers %d, want %d", d.Total, regions, layers, p.Total)
	}
	if live := p.Programs[0].Live; d.Programs[0].Live != live || peak != live || most != live {
		t.Errorf("peak %d, of layers %d, over time %d, want %d", d.Programs[0].Live, peak, most, live)
	}
	if d.Programs[0].Passes != strings.Repeat("f", 8)+strings.Repeat("b", 12) || d.Programs[0].Buffers[0].S != "float32 (128, 784)" {
		t.Errorf("passes %q, first buffer %+v", d.Programs[0].Passes, d.Programs[0].Buffers[0])
	}
}

// The plans of a trainer name the shape of every tensor and the lines of every layer, and add up.
func TestPlansOfTrainersAreDrawnInFull(t *testing.T) {
	t.Parallel()
	lines, err := layers.Sources(classifier, 32)
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]trainer.Options{
		"adam":        {Optimizer: optim.Adam{}},
		"freed":       {Optimizer: optim.Adam{Storage: optim.Block8}, Guard: trainer.GuardEach},
		"accumulated": {Accumulate: 4, GradientNorm: true},
		"averaged":    {Average: optim.Average{Decay: 0.9}, Precision: arena.BFloat16},
		"offloaded":   {Optimizer: optim.Adam{}, Offload: trainer.Offload{State: true}},
		"recomputed":  {Recompute: trainer.Recompute{Layers: []string{"hidden1"}}, Checkpoint: true},
	} {
		opt.Batch = 32
		p, err := trainer.Plan(t.Context(), classifier, opt)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := embedded(t, draw(t, picture.HTML, p, picture.Options{Lines: lines})).Plans[0]
		var sum int64
		for i, r := range d.Regions {
			sum += r.Bytes
			for k, part := range r.Parts {
				if at := p.Specs[i][k]; at == "" || part.L < 0 && strings.HasPrefix(part.N, "hidden") {
					t.Errorf("%s: %s in %s has shape %q and lines %d", name, part.N, r.Name, at, part.L)
				}
			}
		}
		if sum != p.Total {
			t.Errorf("%s: regions of %d bytes, want %d", name, sum, p.Total)
		}
		for i, b := range d.Programs[0].Buffers {
			if owner := p.Programs[0].Buffers[i].Owner; b.S == "" || b.L < 0 && (strings.HasPrefix(owner, "hidden") || owner == "out") {
				t.Errorf("%s: buffer %s of %q has shape %q and lines %d", name, b.N, owner, b.S, b.L)
			}
		}
		if recomputed := strings.Contains(d.Programs[0].Passes, "r"); recomputed != (name == "recomputed") {
			t.Errorf("%s: passes %s", name, d.Programs[0].Passes)
		}
	}
}

// A tensor has the lines of its node, of the node that it was made for, or of the first node of its layer.
func TestTensorsHaveTheLinesOfTheirNodes(t *testing.T) {
	t.Parallel()
	lines := map[string][]string{"hidden/a": {"net.go:6"}, "hidden/act": {"net.go:8"}, "hidden/w": {"net.go:7", "main.go:3"}, "out/xw": {"net.go:9"}, "out/w": {"net.go:10"}}
	d := embedded(t, draw(t, picture.HTML, plan(t), picture.Options{Lines: lines}))
	got := map[string]string{}
	add := func(name string, l int) {
		if l >= 0 {
			got[name] = strings.Join(d.Lines[l], " ")
		} else {
			got[name] = "none"
		}
	}
	for _, r := range d.Plans[0].Regions {
		for _, part := range r.Parts {
			add(r.Name+" "+part.N, part.L)
		}
	}
	for _, b := range d.Plans[0].Programs[0].Buffers {
		add(b.N, b.L)
	}
	for name, want := range map[string]string{
		"hidden/act": "net.go:8", "dhidden/act": "net.go:8", "parameters hidden/w": "net.go:7 main.go:3", "optimizer state hidden/w/m": "net.go:7 main.go:3",
		"out/out": "net.go:10", "x": "none", "second/act": "none",
	} {
		if got[name] != want {
			t.Errorf("%s has the lines %q, want %q", name, got[name], want)
		}
	}
}

func TestPicturesOfAnyNamesAreWellFormed(t *testing.T) {
	t.Parallel()
	p := plan(t)
	for i := range p.Regions {
		p.Regions[i].Name = `<&"'>` + p.Regions[i].Name
	}
	q := &p.Programs[0]
	q.Name, q.LiveAt = "a\x00b\xff", "</svg>"
	for i := range q.Buffers {
		q.Buffers[i].Owner = fmt.Sprintf("layer <%d> & more", i) // more layers than the palette has colours
		q.Buffers[i].Name = "]]></script><script>alert(1)</script>{{js}}"
	}
	text := wellFormed(t, draw(t, picture.SVG, p, picture.Options{}))
	if !strings.Contains(text, "layer <3> & more") || !strings.Contains(text, `<&"'>scratch`) {
		t.Errorf("names are missing from %q", text)
	}
	page := draw(t, picture.HTML, p, picture.Options{Name: "</title><script>"})
	if n := strings.Count(string(page), "<script"); n != 2 {
		t.Errorf("%d scripts in the page, want its data and its own", n)
	}
	if d := embedded(t, page); d.Plans[0].Programs[0].Buffers[3].N != q.Buffers[3].Name || d.Plans[0].Name != "</title><script>" {
		t.Errorf("names are changed: %+v", d.Plans[0].Programs[0].Buffers[3])
	}
	if bytes.Contains(page, []byte("//http")) || bytes.Contains(page, []byte("src=")) || bytes.Contains(page, []byte("href=")) {
		t.Error("the page refers to something outside of it")
	}
}

func TestOddPlansAreDrawn(t *testing.T) {
	t.Parallel()
	long := plan(t)
	long.Programs[0].Instructions = 5000
	for name, p := range map[string]*report.Plan{
		"empty":                     {},
		"no programs":               {Device: "cpu", Total: 512, Regions: []arena.RegionInfo{{Name: "parameters", Size: 512}}},
		"a program without buffers": {Programs: []report.Program{{Name: "train 1"}}},
		"zero-size buffers":         {Programs: []report.Program{{Buffers: []arena.Buffer{{Name: "x", Start: 0, End: 1}}, Offsets: []int64{0}}}},
		"offsets missing":           {Programs: []report.Program{{Scratch: 512, Live: 512, Buffers: []arena.Buffer{{Name: "x", Size: 512, Start: 0, End: 1}}}}},
		"very large":                {Total: math.MaxInt64, Regions: []arena.RegionInfo{{Name: "scratch", Size: math.MaxInt64}}, Programs: []report.Program{{Scratch: math.MaxInt64}}},
		"many instructions":         long,
		"a long life":               {Programs: []report.Program{{Scratch: 512, Buffers: []arena.Buffer{{Name: "x", Size: 512, End: math.MaxInt32}}}}},
		"an odd pass":               {Programs: []report.Program{{Passes: []report.Pass{"", "other"}}}},
	} {
		svg := draw(t, picture.SVG, p, picture.Options{})
		wellFormed(t, svg)
		if bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
			t.Errorf("%s: the picture has a coordinate that is no number", name)
		}
		if _, err := png.DecodeConfig(bytes.NewReader(draw(t, picture.PNG, p, picture.Options{}))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := embedded(t, draw(t, picture.HTML, p, picture.Options{Other: p})); len(d.Plans) != 2 {
			t.Errorf("%s: %d plans in the page", name, len(d.Plans))
		}
	}
}

// A predictor has a scratch region for each view; the map is of the first one.
func TestTheMapOfAPredictorIsOfItsFirstScratch(t *testing.T) {
	t.Parallel()
	p := plan(t)
	last := len(p.Regions) - 1
	p.Regions[last].Name = "scratch 0"
	again := p.Regions[last]
	again.Name, again.Offset = "scratch 1", p.Total
	p.Regions, p.Total = append(p.Regions, again), p.Total+again.Size
	svg := draw(t, picture.SVG, p, picture.Options{})
	if n := bytes.Count(svg, []byte(`fill="#eef1f4"`)); n != 1 {
		t.Errorf("%d regions are opened to the map, want 1", n)
	}
	if n := bytes.Count(svg, []byte(`fill="#dfe4ea"`)); n != 2 {
		t.Errorf("%d regions have the colour of scratch, want 2", n)
	}
}

type fullDisk struct{}

var errFull = errors.New("disk is full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestPicturesThatCannotBeDrawnAreErrors(t *testing.T) {
	t.Parallel()
	p := plan(t)
	for f := picture.HTML; f <= picture.PNG; f++ {
		if err := picture.Write(fullDisk{}, f, p, picture.Options{}); !errors.Is(err, errFull) {
			t.Errorf("format %d: got %v, want %v", f, err, errFull)
		}
		if err := picture.Write(io.Discard, f, nil, picture.Options{}); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("format %d of no plan: %v", f, err)
		}
	}
	for _, err := range []error{
		picture.Write(io.Discard, 3, p, picture.Options{}),
		picture.Write(io.Discard, picture.SVG, p, picture.Options{Other: p}),
		picture.Save("plan.jpg", p, picture.Options{}),
		picture.Save("plan", p, picture.Options{}),
	} {
		if !errors.Is(err, trainer.ErrOption) {
			t.Errorf("got %v, want an ErrOption", err)
		}
	}
	file := filepath.Join(t.TempDir(), "plan.HTML")
	if err := picture.Save(file, p, picture.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, draw(t, picture.HTML, p, picture.Options{})) {
		t.Errorf("the file is not the page: %v", err)
	}
}
