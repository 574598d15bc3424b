package tfevents

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The checksum of TFRecord's specification for 32 zeros and of its masking: 0x8a9136aa is the CRC-32C
// of 32 zero bytes in RFC 3720, B.4.
func TestChecksumsAreMaskedCRC32C(t *testing.T) {
	t.Parallel()
	c := uint32(0x8a9136aa)
	if got, want := masked(make([]byte, 32)), (c>>15|c<<17)+0xa282ead8; got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

// The records of the version are those that TensorBoard itself writes, but for the time.
func TestAFileBeginsWithItsVersion(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if _, err := NewWriter(&b, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	want := "\x18\x00\x00\x00\x00\x00\x00\x00" + "\xa3\x7f\x4b\x22" + "\x09" + strings.Repeat("\x00", 8) + "\x1a\rbrain.Event:2"
	if got := b.String(); !strings.HasPrefix(got, want) || len(got) != len(want)+4 {
		t.Errorf("got %q", got)
	}
}

// reader prints the scalars that TensorBoard reads in a folder, with NaN as text.
const reader = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
a.Reload()
print(json.dumps({t: [[e.step, repr(e.value)] for e in a.Scalars(t)] for t in a.Tags()["scalars"]}))
`

func TestTensorBoardReadsScalarsAndDropsWhatARestartReplaces(t *testing.T) {
	t.Parallel()
	python := os.Getenv("EVENKEEL_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import tensorboard").Run(); err != nil {
		t.Skip("needs Python with the package tensorboard: set EVENKEEL_PYTHON to it: ", err)
	}
	dir := t.TempDir()
	write := func(begun int64, first int64, values ...float64) {
		var b bytes.Buffer
		w, err := NewWriter(&b, time.Unix(begun, 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Restart(time.Unix(begun, 0), first); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if err := w.Scalar(time.Unix(begun, 0), first+int64(i), "loss/step <b>", v); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, Name(time.Unix(begun, 0), "host", 7)), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(100, 1, 4, 3, 2, 1)
	write(200, 3, math.NaN(), 0.5, math.Inf(1))
	out, err := exec.Command(python, "-c", reader, dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][][2]any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	want := map[string][][2]any{"loss/step <b>": {{1.0, "4.0"}, {2.0, "3.0"}, {3.0, "nan"}, {4.0, "0.5"}, {5.0, "inf"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
