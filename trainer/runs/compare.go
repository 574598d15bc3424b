package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evenkeel/evenkeel/internal/atomicfile"
	"github.com/evenkeel/evenkeel/trainer"
)

// Compare writes a page to the file name that shows the runs in folders, each in a colour of its own.
// Runs may still be going on: the page has what their files had. A folder without a run is a
// *FolderError, and so is one that is named twice; all of them are reported together.
func Compare(name string, dirs ...string) error {
	if len(dirs) == 0 {
		return fmt.Errorf("compare runs: name at least one folder: %w", trainer.ErrOption)
	}
	var views []*view
	var errs []error
	var seen []fs.FileInfo
	for _, dir := range dirs {
		if here, err := os.Stat(dir); err == nil { // readView reports the error
			if slices.ContainsFunc(seen, func(i fs.FileInfo) bool { return os.SameFile(i, here) }) {
				errs = append(errs, &FolderError{Dir: dir, Reason: "it is named twice: name each folder once"})
				continue
			}
			seen = append(seen, here)
		}
		v, err := readView(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		views = append(views, v)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	distinguish(views, dirs)
	var b bytes.Buffer
	if err := writePage(&b, views); err != nil {
		return err
	}
	return atomicfile.WriteFile(nil, name, b.Bytes())
}

// readView reads the run in a folder.
func readView(dir string) (*view, error) {
	i, err := readInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FolderError{Dir: dir, Reason: "it has no " + infoFile + ": name the folder of a run"}
	}
	if err != nil {
		return nil, err
	}
	v := &view{Name: i.Name, Settings: i.Settings, Charts: newCharts()}
	if len(i.Opened) > 0 {
		v.Started = i.Opened[0]
	}
	last, _, err := readRows(filepath.Join(dir, metricsFile), v.Charts)
	if err != nil {
		return nil, err
	}
	v.Saved = last.time
	v.State = State{Status: Ended, Number: last.step, Epoch: last.epoch, Seconds: last.seconds}
	return v, nil
}

// distinguish adds the folder to names that several runs have.
func distinguish(views []*view, dirs []string) {
	count := map[string]int{}
	for _, v := range views {
		count[v.Name]++
	}
	for i, v := range views {
		if count[v.Name] > 1 {
			v.Name += " (" + dirs[i] + ")"
		}
	}
}
