package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// writable returns an error for each flag whose file cannot be written. It changes nothing.
func (f *Flags) writable() error {
	var errs []error
	for _, file := range [][2]string{{"picture", f.Picture}, {"curves", f.Curves}, {"trace", f.Trace}, {"json", f.JSON}} {
		if file[1] != "" {
			errs = append(errs, named(file[0], writable(file[1])))
		}
	}
	return errors.Join(errs...)
}

// named returns an error that begins with the flag, nil for nil.
func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("-%s: %w", flag, err)
}

// writable returns an error if a file cannot be written. It changes nothing.
func writable(name string) error {
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = f.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// create opens the file of a flag, calls contents, and then replaces the contents of the file. After an
// error an existing file is unchanged and a new one is removed. Errors of the file name the flag.
func create(flag, name string, contents func(io.Writer) error) error {
	_, missing := os.Stat(name)
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return named(flag, err)
	}
	var b bytes.Buffer
	if err := contents(&b); err != nil {
		if missing != nil {
			err = errors.Join(err, os.Remove(name))
		}
		return errors.Join(err, w.Close())
	}
	if s, err := w.Stat(); err == nil && s.Mode().IsRegular() {
		if err := w.Truncate(0); err != nil {
			return named(flag, errors.Join(err, w.Close()))
		}
	}
	_, err = w.Write(b.Bytes())
	return named(flag, errors.Join(err, w.Close()))
}
