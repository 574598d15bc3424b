package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

// svg returns the figure as SVG, and its texts. It must be well-formed and have finite coordinates.
func svg(t *testing.T, f plot.Figure) (picture string, texts []string) {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, plot.SVG); err != nil {
		t.Fatal(err)
	}
	picture = b.String()
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("%s has the attribute %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				texts = append(texts, s)
			}
		}
	}
	return picture, texts
}

// falling is a curve of a range test whose loss falls fastest at 1e-2, and rises after 1e-1.
func falling() loop.Curve {
	var c loop.Curve
	for i := range 61 {
		l := -4 + float64(i)/20 // of the rate
		loss := 1.5 - math.Tanh(2*(l+2)) + math.Exp(4*(l+1.2))
		c = append(c, loop.Point{Rate: math.Pow(10, l), Loss: loss + 0.2*math.Sin(float64(7*i)), Smooth: loss})
	}
	return c
}

func TestARangeTestHasItsNumbersOnThePicture(t *testing.T) {
	c := falling()
	picture, texts := svg(t, plot.RangeTest(c))
	all := strings.Join(texts, "|")
	for _, want := range []string{"Learning-rate range test", "learning rate", "loss", "smoothed", "0.0001", "0.001", "0.01", "0.1", fmt.Sprintf("steepest at %.3g", c.Steepest())} {
		if !strings.Contains("|"+all+"|", "|"+want+"|") {
			t.Errorf("no text %q in %s", want, all)
		}
	}
	if got := strings.Count(picture, "A"); got < len(c) {
		t.Errorf("%d arcs, want a dot for each of %d losses", got, len(c))
	}
	if other, _ := svg(t, plot.RangeTest(c)); other != picture {
		t.Error("the same curve has other bytes")
	}
	if other, _ := svg(t, plot.RangeTest(c[1:])); other == picture {
		t.Error("another curve has the same bytes")
	}
	svg(t, plot.RangeTest(nil))
	svg(t, plot.RangeTest(c[:1]))
}

func TestAPNGShowsTheSeriesInItsColour(t *testing.T) {
	f := plot.Figure{Panels: []plot.Panel{{Series: []plot.Series{{Style: plot.Dotted, Points: []plot.Point{{0, 1}, {10, 1}}}, {Points: []plot.Point{{0, 0}, {10, 2}}}}}}}
	var b bytes.Buffer
	if err := f.Write(&b, plot.PNG); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if s := img.Bounds().Size(); s.X != 640 || s.Y != 400 {
		t.Fatalf("a picture of %v, want 640 × 400", s)
	}
	rows := map[int]int{} // pixels of the first line's colour, by row
	for y := range 400 {
		for x := range 640 {
			if img.At(x, y) == (color.RGBA{0, 114, 178, 255}) {
				rows[y]++
			}
		}
	}
	most := 0
	for y, n := range rows {
		if n > rows[most] {
			most = y
		}
	}
	if len(rows) > 8 || rows[most] < 400 || most < 150 || most > 230 {
		t.Errorf("the line y = 1 of 0 to 2 is in rows %v", rows)
	}
}

// Values, scales and names of every kind: nothing panics, hangs or writes a coordinate that is no number.
func TestAnyValuesAreDrawn(t *testing.T) {
	values := [][]float64{
		nil, {nan}, {inf, nan}, {0}, {-1}, {5}, {5, 5}, {1, math.Nextafter(1, 2)}, {math.MaxFloat64, -math.MaxFloat64}, {math.MaxFloat64},
		{5e-324}, {5e-324, 1e-323}, {0, 5e-324}, {1, nan, 2}, {1, 2, inf, 3}, {1e-300, 1e300}, {1e9, 1e9 + 1}, {-3, 0, 3}, {0.11, 0.19}, {3, 3.3}, {0.04, 0.9},
		{math.SmallestNonzeroFloat64, math.MaxFloat64}, {1e16, 1e16 + 2},
	}
	for i, xs := range values {
		for j, ys := range values {
			for k := range 4 {
				var s plot.Series
				for n := range max(len(xs), len(ys)) {
					if len(xs) > 0 && len(ys) > 0 {
						s.Points = append(s.Points, plot.Point{X: xs[n%len(xs)], Y: ys[n%len(ys)]})
					}
				}
				s.Style = plot.Style((i + j) % 4)
				p := plot.Panel{X: "x", Y: "y", LogX: k&1 != 0, LogY: k&2 != 0, Series: []plot.Series{s}}
				if len(xs) > 0 && len(ys) > 1 {
					p.Marks = []plot.Mark{{X: xs[0], Name: "here"}}
					p.Low, p.High = ys[1], ys[0]
				}
				svg(t, plot.Figure{Panels: []plot.Panel{p}})
				if t.Failed() {
					t.Fatalf("%v over %v: %+v", ys, xs, p)
				}
			}
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	name := "</text><script>a\x00b\xff"
	f := plot.Figure{Title: name, Panels: []plot.Panel{{X: name, Y: name, Series: []plot.Series{{Name: name}}, Marks: []plot.Mark{{0.5, name}}}}}
	if picture, texts := svg(t, f); strings.Contains(picture, "<script") || !strings.Contains(strings.Join(texts, ""), "<script>") {
		t.Errorf("the name is in %q", texts)
	}
}

func TestTheEndingOfANameIsTheFormat(t *testing.T) {
	dir := t.TempDir()
	for name, begins := range map[string]string{"a.svg": "<?xml", "b.PNG": "\x89PNG"} {
		if err := plot.RangeTest(falling()).Save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(string(b), begins) {
			t.Errorf("%s: %v, begins with %.8q", name, err, b)
		}
	}
	for _, name := range []string{"c.jpg", "svg", ""} {
		err := plot.Figure{}.Save(filepath.Join(dir, name))
		if !errors.Is(err, trainer.ErrOption) || !strings.Contains(err.Error(), ".svg or .png") {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if err := (plot.Figure{}).Write(io.Discard, 7); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("format 7: got %v", err)
	}
	if err := (plot.Figure{}).Save(filepath.Join(dir, "no", "where.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for _, format := range []plot.Format{plot.SVG, plot.PNG} {
		if err := (plot.Figure{}).Write(full{}, format); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("format %v on a full disk: got %v", format, err)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestASeriesHasGaps(t *testing.T) {
	lines := func(y ...float64) int {
		s := plot.Series{}
		for i, v := range y {
			s.Points = append(s.Points, plot.Point{X: float64(i), Y: v})
		}
		picture, _ := svg(t, plot.Figure{Panels: []plot.Panel{{LogY: true, Series: []plot.Series{s}}}})
		return strings.Count(picture, "stroke:#0072B2")
	}
	if whole, gap, zero := lines(1, 2, 3, 4, 5), lines(1, 2, nan, 4, 5), lines(1, 2, 0, 4, 5); whole != 1 || gap != 2 || zero != 2 {
		t.Errorf("%d, %d and %d lines, want 1, 2 and 2", whole, gap, zero)
	}
}

func TestTheEndsOfAnAxisCanBeSet(t *testing.T) {
	s := []plot.Series{{Points: []plot.Point{{0, 0}, {1, 1}}}}
	_, free := svg(t, plot.Figure{Panels: []plot.Panel{{Series: s}}})
	_, set := svg(t, plot.Figure{Panels: []plot.Panel{{Series: s, Low: -40, High: 40, First: 100, Last: 200}}})
	if slices.Contains(free, "40") || !slices.Contains(free, "1.0") || !slices.Contains(set, "40") || !slices.Contains(set, "200") {
		t.Errorf("labels %q, with ends 100 to 200 and -40 to 40 %q", free, set)
	}
}
