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
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/internal/folderlock"
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
	drawingPeriod = time.Minute
)

// files are the files of a run. Without a folder its methods do nothing. After the first error of the
// numbers, err, no numbers are written any more; pictures and pages are tried again at the next drawing,
// and never end the numbers.
type files struct {
	dir      string
	lock     *folderlock.Lock
	metrics  *os.File
	lines    *bufio.Writer
	line     []byte
	raw      *os.File // event file of TensorBoard
	events   *bufio.Writer
	tf       *tfevents.Writer
	err      error // of the numbers, the first one
	pictures error // of pictures and pages, the first one

	drawn       time.Time // or opened
	drawingTime time.Duration
}

// open makes the folder and locks it, or goes on with the run in it: its points are added to the charts,
// and its last row is returned.
func (f *files) open(dir string, opt Options, begun time.Time, c charts) (last row, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return row{}, err
	}
	if _, err := earlier(dir, true); err != nil { // no lock in a folder of others
		return row{}, err
	}
	lock, err := folderlock.Acquire(dir, nil)
	var held *folderlock.HeldError
	if errors.As(err, &held) {
		return row{}, &LockedError{Dir: held.Dir, PID: held.PID, Host: held.Host}
	}
	if err != nil {
		return row{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Release())
		}
	}()
	have, err := earlier(dir, opt.Resume)
	if err != nil {
		return row{}, err
	}
	name := filepath.Join(dir, metricsFile)
	whole := int64(0)
	if opt.Resume {
		last, whole, err = readRows(name, c)
	} else {
		err = removeEvents(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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
	f.dir, f.lock, f.drawn = dir, lock, begun
	f.lines = bufio.NewWriterSize(f.metrics, 1<<16)
	return last, nil
}

// earlier returns what run.json has of the run in a folder that resume goes on with. Without resume it is
// an error if the run has a step or an evaluation; one that has none is taken over.
func earlier(dir string, resume bool) (info, error) {
	have, err := readInfo(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		entries, err := os.ReadDir(dir)
		if err != nil {
			return info{}, err
		}
		if len(entries) > 1 || len(entries) == 1 && entries[0].Name() != folderlock.Name {
			return info{}, &FolderError{Dir: dir, Reason: "it has other files and no " + infoFile + ": use another folder"}
		}
		return info{}, nil
	case err != nil || resume:
		return have, err
	case hasSteps(filepath.Join(dir, metricsFile)):
		return info{}, &FolderError{Dir: dir, Reason: "it has a run: set Options.Resume to go on with it, or use another folder", Recorded: true}
	}
	return info{}, nil
}

// removeEvents removes the event files of a run that is taken over.
func removeEvents(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// readInfo reads run.json in a folder.
func readInfo(dir string) (i info, err error) {
	name := filepath.Join(dir, infoFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(b, &i); err != nil {
		return i, &FolderError{Dir: dir, Reason: fmt.Sprintf("%s cannot be read (%v): use another folder", infoFile, err)}
	}
	if i.Version != infoVersion {
		return i, &FolderError{Dir: dir,
			Reason: fmt.Sprintf("%s has version %d, and this program reads %d: use another folder", infoFile, i.Version, infoVersion)}
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

// fails keeps the first error of the numbers, and reports whether none are to be written.
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

// lookForFolder ends the numbers if the folder was removed, or is that of another process now.
func (f *files) lookForFolder() {
	if f.fails(nil) || f.lock.Held() {
		return
	}
	_, err := os.Stat(filepath.Join(f.dir, folderlock.Name))
	switch {
	case err == nil:
		err = errors.New("another process has made it anew")
	case !errors.Is(err, fs.ErrNotExist): // a file system that does not answer now
		return
	}
	f.fails(fmt.Errorf("the folder %s of the run is gone: %w", f.dir, err))
}

// draw draws the curves and the page.
func (f *files) draw(v *view) {
	for _, pictures := range []struct{ name, axis string }{{"curves", stepKey}, {"time", secondsKey}} {
		figure := v.Charts.figure(v.Name, pictures.axis)
		if len(figure.Panels) == 0 {
			continue
		}
		for end, format := range map[string]plot.Format{".svg": plot.SVG, ".png": plot.PNG} {
			f.replace(pictures.name+end, func(w io.Writer) error { return figure.Write(w, format) })
		}
	}
	f.replace(pageFile, func(w io.Writer) error { return writePage(w, []*view{v}) })
}

// writePlan writes the memory plan.
func (f *files) writePlan(p *report.Plan) {
	f.replace("plan.txt", func(w io.Writer) error { _, err := io.WriteString(w, p.String()); return err })
	f.replace("plan.html", func(w io.Writer) error { return picture.Write(w, picture.HTML, p, picture.Options{}) })
}

// replace replaces a file in one step by what draw writes, and keeps the first error.
func (f *files) replace(name string, draw func(w io.Writer) error) {
	if f.dir == "" || !f.lock.Held() {
		return
	}
	var b bytes.Buffer
	err := draw(&b)
	if err == nil {
		err = atomicfile.WriteFile(nil, filepath.Join(f.dir, name), b.Bytes())
	}
	if err != nil && f.pictures == nil {
		f.pictures = fmt.Errorf("%s of the run: %w", name, err)
	}
}

// first returns the first error, of the numbers if they have one.
func (f *files) first() error { return cmp.Or(f.err, f.pictures) }

// close closes the files, unlocks the folder, and returns the errors.
func (f *files) close() error {
	if f.dir == "" {
		return nil
	}
	f.flush()
	return errors.Join(f.err, f.pictures, f.metrics.Close(), f.raw.Close(), f.lock.Release())
}
