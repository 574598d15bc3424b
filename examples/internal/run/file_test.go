package run

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// A file that cannot be written is found before anything is read or printed, and named by its flag.
func TestFilesThatCannotBeWrittenAreFoundAtOnce(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for _, args := range [][]string{
		{"-plan", "-picture", none + "/x.svg"}, {"-picture", none + "/x.html"}, {"-trace", none + "/x.json"}, {"-json", none + "/x.json"},
		{"-curves", none + "/x.png"},
	} {
		var out strings.Builder
		e := Example{Name: "example", Flags: Flags{Device: "cpu", Optimizer: "adam", Batch: 4, Epochs: 1}, Load: func(Flags) (train, test dataloader.Dataset, err error) {
			return nil, nil, errors.New("data were read")
		}}
		err := e.Run(context.Background(), args, &out)
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), args[len(args)-2]+": ") || out.Len() > 0 {
			t.Errorf("%q: %v, output %q", args, err, &out)
		}
	}
	f := Flags{JSON: filepath.Join(dir, "a.json")}
	if err := f.writable(); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("a check has made %v, %v", names, err)
	}
}

func TestAFullDiskNamesTheFlag(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	err := create("trace", "/dev/full", func(w io.Writer) error {
		_, err := w.Write(slices.Repeat([]byte("x"), 10))
		return err
	})
	if err == nil || !strings.HasPrefix(err.Error(), "-trace: write /dev/full: ") {
		t.Error(err)
	}
}
