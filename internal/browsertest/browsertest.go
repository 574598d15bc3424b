// Package browsertest opens pages in headless Chromium for tests.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Open opens a page in a window of width times height pixels and waits until it is drawn: before, a page
// can lose what the pointer does. The context is that of the page, for functions of chromedp; it ends
// after two minutes. Without Chromium the test is skipped.
func Open(t *testing.T, url string, width, height int) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium, the Debian package of that name: ", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(width, height), chromedp.WSURLReadTimeout(time.Minute))
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync"} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	Do(t, ctx, chromedp.Navigate(url))
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	shown := `new Promise(shown => requestAnimationFrame(() => requestAnimationFrame(() => shown(true))))`
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](shown, chromedp.EvalAwaitPromise)); err != nil {
		t.Fatal("the first frame: ", err)
	}
	return ctx
}

// Do runs actions in the page.
func Do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// Value returns the value of an expression of JavaScript in the page.
func Value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Screenshot writes a picture of the page to a file, PNG; "" stands for none.
func Screenshot(t *testing.T, ctx context.Context, file string) {
	t.Helper()
	if file == "" {
		return
	}
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(file, shot, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
