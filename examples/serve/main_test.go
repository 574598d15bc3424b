package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/internal/cputest"
	"github.com/evenkeel/evenkeel/kernels/cpu"
)

// enough digits to recognise most.
const enough = 6400

// digits returns the first ones of both sets of MNIST, so many for training and for tests.
func digits(t *testing.T, trains, tests int) (train, test dataloader.Dataset) {
	t.Helper()
	train, test, err := run.Digits("", 1, 28, 28)
	if err != nil {
		t.Fatal(err)
	}
	if train, err = dataloader.Subset(train, 0, trains); err != nil {
		t.Fatal(err)
	}
	if test, err = dataloader.Subset(test, 0, tests); err != nil {
		t.Fatal(err)
	}
	return train, test
}

// trained is a server that has trained on n digits, and its test set.
func trained(t *testing.T, n int, training bool) (*server, *httptest.Server, dataloader.Dataset) {
	t.Helper()
	train, test := digits(t, n, 640)
	dev := cputest.OpenChecked(t, cpu.Options{Threads: 2})
	s := &server{training: training}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.open(t.Context(), dev, train, test, flags{epochs: 1, batch: 64, rows: 16, seed: 1}, io.Discard); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.handler())
	t.Cleanup(web.Close)
	return s, web, test
}

// encode returns a picture as a PNG.
func encode(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// digitOf returns a sample of MNIST as a picture, and its label.
func digitOf(t *testing.T, ds dataloader.Dataset, i int) (*image.Gray, int) {
	t.Helper()
	img, label := image.NewGray(image.Rect(0, 0, side, side)), make([]byte, 1)
	if err := ds.Fetch(t.Context(), dataloader.At{Index: i}, [][]byte{img.Pix, label}); err != nil {
		t.Fatal(err)
	}
	return img, int(label[0])
}

// post posts a body and decodes the answer, which must be JSON.
func post(t *testing.T, url string, body []byte) (code int, a answer, message string) {
	t.Helper()
	r, err := http.Post(url, "image/png", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var both struct {
		answer
		Error string
	}
	if err := json.NewDecoder(r.Body).Decode(&both); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r.StatusCode, both.answer, both.Error
}

func TestPostedDigitsAreRecognised(t *testing.T) {
	s, web, test := trained(t, enough, false)
	// Many clients at once: each gets the answer for its own picture.
	var all sync.WaitGroup
	var mu sync.Mutex
	plain, large := 0, 0
	const clients, each = 8, 25
	for c := range clients {
		all.Go(func() {
			for i := c * each; i < (c+1)*each; i++ {
				img, label := digitOf(t, test, i)
				code, a, message := post(t, web.URL+"/predict", encode(t, img))
				if code != http.StatusOK {
					t.Errorf("digit %d: %d %s", i, code, message)
					return
				}
				sum := 0.0
				for _, p := range a.Probabilities {
					sum += p
				}
				if sum < 0.999 || sum > 1.001 || a.Probabilities[a.Digit] != slices.Max(a.Probabilities[:]) {
					t.Errorf("digit %d: probabilities %v, digit %d", i, a.Probabilities, a.Digit)
				}
				// The same digit on paper: four times as large, dark on bright, in a corner.
				_, b, _ := post(t, web.URL+"/predict", encode(t, onPaper(img, 4, 200, 20, 30)))
				mu.Lock()
				if a.Digit == label {
					plain++
				}
				if b.Digit == label {
					large++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if plain < 180 || large < 170 {
		t.Errorf("of 200 digits %d are right, and %d on paper", plain, large)
	}
	if stats := s.predictor.Stats(); stats.Calls != 2*clients*each {
		t.Errorf("%d calls", stats.Calls)
	}
	if s.trainer != nil {
		t.Error("the trainer is kept without -training")
	}
}

// onPaper returns a picture of paper with a digit of a multiple of its size at x, y, dark on bright.
func onPaper(digit *image.Gray, times, paper, x, y int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, paper, paper))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	for py := range side * times {
		for px := range side * times {
			v := 255 - digit.GrayAt(px/times, py/times).Y
			img.Set(x+px, y+py, color.RGBA{v, v, v, 255})
		}
	}
	return img
}

func TestADigitOfMNISTStaysAsItIs(t *testing.T) {
	_, test, err := run.Digits("", 1, 28, 28)
	if err != nil {
		t.Fatal(err)
	}
	off := 0
	for i := range 100 {
		img, _ := digitOf(t, test, i)
		var got, paper [side * side]uint8
		if err := decode(encode(t, img), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[:], img.Pix) {
			t.Fatalf("digit %d has changed", i)
		}
		// On paper it is cut out, scaled and centred again: the same up to rounding in most digits.
		if err := decode(encode(t, onPaper(img, 4, 200, 50, 10)), &paper); err != nil {
			t.Fatal(err)
		}
		diff := 0
		for k := range got {
			diff += max(int(got[k]), int(paper[k])) - min(int(got[k]), int(paper[k]))
		}
		if diff > 40*255 {
			off++
		}
	}
	if off > 10 {
		t.Errorf("%d of 100 digits are not where MNIST has them", off)
	}
}

func TestWrongRequestsAreErrorsInJSON(t *testing.T) {
	_, web, _ := trained(t, 64, false)
	blank := image.NewGray(image.Rect(0, 0, 50, 50))
	bomb := encode(t, image.NewGray(image.Rect(0, 0, 3000, 2000)))
	for _, c := range []struct {
		method, path string
		body         []byte
		code         int
		want         string
	}{
		{"POST", "/predict", nil, 400, "not a picture"},
		{"POST", "/predict", []byte("GIF89a"), 400, "not a picture"},
		{"POST", "/predict", encode(t, blank)[:60], 400, "not a picture"},
		{"POST", "/predict", encode(t, blank), 400, "one colour"},
		{"POST", "/predict", bomb, 400, "3000×2000"},
		{"POST", "/predict", make([]byte, maxBody+1), 413, "more than"},
		{"GET", "/predict", nil, 405, "use POST"},
		{"DELETE", "/status", nil, 405, "use GET"},
		{"POST", "/train", nil, 403, "-training"},
		{"GET", "/nothing", nil, 404, "unknown"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, web.URL+c.path, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var e struct{ Error string }
		err = json.NewDecoder(a.Body).Decode(&e)
		a.Body.Close()
		if err != nil || a.StatusCode != c.code || !strings.Contains(e.Error, c.want) || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %q %v, want %d with %q", c.method, c.path, a.StatusCode, e.Error, err, c.code, c.want)
		}
	}
}

func TestTheServerAnswersWhileItTrains(t *testing.T) {
	s, web, test := trained(t, 3520, true) // 55 steps an epoch, with a snapshot after 50
	img, _ := digitOf(t, test, 0)
	picture := encode(t, img)
	_, before, _ := post(t, web.URL+"/predict", picture)
	if code, _, message := post(t, web.URL+"/train", nil); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, message)
	}
	if code, _, message := post(t, web.URL+"/train", nil); code != http.StatusConflict || message == "" {
		t.Errorf("a second time: %d %q", code, message)
	}
	answers, steps := 0, map[int64]bool{}
	for end := time.Now().Add(2 * time.Minute); ; {
		code, a, message := post(t, web.URL+"/predict", picture)
		if code != http.StatusOK || a.Steps < before.Steps {
			t.Fatalf("%d %s, steps %d after %d", code, message, a.Steps, before.Steps)
		}
		answers++
		steps[a.Steps] = true
		s.mu.Lock()
		st := s.status
		s.mu.Unlock()
		if !st.Training {
			if st.Epochs != 2 || st.Error != "" || st.Steps != 110 {
				t.Errorf("status %+v", st)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("still training")
		}
	}
	if len(steps) < 2 {
		t.Errorf("%d answers, all from snapshots %v", answers, steps)
	}
	t.Logf("%d answers from snapshots after %v steps", answers, len(steps))
}

func TestTheCommandServesUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, done := make(chan string, 1), make(chan error, 1)
	var out bytes.Buffer
	go func() {
		done <- serve(ctx, []string{"-addr", "127.0.0.1:0", "-samples", "640", "-training"}, &out, ready)
	}()
	var addr string
	select {
	case addr = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	if code, _, message := post(t, "http://"+addr+"/train", nil); code != http.StatusAccepted {
		t.Errorf("%d %s", code, message)
	}
	r, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || !bytes.Contains(b, []byte("<canvas")) || r.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("page of %d bytes, %v", len(b), err)
	}
	stop() // also while it trains
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("not stopped")
	}
	for _, want := range []string{"epoch 1: accuracy", "serving http://127.0.0.1:", "stopping"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}

func TestWrongFlagsAreErrors(t *testing.T) {
	for _, args := range [][]string{{"-samples", "0"}, {"-epochs", "-1"}, {"more"}, {"-picture", "plan.svg"},
		{"-plan", "-picture", "plan.jpg"}, {"-rows", "-1", "-samples", "64"}} {
		if err := serve(t.Context(), args, io.Discard, nil); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestThePlansAreDrawnBeforeAnythingIsTrained(t *testing.T) {
	for name, want := range map[string]string{"plan.html": `"name":"serving"`, "plan.svg": "scratch 0", "plan.png": "\x89PNG"} {
		file, out := filepath.Join(t.TempDir(), name), new(strings.Builder)
		if err := serve(t.Context(), []string{"-plan", "-picture", file}, out, nil); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %v, no %q", name, err, want)
		}
		if text := out.String(); !strings.Contains(text, "serving:\n\nmemory plan:") || strings.Contains(text, "epoch") {
			t.Errorf("output:\n%s", text)
		}
	}
}
