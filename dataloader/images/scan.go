package images

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
)

// maxDepth is the largest depth of folders below a class.
const maxDepth = 64

// scanner makes the index of a folder.
type scanner struct {
	f    *Folder
	hash hash.Hash64
}

// run finds the classes, then the pictures of each.
func (s *scanner) run(ctx context.Context) error {
	entries, err := s.entries(s.f.dir)
	if err != nil {
		return err
	}
	var folders []string
	var loose []string
	for _, e := range entries {
		switch {
		case e.dir:
			folders = append(folders, e.name)
		case s.picture(e.name):
			loose = append(loose, e.name)
		default:
			s.f.ignored++
		}
	}
	if len(loose) > 0 {
		return s.bad(s.f.dir, "folder", "only class folders: move each picture to a folder that is named after its class",
			fmt.Sprintf("%d pictures outside, first %q", len(loose), loose[0]), nil)
	}
	classes := s.f.opt.Classes
	if classes == nil {
		classes = folders
	}
	if err := s.match(classes, folders); err != nil {
		return err
	}
	if len(classes) == 0 {
		return fmt.Errorf("image folder %s: no class folders: make a folder for each class: %w", s.f.name, dataloader.ErrEmpty)
	}
	return s.scan(ctx, classes, folders)
}

// match compares the list of classes with the folders.
func (s *scanner) match(classes, folders []string) error {
	var errs []error
	for i, c := range classes {
		if slices.Contains(classes[:i], c) {
			errs = append(errs, fmt.Errorf("class %q is listed twice: %w", c, dataloader.ErrOption))
		}
		if !s.f.opt.AllowEmpty && !slices.Contains(folders, c) {
			errs = append(errs, s.bad(s.f.dir, "class", fmt.Sprintf("a folder %q, as listed, or AllowEmpty", c), "none", fs.ErrNotExist))
		}
	}
	for _, d := range folders {
		if !slices.Contains(classes, d) {
			errs = append(errs, s.bad(s.f.dir, "class", fmt.Sprintf("one of %d listed classes", len(classes)), fmt.Sprintf("folder %q", d), nil))
		}
	}
	return errors.Join(errs...)
}

// scan indexes the pictures of all classes.
func (s *scanner) scan(ctx context.Context, classes, folders []string) error {
	x := &s.f.index
	var empty []string
	for _, c := range classes {
		x.classes = append(x.classes, c)
		x.starts = append(x.starts, x.len())
		fmt.Fprintf(s.hash, "class %q\n", c)
		if slices.Contains(folders, c) {
			if err := s.folder(ctx, path.Join(s.f.dir, c), "", nil); err != nil {
				return err
			}
		}
		if x.len() == x.starts[len(x.starts)-1] {
			empty = append(empty, c)
		}
	}
	if len(empty) > 0 && !s.f.opt.AllowEmpty {
		return s.bad(s.f.dir, "class", "a picture in each class, or AllowEmpty", fmt.Sprintf("no pictures in %q", empty), nil)
	}
	x.names = append(make([]byte, 0, len(x.names)), x.names...) // without the room for growth
	x.ends = append(make([]int, 0, len(x.ends)), x.ends...)
	return nil
}

// folder indexes the pictures of a folder and of those below it. below is its path below the class.
func (s *scanner) folder(ctx context.Context, dir, below string, above []fs.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("image folder %s: %w", s.f.name, err)
	}
	info, err := fs.Stat(s.f.fsys, dir)
	if err != nil {
		return s.bad(dir, "folder", "a folder that can be read", "an error", err)
	}
	if len(above) >= maxDepth || slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
		return s.bad(dir, "folder", fmt.Sprintf("at most %d levels and no link to a folder above", maxDepth), "a circle of links or more levels", nil)
	}
	above = append(above, info)
	entries, err := s.entries(dir)
	if err != nil {
		return err
	}
	x := &s.f.index
	for _, e := range entries {
		switch {
		case e.dir:
			if err := s.folder(ctx, path.Join(dir, e.name), below+e.name+"/", above); err != nil {
				return err
			}
		case s.picture(e.name):
			x.names = append(append(x.names, below...), e.name...)
			x.ends = append(x.ends, len(x.names))
			fmt.Fprintf(s.hash, "%q %d\n", below+e.name, e.size)
		default:
			s.f.ignored++
		}
	}
	return nil
}

// entry is a visible file or folder.
type entry struct {
	name string
	dir  bool
	size int64
}

// entries returns the visible files and folders of dir, sorted so that a walk yields paths in the
// order of their bytes: a folder is compared with its final slash.
func (s *scanner) entries(dir string) ([]entry, error) {
	list, err := fs.ReadDir(s.f.fsys, dir)
	if err != nil {
		return nil, s.bad(dir, "folder", "a folder that can be read", "an error", err)
	}
	var out []entry
	for _, d := range list {
		if strings.HasPrefix(d.Name(), ".") || d.Name() == "__MACOSX" {
			continue
		}
		var info fs.FileInfo
		if d.Type()&fs.ModeSymlink != 0 {
			info, err = fs.Stat(s.f.fsys, path.Join(dir, d.Name()))
		} else {
			info, err = d.Info()
		}
		if err != nil {
			return nil, s.bad(path.Join(dir, d.Name()), "file", "a file or folder, or a link to one within the folder", "an error", err)
		}
		out = append(out, entry{name: d.Name(), dir: info.IsDir(), size: info.Size()})
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.key(), b.key()) })
	return out, nil
}

func (e entry) key() string {
	if e.dir {
		return e.name + "/"
	}
	return e.name
}

// picture reports whether a file is a picture by its extension.
func (s *scanner) picture(name string) bool {
	ext := path.Ext(name)
	return slices.ContainsFunc(s.f.opt.Extensions, func(x string) bool { return strings.EqualFold(x, ext) })
}

// bad returns a *dataloader.FormatError for a path of the file system.
func (s *scanner) bad(name, what, want, got string, err error) error {
	if below, ok := strings.CutPrefix(name, s.f.dir+"/"); ok && s.f.dir != "." {
		name = below
	}
	return &dataloader.FormatError{File: path.Join(s.f.name, name), What: what, Want: want, Got: got, Err: err}
}
