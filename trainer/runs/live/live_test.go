package live_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
	"github.com/evenkeel/evenkeel/trainer/runs/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "0123456789abcdef"

// controlled counts what the controls of a run do.
type controlled struct{ stops, requests atomic.Int64 }

func (c *controlled) Request()        { c.requests.Add(1) }
func (c *controlled) Requested() bool { return false }

// served returns a served run with controls.
func served(t *testing.T, opt runs.Options) (*runs.Run, *live.Server, *controlled) {
	t.Helper()
	run, err := runs.Create(t.Context(), "", opt)
	if err != nil {
		t.Fatal(err)
	}
	c := &controlled{}
	if err := run.Attach(runs.Source{Stop: func() { c.stops.Add(1) }, Checkpointer: c}); err != nil {
		t.Fatal(err)
	}
	s, err := live.Serve("127.0.0.1:0", run, live.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(run.Close(), s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return run, s, c
}

// request sends a request with the token, changed by change, and returns status and body.
func request(t *testing.T, s *live.Server, method, path string, change func(r *http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if change != nil {
		change(r)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// progress returns the progress of a step.
func progress(number int64) trainer.Progress {
	return trainer.Progress{StepNumber: number, Step: int(number), Steps: 1 << 20, Samples: 2 * int(number), Loss: 0.5, StepLoss: 1 / float64(number),
		Accuracy: math.NaN(), StepAccuracy: math.NaN(), StepNorm: 1, StepRate: 0.1}
}

// Everything but the empty page needs the token.
func TestOnlyTheTokenOpensARun(t *testing.T) {
	t.Parallel()
	run, s, c := served(t, runs.Options{Name: "secret name"})
	paths := map[string]string{"/events": "GET", "/metrics": "GET", "/debug/pprof/heap": "GET", "/control/pause": "POST", "/control/stop": "POST"}
	for name, change := range map[string]func(r *http.Request){
		"none":   func(r *http.Request) { r.Header.Del("Authorization") },
		"empty":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"prefix": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token[:15]) },
		"longer": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") },
		"basic":  func(r *http.Request) { r.SetBasicAuth(token, "") },
		"query":  func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + token },
	} {
		for path, method := range paths {
			if code, body := request(t, s, method, path, change); code != http.StatusUnauthorized || strings.Contains(body, "secret") {
				t.Errorf("token %s: %s %s answers %d", name, method, path, code)
			}
		}
	}
	if run.State().Status == runs.Paused || c.stops.Load() != 0 {
		t.Error("a control was used without the token")
	}
	code, body := request(t, s, "GET", "/", func(r *http.Request) { r.Header.Del("Authorization") })
	if code != http.StatusOK || strings.Contains(body, "secret") || !strings.Contains(body, "<h1") {
		t.Errorf("the page: %d", code)
	}
	if code, _ := request(t, s, "GET", "/metrics", func(r *http.Request) { r.SetBasicAuth("anyone", token) }); code != http.StatusOK {
		t.Errorf("the token as a password: %d", code)
	}
	if code, _ := request(t, s, "GET", "/metrics", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }); code != http.StatusOK {
		t.Errorf("the scheme in lower case: %d", code)
	}
	if want := "http://" + s.Addr() + "/#token=" + token; s.URL() != want {
		t.Errorf("URL %q, want %q", s.URL(), want)
	}
}

// A page of another origin has no answer, also by a name that it has rebound to this address, and also
// with the token.
func TestOtherOriginsAndHostsAreRefused(t *testing.T) {
	t.Parallel()
	run, s, _ := served(t, runs.Options{})
	_, port, _ := net.SplitHostPort(s.Addr())
	for name, c := range map[string]struct {
		change func(r *http.Request)
		code   int
	}{
		"rebound name":      {func(r *http.Request) { r.Host = "evil.example:" + port }, http.StatusMisdirectedRequest},
		"name with a dot":   {func(r *http.Request) { r.Host = "localhost.evil.example" }, http.StatusMisdirectedRequest},
		"foreign origin":    {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"null origin":       {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"other port":        {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden},
		"cross site":        {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"its own origin":    {func(r *http.Request) { r.Header.Set("Origin", "http://"+s.Addr()) }, http.StatusNoContent},
		"localhost":         {func(r *http.Request) { r.Host = "LOCALHOST:" + port }, http.StatusNoContent},
		"an address":        {func(r *http.Request) { r.Host = "[::1]:" + port }, http.StatusNoContent},
		"no browser at all": {nil, http.StatusNoContent},
	} {
		run.Continue()
		if code, body := request(t, s, "POST", "/control/pause", c.change); code != c.code {
			t.Errorf("%s: %d %s, want %d", name, code, body, c.code)
		}
		if paused := run.State().Status == runs.Paused; paused != (c.code == http.StatusNoContent) {
			t.Errorf("%s: paused is %v", name, paused)
		}
	}
	if code, _ := request(t, s, "GET", "/events", func(r *http.Request) { r.Host = "evil.example" }); code != http.StatusMisdirectedRequest {
		t.Errorf("updates for a rebound name: %d", code)
	}
	if code, _ := request(t, s, "GET", "/metrics", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }); code != http.StatusForbidden {
		t.Errorf("numbers for another origin: %d", code)
	}
	for _, site := range []string{"cross-site", "same-site", "same-origin", "none"} {
		from := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }
		want := http.StatusOK
		if strings.HasSuffix(site, "-site") {
			want = http.StatusForbidden
		}
		if code, _ := request(t, s, "GET", "/metrics", from); code != want {
			t.Errorf("numbers for a page that is %s: %d", site, code)
		}
		if code, _ := request(t, s, "GET", "/", from); code != http.StatusOK {
			t.Errorf("a link to the page from one that is %s: %d", site, code)
		}
	}
}

func TestControlsActOnTheRun(t *testing.T) {
	t.Parallel()
	run, s, c := served(t, runs.Options{})
	post := func(what string, want int) {
		t.Helper()
		if code, body := request(t, s, "POST", "/control/"+what, nil); code != want {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
	post("pause", http.StatusNoContent)
	if run.State().Status != runs.Paused {
		t.Error("not paused")
	}
	post("continue", http.StatusNoContent)
	if run.State().Status == runs.Paused {
		t.Error("still paused")
	}
	post("checkpoint", http.StatusNoContent)
	post("stop", http.StatusNoContent)
	if c.requests.Load() != 1 || c.stops.Load() != 1 || run.State().Status != runs.Stopping {
		t.Errorf("%d checkpoints, %d stops, status %v", c.requests.Load(), c.stops.Load(), run.State().Status)
	}
	post("erase", http.StatusNotFound)
	if code, _ := request(t, s, "GET", "/control/pause", nil); code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", code)
	}
	bare, err := runs.Create(t.Context(), "", runs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	other, err := live.Serve("", bare, live.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, button := range []string{"stop", "checkpoint"} {
		if code, body := request(t, other, "POST", "/control/"+button, nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "not ready yet") {
			t.Errorf("%s before the training: %d %s", button, code, body)
		}
	}
	if err := bare.Attach(runs.Source{}); err != nil {
		t.Fatal(err)
	}
	for button, says := range map[string]string{"stop": "Source.Stop", "checkpoint": "-checkpoint DIR"} {
		if code, body := request(t, other, "POST", "/control/"+button, nil); code != http.StatusConflict || !strings.Contains(body, says) {
			t.Errorf("%s of a run that has none: %d %s", button, code, body)
		}
	}
}

func TestAddressesAreOfThisMachineUnlessNamed(t *testing.T) {
	t.Parallel()
	run, s, _ := served(t, runs.Options{})
	for _, addr := range []string{"", ":0", "localhost:0"} {
		other, err := live.Serve(addr, run, live.Options{})
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := net.SplitHostPort(other.Addr())
		if !net.ParseIP(host).IsLoopback() || strings.Contains(other.URL(), token) {
			t.Errorf("%q listens on %s", addr, other.Addr())
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	all, err := live.Serve("0.0.0.0:0", run, live.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(all.Addr())
	urls := all.URLs()
	if !strings.HasPrefix(all.URL(), "http://"+host+":"+port+"/") || urls[0] != all.URL() || urls[len(urls)-1] != "http://127.0.0.1:"+port+"/#token="+token {
		t.Errorf("a server on all addresses is at %q", urls)
	}
	for _, h := range []string{strings.ToUpper(host), host + ".", "localhost.", "192.0.2.1"} {
		if code, _ := request(t, all, "GET", "/", func(r *http.Request) { r.Host = h + ":" + port }); code != http.StatusOK {
			t.Errorf("%s: %d", h, code)
		}
	}
	if code, _ := request(t, s, "GET", "/", func(r *http.Request) { r.Host = host }); code != http.StatusMisdirectedRequest {
		t.Errorf("the name of the machine at a loopback address: %d", code)
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
	for _, addr := range []string{"8080", "a:b:c", s.Addr(), "127.0.0.1:99999"} {
		if _, err := live.Serve(addr, run, live.Options{}); err == nil {
			t.Errorf("%q is accepted", addr)
		}
	}
	for _, token := range []string{"short", "with a space in it", "<script>alert(1)</script>"} {
		if _, err := live.Serve("", run, live.Options{Token: token}); !errors.Is(err, trainer.ErrOption) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := live.Serve("", nil, live.Options{}); !errors.Is(err, trainer.ErrOption) {
		t.Errorf("no run: %v", err)
	}
}

// Prometheus' own parser reads the metrics, and its linter has nothing to say about them.
func TestPrometheusReadsTheMetrics(t *testing.T) {
	t.Parallel()
	run, s, _ := served(t, runs.Options{Name: `"quoted" \ name` + "\n"})
	for n := range int64(7) {
		run.Progress(progress(n + 1))
	}
	for end := time.Now().Add(20 * time.Second); run.State().Number < 7 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	code, body := request(t, s, "GET", "/metrics", nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	m := families["evenkeel_step"].GetMetric()[0]
	if m.GetGauge().GetValue() != 7 || m.GetLabel()[0].GetValue() != `"quoted" \ name`+"\n" {
		t.Errorf("step: %v", m)
	}
	if v := families["evenkeel_samples_total"].GetMetric()[0].GetCounter().GetValue(); v != 14 {
		t.Errorf("samples: %v", v)
	}
	if len(families["evenkeel_time_seconds_total"].GetMetric()) != 4 || families["go_goroutines"] == nil || families["process_open_fds"] == nil && runtime.GOOS == "linux" {
		t.Errorf("families are missing in %s", body)
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestProfilesAreServed(t *testing.T) {
	t.Parallel()
	_, s, _ := served(t, runs.Options{})
	for path, want := range map[string]int{"heap": 200, "goroutine?debug=1": 200, "none": 404, "cpu?seconds=0": 400, "cpu?seconds=61": 400, "trace?seconds=x": 400} {
		if code, body := request(t, s, "GET", "/debug/pprof/"+path, nil); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	code, body := request(t, s, "GET", "/debug/pprof/cpu?seconds=1", nil)
	if code != http.StatusOK {
		t.Fatalf("cpu: %d %s", code, body)
	}
	if _, err := gzip.NewReader(strings.NewReader(body)); err != nil {
		t.Errorf("cpu: %v", err)
	}
	if _, pattern := http.DefaultServeMux.Handler(&http.Request{Method: "GET", Host: "x", URL: &url.URL{Path: "/debug/pprof/"}}); pattern != "" {
		t.Errorf("the default handler of the process has %q", pattern)
	}
}

// Clients that read nothing and send nothing are closed, those with the token are answered meanwhile,
// and the training does not notice any of them.
func TestManyAndSlowClientsDoNotHoldTheTraining(t *testing.T) {
	t.Parallel()
	run, s, _ := served(t, runs.Options{})
	before := runtime.NumGoroutine()
	conns, refused := make([]net.Conn, 0, seed.Cases(800, 10_000)), 0
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range cap(conns) {
		c, err := net.DialTimeout("tcp", s.Addr(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if i < 40 { // pages that read nothing
			if _, err := io.WriteString(c, "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			line, err := bufio.NewReaderSize(c, 16).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "503") {
				refused++
			}
		}
	}
	if code, _ := request(t, s, "GET", "/metrics", nil); code != http.StatusOK {
		t.Errorf("a client with the token: %d", code)
	}
	begun := time.Now()
	for n := range int64(3000) {
		run.Progress(progress(n + 1))
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("3000 steps took %v", took)
	}
	for end := time.Now().Add(20 * time.Second); run.State().Number < 3000 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if s := run.State(); s.Number != 3000 || s.Dropped != 0 {
		t.Errorf("step %d, %d dropped", s.Number, s.Dropped)
	}
	if n := runtime.NumGoroutine() - before; n > 600 {
		t.Errorf("%d goroutines for %d connections", n, len(conns))
	}
	_ = conns[0].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := io.Copy(io.Discard, conns[0]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a page that was open before the others came is closed: %v", err)
	}
	if refused != 40-16 {
		t.Errorf("%d of 40 pages are refused, want all but 16", refused)
	}
}

// Updates follow one another until the run is closed.
func TestUpdatesAreServerSentEvents(t *testing.T) {
	t.Parallel()
	run, s, _ := served(t, runs.Options{Name: "a\nb"})
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.Addr()+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("type %q", kind)
	}
	run.Progress(progress(1))
	run.Pause()
	time.AfterFunc(50*time.Millisecond, func() { _ = run.Close() })
	var names []string
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			names = append(names, name)
		}
	}
	if len(names) < 2 || names[0] != "snapshot" || names[len(names)-1] != "delta" {
		t.Errorf("events %q, %v", names, in.Err())
	}
}
