package live_test

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/internal/browsertest"

	"github.com/chromedp/chromedp"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

var screenshot = flag.String("screenshot", "", "file for a picture of the page")

// becomes waits until an expression in the page is true.
func becomes(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if browsertest.Value[bool](t, ctx, expression) {
			return
		}
	}
	t.Fatalf("%s does not become true; the page has %q and says %q", expression,
		browsertest.Value[string](t, ctx, `document.getElementById("main").innerText`), browsertest.Value[string](t, ctx, `document.getElementById("message").textContent`))
}

// click clicks on an element.
func click(t *testing.T, ctx context.Context, selector string) {
	t.Helper()
	browsertest.Do(t, ctx, chromedp.Click(selector))
}

const hostile = `</script><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`

// status is the status that the page shows.
const status = `document.getElementById("status").textContent`

func TestAPageShowsAndControlsATraining(t *testing.T) {
	run, s, c := served(t, runs.Options{Name: "live " + hostile, Settings: []trainer.Setting{{Name: hostile, Value: hostile}}})
	steps := make(chan int64, 1)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // a training of 100 steps a second
		defer close(done)
		for n := int64(1); ; n++ {
			p := progress(n)
			p.Objective = hostile
			run.Progress(p)
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
			select {
			case <-steps:
			default:
			}
			steps <- n
		}
	}()
	defer func() { run.Continue(); close(ended); <-done }()
	ctx := browsertest.Open(t, s.URL(), 1280, 1000)
	becomes(t, ctx, status+` === "training"`)
	if got := browsertest.Value[string](t, ctx, `location.href`); strings.Contains(got, "token") {
		t.Errorf("the address still has the token: %s", got)
	}
	// It updates by itself.
	first := browsertest.Value[string](t, ctx, `document.getElementById("progress").innerText`)
	becomes(t, ctx, `document.getElementById("progress").innerText !== `+quote(first))
	becomes(t, ctx, `(c => c && c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(v => v))(document.querySelector("[data-chart=loss] canvas"))`)
	// Names are text.
	becomes(t, ctx, `document.querySelector("h1").textContent.includes("<img") && document.querySelector("[data-chart=loss] .legend").textContent.includes("<img")`)
	if bad := browsertest.Value[bool](t, ctx, `document.querySelectorAll("img").length > 0 || document.title === "taken" || document.scripts.length !== 2`); bad {
		t.Error("a name has become a part of the page")
	}
	// The buttons work.
	click(t, ctx, "#pause")
	becomes(t, ctx, status+` === "paused"`)
	time.Sleep(50 * time.Millisecond)
	at := <-steps
	time.Sleep(100 * time.Millisecond)
	select {
	case n := <-steps:
		t.Errorf("a paused training goes on from step %d to %d", at, n)
	default:
	}
	if text := browsertest.Value[string](t, ctx, `document.getElementById("pause").textContent`); text != "Continue" {
		t.Errorf("the button is %q", text)
	}
	click(t, ctx, "#pause")
	becomes(t, ctx, status+` === "training"`)
	<-steps
	click(t, ctx, "#checkpoint")
	for end := time.Now().Add(10 * time.Second); c.requests.Load() == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	browsertest.Screenshot(t, ctx, *screenshot)
	browsertest.Value[bool](t, ctx, `(window.confirm = () => true, true)`)
	click(t, ctx, "#stop")
	becomes(t, ctx, status+` === "stopping" && document.getElementById("stop").disabled`)
	if c.requests.Load() != 1 || c.stops.Load() != 1 {
		t.Errorf("%d checkpoints and %d stops", c.requests.Load(), c.stops.Load())
	}
	if message := browsertest.Value[string](t, ctx, `document.getElementById("message").textContent`); message != "" {
		t.Errorf("the page says %q", message)
	}
	// The page stays when the training ends.
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	becomes(t, ctx, status+` === "ended" && document.getElementById("pause").disabled`)
}

// Without the token the page asks for it, and a wrong one is refused.
func TestAPageAsksForTheToken(t *testing.T) {
	_, s, _ := served(t, runs.Options{})
	ctx := browsertest.Open(t, "http://"+s.Addr()+"/", 1280, 1000)
	for _, try := range []string{"wrong", token} {
		becomes(t, ctx, `!document.getElementById("enter").hidden && document.getElementById("main").hidden`)
		browsertest.Value[bool](t, ctx, `(document.getElementById("token").value = `+quote(try)+`, document.getElementById("use").click(), true)`)
		if try == "wrong" {
			becomes(t, ctx, `document.getElementById("message").textContent.includes("not that of this run")`)
		}
	}
	becomes(t, ctx, `!document.getElementById("main").hidden && !document.getElementById("buttons").hidden`)
}

// quote returns text as a string of JavaScript.
func quote(text string) string {
	return `decodeURIComponent("` + strings.NewReplacer("%", "%25", `"`, "%22", "\n", "%0A", `\`, "%5C").Replace(text) + `")`
}
