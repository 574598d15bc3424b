package main

import (
	"context"
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/browsertest"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

var screenshot = flag.String("screenshot", "", "file for a picture of the page")

// stroke draws a line through points of the canvas with the mouse.
func stroke(t *testing.T, ctx context.Context, points [][2]float64) {
	t.Helper()
	at := browsertest.Value[[]float64](t, ctx, `(r => [r.left, r.top])(canvas.getBoundingClientRect())`)
	left := func(p *input.DispatchMouseEventParams) { p.Button, p.Buttons = input.MouseButtonLeft, 1 }
	mouse := func(p [2]float64) (x, y float64) { return at[0] + p[0], at[1] + p[1] }
	x, y := mouse(points[0])
	steps := []chromedp.Action[chromedp.Void]{chromedp.MouseEvent(chromedp.MousePressed, x, y, left)}
	for _, p := range points[1:] {
		x, y = mouse(p)
		steps = append(steps, chromedp.MouseEvent(chromedp.MouseMoved, x, y, left))
	}
	steps = append(steps, chromedp.MouseEvent(chromedp.MouseReleased, x, y, chromedp.ButtonLeft))
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// The shapes are drawn with the mouse on a canvas of 280×280.
func TestDigitsAreDrawnInABrowser(t *testing.T) {
	_, web, _ := trained(t, enough, true)
	ctx := browsertest.Open(t, web.URL, 800, 600)
	zero := make([][2]float64, 0, 33)
	for i := range 33 {
		a := 2 * math.Pi * float64(i) / 32
		zero = append(zero, [2]float64{140 + 55*math.Sin(a), 140 - 85*math.Cos(a)})
	}
	for _, c := range []struct {
		digit  string
		points [][2]float64
	}{
		{"0", zero},
		{"1", [][2]float64{{140, 50}, {140, 140}, {140, 230}}},
		{"7", [][2]float64{{70, 60}, {140, 60}, {205, 60}, {165, 150}, {130, 235}}},
	} {
		if err := chromedp.Do(ctx, chromedp.Click("#clear")); err != nil {
			t.Fatal(err)
		}
		stroke(t, ctx, c.points)
		got := ""
		for end := time.Now().Add(30 * time.Second); got == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			got = browsertest.Value[string](t, ctx, `bars.dataset.digit`)
		}
		if got != c.digit {
			t.Errorf("the page shows %q for a %s: %s", got, c.digit, browsertest.Value[string](t, ctx, `message.textContent`))
		}
		if best := browsertest.Value[string](t, ctx, `document.querySelector("tr.best").innerText`); !strings.HasPrefix(best, c.digit) || !strings.Contains(best, "%") {
			t.Errorf("the best row is %q", best)
		}
	}
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if *screenshot != "" {
		if err := os.WriteFile(*screenshot, shot, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Click("#train")); err != nil {
		t.Fatal(err)
	}
	status := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(status, "200 training steps") && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status = browsertest.Value[string](t, ctx, `document.getElementById("status").textContent`)
	}
	if !strings.Contains(status, "200 training steps") {
		t.Errorf("after training the page shows %q", status)
	}
	if status = browsertest.Value[string](t, ctx, `message.textContent`); status != "" {
		t.Errorf("message %q", status)
	}
}
