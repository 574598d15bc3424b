package main

import (
	"context"
	"flag"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

var screenshot = flag.String("screenshot", "", "file for a picture of the page")

// browser opens a page in headless Chromium.
func browser(t *testing.T, url string) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium, the Debian package of that name: ", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(800, 600), chromedp.WSURLReadTimeout(time.Minute))
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	return ctx
}

// value evaluates an expression in the page.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// stroke draws a line through points of the canvas with the mouse.
func stroke(t *testing.T, ctx context.Context, points [][2]float64) {
	t.Helper()
	at := value[[]float64](t, ctx, `(r => [r.left, r.top])(canvas.getBoundingClientRect())`)
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
	ctx := browser(t, web.URL)
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
			got = value[string](t, ctx, `bars.dataset.digit`)
		}
		if got != c.digit {
			t.Errorf("the page shows %q for a %s: %s", got, c.digit, value[string](t, ctx, `message.textContent`))
		}
		if best := value[string](t, ctx, `document.querySelector("tr.best").innerText`); !strings.HasPrefix(best, c.digit) || !strings.Contains(best, "%") {
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
		status = value[string](t, ctx, `document.getElementById("status").textContent`)
	}
	if !strings.Contains(status, "200 training steps") {
		t.Errorf("after training the page shows %q", status)
	}
	if status = value[string](t, ctx, `message.textContent`); status != "" {
		t.Errorf("message %q", status)
	}
}
