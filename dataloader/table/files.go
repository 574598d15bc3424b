package table

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/storage"
)

// Files opens files, sorted by the bytes of their names: a file by its name, the files of a folder
// with one of the extensions, or those that match a pattern of [path.Match]. Names that begin with "."
// or "_" are left out of the last two. No file is an error that wraps fs.ErrNotExist. After an error
// no file is open.
type Files func(extensions ...string) ([]storage.File, error)

// Path returns the file, the folder or the pattern of files at path. A link may be the file that path
// names; links in a folder that lead out of it are refused.
func Path(path string) Files {
	return func(extensions ...string) ([]storage.File, error) { return openPath(path, extensions) }
}

// FS returns the file, the folder or the pattern of files at name in fsys.
func FS(fsys fs.FS, name string) Files {
	return func(extensions ...string) ([]storage.File, error) { return openFS(fsys, name, extensions) }
}

// openPath implements Path.
func openPath(path string, extensions []string) ([]storage.File, error) {
	dir, name := filepath.Split(path)
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		f, err := storage.OpenFile(path)
		return []storage.File{f}, err
	} else if err == nil {
		dir, name = path, "."
	}
	if dir == "" {
		dir = "."
	}
	folder, err := storage.Dir(dir)
	if err != nil {
		return nil, err
	}
	files, err := openFS(folder, name, extensions)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err) // names in the folder say less
	}
	return files, errors.Join(err, folder.Close())
}

// openFS implements FS.
func openFS(fsys fs.FS, name string, extensions []string) ([]storage.File, error) {
	names, err := list(fsys, name, extensions)
	if err != nil {
		return nil, err
	}
	var files []storage.File
	for _, name := range names {
		f, err := storage.Open(fsys, name)
		if err != nil {
			return nil, errors.Join(err, Close(files))
		}
		files = append(files, f)
	}
	return files, nil
}

// Close closes the files.
func Close(files []storage.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// list returns the names of the files that a name stands for.
func list(fsys fs.FS, name string, extensions []string) ([]string, error) {
	var found []string
	info, err := fs.Stat(fsys, name)
	switch {
	case err == nil && !info.IsDir():
		return []string{name}, nil
	case err == nil:
		entries, err := fs.ReadDir(fsys, name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			ends := func(extension string) bool { return strings.HasSuffix(e.Name(), extension) }
			if !e.IsDir() && slices.ContainsFunc(extensions, ends) {
				found = append(found, path.Join(name, e.Name()))
			}
		}
	case !strings.ContainsAny(name, "*?["):
		return nil, err
	default:
		if found, err = fs.Glob(fsys, name); err != nil {
			return nil, fmt.Errorf("pattern %q: %v: %w", name, err, dataloader.ErrOption)
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool {
		base := path.Base(s)
		return base[0] == '.' || base[0] == '_'
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no file %s: %w", name, strings.Join(extensions, ", "), fs.ErrNotExist)
	}
	slices.Sort(found)
	return found, nil
}
