package runs

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
)

// row is a line of metrics.jsonl: values at a step and a time, by the tags of their series.
//
//	{"step":12,"time":1764457000.125,"seconds":3.25,"epoch":0,"loss/step":0.31,"rate":0.01}
type row struct {
	step    int64     // number of the latest training step
	time    time.Time // of the record
	seconds float64   // that the run has lasted, all its processes together
	epoch   int       // counted from 0
	values  []value
}

// value is a value of a series.
type value struct {
	series *series
	v      float64
}

// Keys of a line that are no tags.
const (
	stepKey    = "step"
	timeKey    = "time"
	secondsKey = "seconds"
	epochKey   = "epoch"
)

// maxCount bounds the numbers of steps and epochs in a line, and its seconds.
const maxCount = 1 << 50

// append appends the line. Values that are not finite are strings: "NaN", "+Inf" or "-Inf".
func (r *row) append(b []byte) []byte {
	b = append(b, `{"step":`...)
	b = strconv.AppendInt(b, r.step, 10)
	b = append(b, `,"time":`...)
	b = strconv.AppendFloat(b, float64(r.time.UnixMilli())/1e3, 'f', 3, 64)
	b = append(b, `,"seconds":`...)
	b = strconv.AppendFloat(b, r.seconds, 'f', 3, 64)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendInt(b, int64(r.epoch), 10)
	for _, v := range r.values {
		b = append(b, ',')
		b = append(b, v.series.quoted...)
		b = append(b, ':')
		if math.IsNaN(v.v) || math.IsInf(v.v, 0) {
			b = append(b, '"')
			b = strconv.AppendFloat(b, v.v, 'g', -1, 64)
			b = append(b, '"')
		} else {
			b = appendNumber(b, v.v)
		}
	}
	return append(b, "}\n"...)
}

// appendNumber appends a finite number in JSON's form.
func appendNumber(b []byte, v float64) []byte {
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e15) {
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// parse reads a line into r. Tags of charts that c does not have are passed over.
func (r *row) parse(text []byte, c charts) error {
	in := json.NewDecoder(bytes.NewReader(text))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, fmt.Errorf("%q is no object", text))
	}
	*r = row{step: -1, values: r.values[:0]}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		var n trainer.Number
		if err := in.Decode(&n); err != nil {
			return fmt.Errorf("%v: %w", key, err)
		}
		v := float64(n)
		switch key {
		case stepKey, epochKey:
			if !(v >= 0 && v <= maxCount) || v != math.Trunc(v) { // NaN is in no range
				return fmt.Errorf("%v is %v, which is not a whole number from 0 to %d", key, v, int64(maxCount))
			}
		case timeKey, secondsKey:
			if !(math.Abs(v) <= maxCount) {
				return fmt.Errorf("%v is %v, which is not a number of seconds", key, v)
			}
		}
		switch key {
		case stepKey:
			r.step = int64(v)
		case timeKey:
			r.time = time.UnixMilli(int64(v * 1e3))
		case secondsKey:
			r.seconds = v
		case epochKey:
			r.epoch = int(v)
		default:
			if s := c.tagged(key.(string)); s != nil { // keys are strings
				r.values = append(r.values, value{s, v})
			}
		}
	}
	if r.step < 0 {
		return fmt.Errorf("%q has no number of a step", text)
	}
	_, err := in.Token()
	return err
}

// addTo adds the values to their series.
func (r *row) addTo() {
	for _, v := range r.values {
		x := r.seconds
		if v.series.chart.Axis == stepKey {
			x = float64(r.step)
		}
		v.series.add(point{x, v.v})
	}
}

// hasSteps reports whether metrics.jsonl has a step or an evaluation, or cannot be read.
func hasSteps(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReader(f)
	c := newCharts()
	for r := (row{}); ; {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return false
		}
		if err != nil || r.parse(text, c) != nil {
			return true
		}
		for _, v := range r.values {
			if v.series.chart.Axis == stepKey {
				return true
			}
		}
	}
}

// readRows reads metrics.jsonl into charts, and returns its last row and the bytes of whole lines: a
// process that was killed may have left a part of one. A row of a step that is not after those
// before it replaces them, as a restored training does.
func readRows(name string, c charts) (last row, whole int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return row{}, 0, err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReader(f)
	var r row
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if err == io.EOF {
			return last, whole, nil
		}
		if err == nil {
			err = r.parse(text, c)
		}
		if err != nil {
			return row{}, 0, &RowError{name, n, err.Error()}
		}
		if r.step < last.step {
			c.cut(r.step)
		}
		r.addTo()
		whole += int64(len(text))
		last = row{step: r.step, time: r.time, seconds: r.seconds, epoch: r.epoch}
	}
}
