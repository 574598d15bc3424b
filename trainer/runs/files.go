package runs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/plot"
	"github.com/evenkeel/evenkeel/trainer/report"
	"github.com/evenkeel/evenkeel/trainer/runs/internal/tfevents"
)

// Names of files in the folder of a run.
const (
	infoFile    = "run.json"
	metricsFile = "metrics.jsonl"
	pageFile    = "index.html"
)

// infoVersion is the version of run.json.
const infoVersion = 1

// info is the content of run.json.
type info struct {
	Version  int               `json:"version"`
	Name     string            `json:"name"`
	Settings []trainer.Setting `json:"settings"`
	Opened   []time.Time       `json:"opened"` // by each process, the first one first
}

// Files are drawn again when drawingShare times the time of the last drawing has passed, and
// drawingPeriod: half a percent of one core at most.
const (
	drawingShare  = 200
	drawingPeriod = 10 * time.Second
)

// files are the files of a run. Without a folder its methods do nothing. After the first error, err, nothing is
// written any more.
type files struct {
	dir     string
	metrics *os.File
	lines   *bufio.Writer
	line    []byte
	raw     *os.File // event file of TensorBoard
	events  *bufio.Writer
	tf      *tfevents.Writer
	err     error

	drawn       time.Time // or opened
	drawingTime time.Duration
}

// open makes the folder, or goes on with the run in it: its points are added to the charts, and its
// last row is returned.
func (f *files) open(dir string, opt Options, begun time.Time, c charts) (last row, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return row{}, err
	}
	have, err := readInfo(dir)
	switch {
	case err == nil && !opt.Resume:
		return row{}, &FolderError{dir, "it has a run: set Options.Resume to go on with it, or use another folder"}
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(dir); err != nil {
			return row{}, err
		} else if len(entries) > 0 {
			return row{}, &FolderError{dir, "it has other files and no " + infoFile + ": use another folder"}
		}
	case err != nil:
		return row{}, err
	}
	name := filepath.Join(dir, metricsFile)
	whole := int64(0)
	if last, whole, err = readRows(name, c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return row{}, err
	}
	b, err := json.MarshalIndent(info{infoVersion, opt.Name, opt.Settings, append(have.Opened, begun)}, "", "  ")
	if err != nil {
		return row{}, err
	}
	if err := atomicfile.WriteFile(nil, filepath.Join(dir, infoFile), append(b, '\n')); err != nil {
		return row{}, err
	}
	if f.metrics, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
		return row{}, err
	}
	if err := errors.Join(f.metrics.Truncate(whole), f.openEvents(dir, begun)); err != nil {
		return row{}, errors.Join(err, f.metrics.Close())
	}
	f.dir, f.drawn = dir, begun
	f.lines = bufio.NewWriterSize(f.metrics, 1<<16)
	return last, nil
}

// readInfo reads run.json in a folder.
func readInfo(dir string) (i info, err error) {
	name := filepath.Join(dir, infoFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, &FolderError{dir, fmt.Sprintf("%s cannot be read (%v): use another folder", infoFile, err)}
	}
	if i.Version != infoVersion {
		return i, &FolderError{dir, fmt.Sprintf("%s has version %d, and this program reads %d: use another folder", infoFile, i.Version, infoVersion)}
	}
	return i, nil
}

// openEvents makes an event file that is later than all others in the folder.
func (f *files) openEvents(dir string, begun time.Time) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	host = strings.Map(func(c rune) rune {
		if c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, host)
	for at := begun; ; at = at.Add(time.Second) { // two processes within a second
		others, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.*", at.Unix())))
		if err != nil {
			return err
		}
		if len(others) > 0 {
			continue
		}
		f.raw, err = os.OpenFile(filepath.Join(dir, tfevents.Name(at, host, os.Getpid())), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		f.events = bufio.NewWriterSize(f.raw, 1<<16)
		f.tf, err = tfevents.NewWriter(f.events, begun)
		return err
	}
}

// fails keeps the first error, and reports whether nothing is to be written.
func (f *files) fails(err error) bool {
	if f.err == nil {
		f.err = err
	}
	return f.dir == "" || f.err != nil
}

// write writes a row to the log and to TensorBoard.
func (f *files) write(r *row) {
	if f.fails(nil) {
		return
	}
	f.line = r.append(f.line[:0])
	if _, err := f.lines.Write(f.line); f.fails(err) {
		return
	}
	for _, v := range r.values {
		if f.fails(f.tf.Scalar(r.time, r.step, v.series.tag, v.v)) {
			return
		}
	}
}

// restart records for TensorBoard that training goes on at a step.
func (f *files) restart(now time.Time, step int64) {
	if !f.fails(nil) {
		f.fails(f.tf.Restart(now, step))
	}
}

// flush writes what is buffered.
func (f *files) flush() {
	if !f.fails(nil) {
		f.fails(errors.Join(f.lines.Flush(), f.events.Flush()))
	}
}

// drawingDue reports whether enough time has passed since the last drawing.
func (f *files) drawingDue(now time.Time) bool {
	return f.dir != "" && now.Sub(f.drawn) >= max(drawingPeriod, drawingShare*f.drawingTime)
}

// draw draws the curves and the page.
func (f *files) draw(v *view) {
	var b bytes.Buffer
	for _, pictures := range []struct{ name, axis string }{{"curves", stepKey}, {"time", secondsKey}} {
		figure := v.Charts.figure(v.Name, pictures.axis)
		if len(figure.Panels) == 0 {
			continue
		}
		for _, format := range []plot.Format{plot.SVG, plot.PNG} {
			b.Reset()
			if err := figure.Write(&b, format); f.fails(err) {
				return
			}
			f.replace(pictures.name+map[plot.Format]string{plot.SVG: ".svg", plot.PNG: ".png"}[format], b.Bytes())
		}
	}
	b.Reset()
	if err := writePage(&b, []*view{v}); !f.fails(err) {
		f.replace(pageFile, b.Bytes())
	}
}

// writePlan writes the memory plan.
func (f *files) writePlan(p *report.Plan) {
	if f.fails(nil) {
		return
	}
	f.replace("plan.txt", []byte(p.String()))
	var b bytes.Buffer
	if err := picture.Write(&b, picture.HTML, p, picture.Options{}); !f.fails(err) {
		f.replace("plan.html", b.Bytes())
	}
}

// replace replaces a file in one step.
func (f *files) replace(name string, data []byte) {
	if !f.fails(nil) {
		f.fails(atomicfile.WriteFile(nil, filepath.Join(f.dir, name), data))
	}
}

// close closes the files and returns the first error.
func (f *files) close() error {
	if f.dir == "" {
		return nil
	}
	f.flush()
	return errors.Join(f.err, f.metrics.Close(), f.raw.Close())
}
