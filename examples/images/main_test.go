package main

import (
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/examples/internal/runtest"
)

// drawn returns a folder of pictures.
func drawn(t *testing.T, train, test int) string {
	t.Helper()
	dir := t.TempDir()
	if err := drawAll(dir, 1, train, test); err != nil {
		t.Fatal(err)
	}
	return dir
}

// trained runs the program on the pictures of dir, and returns its results.
func trained(t *testing.T, dir string, args ...string) (r run.Results) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.json")
	out, err := runtest.Run(newExample(), 0, append(args, "-data", dir, "-json", file)...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || !strings.Contains(out, "memory plan: ") {
		t.Fatalf("%v, output:\n%s", err, out)
	}
	return r
}

// The same pictures give the same parameters in each form, whose datasets are read in other ways:
// the Parquet file has row groups.
func TestAllFormsTrainTheSameBits(t *testing.T) {
	dir, want := drawn(t, 3*groupRows+7, 90), ""
	for _, form := range formats() {
		r := trained(t, dir, "-format", form, "-epochs", "2", "-batch", "32")
		if want == "" {
			want = r.ParametersSHA256
		}
		if r.ParametersSHA256 != want || want == "" || r.DriftBytes != 0 {
			t.Errorf("%s: %+v, want parameters %s", form, r, want)
		}
	}
}

func TestTheNetworkLearnsThePictures(t *testing.T) {
	if testing.Short() {
		t.Skip("trains 2,000 pictures for 3 epochs")
	}
	r := trained(t, drawn(t, 2000, 500), "-epochs", "3", "-batch", "32")
	if r.TestAccuracy == nil || *r.TestAccuracy < 0.2 { // chance is 0.1
		t.Errorf("results %+v, want accuracy 0.2", r)
	}
	t.Logf("accuracy %v", *r.TestAccuracy)
}

func TestAnInterruptedRunGoesOnWithTheSameBits(t *testing.T) {
	runtest.Resumes(t, newExample(), 0, "-data", drawn(t, 130, 20), "-batch", "16", "-format", "parquet")
}

func TestAContactSheetShowsTheChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sheet.png")
	out, err := runtest.Run(newExample(), 0, "-data", drawn(t, 40, 10), "-show", file)
	if err != nil || !strings.Contains(out, "8 of 40 pictures") || strings.Contains(out, "epoch  1") {
		t.Fatalf("%v, output:\n%s", err, out)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil || m.Bounds().Dx() < 8*side || m.Bounds().Dy() < 8*side {
		t.Errorf("%v, %v", m, err)
	}
}

func TestMistakesSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-format", "zip"}, "must be one of folder, pack, parquet, tar"},
		{[]string{"-data", t.TempDir()}, "the folder of pictures needs train and test, each with a folder for each class"},
		{[]string{"-data", filepath.Join(t.TempDir(), "none")}, "none"},
		{[]string{"-data", drawn(t, 10, 10), "-show", filepath.Join(t.TempDir(), "none", "sheet.png")}, "sheet.png"},
	} {
		if _, err := runtest.Run(newExample(), 0, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}
