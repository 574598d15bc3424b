package picture_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/browsertest"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/report"
)

var screenshot = flag.String("screenshot", "", "file for a picture of the page")

// opened draws a page and opens it in headless Chromium.
func opened(t *testing.T, p *report.Plan, opt picture.Options) context.Context {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.html")
	if err := picture.Save(file, p, opt); err != nil {
		t.Fatal(err)
	}
	return browsertest.Open(t, "file://"+file, 1400, 900)
}

// middle returns the middle of the box of a tensor on a map, in pixels of the window.
func middle(t *testing.T, ctx context.Context, name string) (x, y float64) {
	t.Helper()
	at := browsertest.Value[[]float64](t, ctx, fmt.Sprintf(`(() => { const v = views[0], r = v.map.getBoundingClientRect(), b = v.rect(v.items.find(t => t.name === %q && t.scratch));
		return [r.left + b[0] + b[2] / 2, r.top + b[1] + b[3] / 2]; })()`, name))
	return at[0], at[1]
}

// details returns the text of the box of details.
func details(t *testing.T, ctx context.Context) string {
	t.Helper()
	return browsertest.Value[string](t, ctx, `document.getElementById("details").innerText`)
}

// contains reports what is missing in a text.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("no %q in %q", p, text)
		}
	}
}

func TestThePageInABrowser(t *testing.T) {
	p := plan(t)
	q := &p.Programs[0]
	const hostile = `<script>document.title="taken"</script><img src=x onerror='document.title="taken"'>`
	q.Buffers[2].Owner, q.Buffers[2].Name = hostile, hostile
	ctx := opened(t, p, picture.Options{Name: "three layers", Lines: map[string][]string{"hidden/act": {"net.go:8", "main.go:30"}}})

	// The pointer shows what a box is.
	x, y := middle(t, ctx, "hidden/act")
	browsertest.Do(t, ctx, chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	contains(t, details(t, ctx), "hidden/act", "262,144 bytes (256 KiB)", "instructions 1 call 1 to 15 call 15, 15 of 20", "matmul in the forward pass", "net.go:8", "main.go:30")
	x, y = middle(t, ctx, hostile)
	browsertest.Do(t, ctx, chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	contains(t, details(t, ctx), hostile)

	// The wheel and the keys zoom, a double click fits a box, 0 shows scratch again.
	width := func() float64 { return browsertest.Value[float64](t, ctx, `views[0].v.x1 - views[0].v.x0`) }
	browsertest.Do(t, ctx, chromedp.MouseEvent(chromedp.MouseWheel, x, y, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 1, -120 })) // a DeltaX of 0 is left out
	if w := width(); !(w < 20 && w > 5) {
		t.Errorf("after the wheel %v instructions are shown, want fewer than 20", w)
	}
	browsertest.Do(t, ctx, chromedp.Focus(".map"), chromedp.KeyEvent("0"))
	if w := width(); w != 20 {
		t.Errorf("key 0 shows %v instructions, want 20", w)
	}
	browsertest.Do(t, ctx, chromedp.KeyEvent("n"), chromedp.KeyEvent("n"))
	contains(t, details(t, ctx), "hidden/act")
	browsertest.Do(t, ctx, chromedp.KeyEvent(kb.Enter))
	if w := width(); !(w > 15 && w < 20) {
		t.Errorf("Enter shows %v instructions, want the 15 of the box and a margin", w)
	}

	// A layer and a search select boxes.
	layer := browsertest.Value[string](t, ctx, `(() => { const b = [...document.querySelectorAll("#layers button")].find(b => b.textContent.startsWith("out")); b.click();
		return views[0].items.filter(t => shown(t)).map(t => t.owner).filter((o, i, all) => all.indexOf(o) === i).join() + " " + views[0].v.x0 })()`)
	if owners, left, _ := strings.Cut(layer, " "); owners != "out" || left == "0" {
		t.Errorf("layer out selects %q", layer)
	}
	browsertest.Do(t, ctx, chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("/"))
	if id := browsertest.Value[string](t, ctx, `document.activeElement.value = "", document.activeElement.id`); id != "search" {
		t.Errorf("key / goes to %q", id)
	}
	browsertest.Do(t, ctx, chromedp.KeyEvent("dhidden"))
	contains(t, browsertest.Value[string](t, ctx, `document.getElementById("found").innerText`), "3 found", "dhidden/w")
	browsertest.Screenshot(t, ctx, *screenshot)
	sums(t, ctx, p)
	if n := browsertest.Value[int](t, ctx, `performance.getEntriesByType("resource").length`); n != 0 {
		t.Errorf("the page loads %d files", n)
	}
	theme := func() string {
		return browsertest.Value[string](t, ctx, `getComputedStyle(document.body).backgroundColor`)
	}
	if light := theme(); light != "rgb(255, 255, 255)" {
		t.Errorf("the page is %s", light)
	}
	browsertest.Do(t, ctx, chromedp.Click("#theme"))
	if dark := theme(); dark != "rgb(13, 17, 23)" {
		t.Errorf("after a click on light or dark the page is %s", dark)
	}
	browsertest.Value[string](t, ctx, `location.hash = "second/w"`)
	for end := time.Now().Add(10 * time.Second); !strings.Contains(details(t, ctx), "second/w") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	contains(t, details(t, ctx), "second/w", "parameters", "all of training")
	if title := browsertest.Value[string](t, ctx, `document.title`); title == "taken" {
		t.Error("a name runs as a script")
	}
}

// Both plans have one scale, and their difference adds up. Another program has boxes of its own.
func TestTwoPlansInABrowser(t *testing.T) {
	a, b := plan(t), plan(t)
	b.Regions[1].Size -= 1 << 20
	for i := range b.Regions[2:] {
		b.Regions[2+i].Offset -= 1 << 20
	}
	b.Total -= 1 << 20
	b.Programs[1].Buffers, b.Programs[1].Offsets = buffers()[:1], []int64{0}
	ctx := opened(t, a, picture.Options{Name: "first", Other: b, OtherName: "second"})
	text := browsertest.Value[string](t, ctx, `document.getElementById("difference").innerText`)
	contains(t, text, "second needs 1.0 MiB less (−1,048,576 bytes, 11.8 % of the arena)")
	last := browsertest.Value[[]int64](t, ctx, `[...document.querySelectorAll("#difference tr.total")].flatMap(r => [...r.querySelectorAll("[data-bytes]")].map(c => Number(c.dataset.bytes)))`)
	if live := a.Programs[0].Live; !slices.Equal(last, []int64{a.Total, b.Total, b.Total - a.Total, live, live, 0}) {
		t.Errorf("totals %v, want those of arenas of %d and %d bytes and of peaks of %d", last, a.Total, b.Total, live)
	}
	scale := browsertest.Value[[]float64](t, ctx, `views.map(v => v.barY(0) - v.barY(v.plan.total))`)
	if got, want := scale[1]/scale[0], float64(b.Total)/float64(a.Total); math.Abs(got-want) > 1e-6 {
		t.Errorf("bars of %v pixels, want a ratio of %v", scale, want)
	}
	boxes := browsertest.Value[[]int](t, ctx, `(() => { const s = document.getElementById("program"); s.value = "1"; s.dispatchEvent(new Event("change")); return views.map(v => v.items.filter(t => t.scratch).length) })()`)
	if !slices.Equal(boxes, []int{0, 1}) {
		t.Errorf("the other program has %v boxes in scratch, want 0 and 1", boxes)
	}
}

// A name of any length leaves room for the rest of the page, and is shown in full under the pointer.
func TestALongNameIsCutOnThePage(t *testing.T) {
	first, second := strings.Repeat("a", 10_000), strings.Repeat("b", 10_000)
	ctx := opened(t, plan(t), picture.Options{Name: first, Other: plan(t), OtherName: second})
	text := browsertest.Value[string](t, ctx, `document.title + document.body.innerText + [...document.querySelectorAll("[aria-label]")].map(e => e.ariaLabel).join()`)
	for _, c := range []string{"a", "b"} {
		if !strings.Contains(text, strings.Repeat(c, 59)+"…") || strings.Contains(text, strings.Repeat(c, 61)) {
			t.Errorf("%s is not cut after 60 characters", c)
		}
	}
	titles := browsertest.Value[[]string](t, ctx, `[...document.querySelectorAll("#title, #subtitle, figcaption b")].map(e => e.title)`)
	if both := first + " and " + second; !slices.Equal(titles, []string{both, both, first, second}) {
		t.Errorf("%d titles, not the names in full", len(titles))
	}
	if over := browsertest.Value[int](t, ctx, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		t.Errorf("the page is %d pixels wider than the window", over)
	}
}

// sums compares the sums of the tables and of the list of layers with the arena.
func sums(t *testing.T, ctx context.Context, p *report.Plan) {
	t.Helper()
	for _, caption := range []string{"regions", "layers in regions"} {
		cells := browsertest.Value[[]int64](t, ctx, fmt.Sprintf(`[...[...document.querySelectorAll("table")].find(t => t.caption.textContent === %q)
			.querySelectorAll("td[data-bytes]")].map(c => Number(c.dataset.bytes))`, caption))
		var sum int64
		for _, n := range cells[:len(cells)-1] {
			sum += n
		}
		if total := cells[len(cells)-1]; sum != p.Total || total != p.Total {
			t.Errorf("table of %s: sum %d, total %d, want %d", caption, sum, total, p.Total)
		}
	}
	if sum := browsertest.Value[int64](t, ctx, `[...document.querySelectorAll("#layers [data-bytes]")].reduce((n, c) => n + Number(c.dataset.bytes), 0)`); sum != p.Total {
		t.Errorf("list of layers: %d bytes, want %d", sum, p.Total)
	}
}

// Ten thousand buffers are drawn, and found by the pointer.
func TestAPageOfManyBuffersInABrowser(t *testing.T) {
	const n = 10_000
	a := &report.Plan{Total: n << 10, Regions: []arena.RegionInfo{{Name: "scratch", Size: n << 10}}}
	q := report.Program{Name: "train", Instructions: n, Scratch: n << 10, Live: 100 << 10}
	for i := range n {
		q.Buffers = append(q.Buffers, arena.Buffer{Name: fmt.Sprint("b", i), Owner: fmt.Sprint("layer", i%40), Size: 1 << 10, Start: int32(i), End: int32(min(i+100, n))})
		q.Offsets = append(q.Offsets, int64(i%100)<<10)
	}
	a.Programs = []report.Program{q}
	b := *a
	ctx := opened(t, a, picture.Options{Other: &b, OtherName: "the same"})
	if text := browsertest.Value[string](t, ctx, `document.getElementById("difference").innerText`); !strings.Contains(text, "the same needs as many bytes.") {
		t.Errorf("difference: %.200s", text)
	}
	t.Logf("a map takes %.0f ms to draw", browsertest.Value[float64](t, ctx, `(() => { const t = performance.now(); for (let i = 0; i < 5; i++) views[0].draw(); return (performance.now() - t) / 5; })()`))
	if name := browsertest.Value[string](t, ctx, `views[0].itemAt({ x: 5000.5, y: 50 * 1024 + 7 }).name`); name != "b4950" {
		t.Errorf("found %s, want b4950, which is live in instructions 4950 to 5049 at offset 50 KiB", name)
	}
}
