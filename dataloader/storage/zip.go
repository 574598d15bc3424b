package storage

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/dataloader"
)

// ZipOptions bound the memory of [Zip]. The zero value is a good default.
type ZipOptions struct {
	// MaxDirectory is the most bytes of the archive's directory, which is read when the archive is
	// opened; 0 means 128 MiB, enough for about a million files. It takes up to 3 times its size in
	// memory.
	MaxDirectory int64
	// MaxInflated is the most bytes of a compressed file, which Open unpacks into memory; 0 means
	// 64 MiB. Below 0 compressed files are refused.
	MaxInflated int64
}

// Archive is a zip archive as an fs.FS. Its methods are safe for concurrent use.
//
// A file that is stored without compression is read in place, at any offset, without a check of its
// CRC. A file that is compressed by deflate is unpacked into memory when it is opened, within
// [ZipOptions].MaxInflated and with a check of its CRC, and its memory is held until it is closed:
// for data that are compressed already, such as JPEG files, write the archive without compression
// (zip -0). Other methods and encrypted files are refused by name when they are opened.
type Archive struct {
	f     File
	opt   ZipOptions
	files []entry // sorted by the bytes of their names
}

// entry is a file of an archive. The archive keeps about 64 bytes for each, and its name.
type entry struct {
	name         string
	header       int64 // offset of the local header in the archive
	next         int64 // where the next entry, or the directory, begins
	packed, size int64 // bytes in the archive, and unpacked
	crc          uint32
	method       uint16
	flags        uint16
	modified     uint32 // date and time of MS-DOS
	special      bool   // a symbolic link, or another kind of file that has no data
}

const (
	endBytes      = 22 // the record at the end, without its comment
	end64Bytes    = 56
	locatorBytes  = 20
	centralBytes  = 46 // a record of the directory, without name, extra fields and comment
	localBytes    = 30 // the header before a file's data, without name and extra fields
	flagEncrypted = 1
	methodStored  = 0
	methodDeflate = 8
)

// Zip opens the zip archive f, also in the form for more than 4 GiB or 65,535 files. It takes over f.
//
// The directory is checked as a whole: names are unique paths without ".." or backslashes, and the
// files lie apart from each other and from the directory, inside the archive. The first mistake is a
// *[dataloader.FormatError]; a directory above opt.MaxDirectory wraps dataloader.ErrOption.
func Zip(ctx context.Context, f File, opt ZipOptions) (*Archive, error) {
	if opt.MaxDirectory < 0 {
		return nil, fmt.Errorf("zip: MaxDirectory is %d: want 0 or more: %w", opt.MaxDirectory, dataloader.ErrOption)
	}
	opt.MaxDirectory = cmp.Or(opt.MaxDirectory, 128<<20)
	opt.MaxInflated = cmp.Or(opt.MaxInflated, 64<<20)
	end, err := findEnd(ctx, f)
	if err != nil {
		return nil, err
	}
	if end.size > opt.MaxDirectory {
		return nil, fmt.Errorf("%s: the directory of the archive has %d bytes, more than MaxDirectory, %d: raise it, or split the archive: %w",
			f.Name(), end.size, opt.MaxDirectory, dataloader.ErrOption)
	}
	a := &Archive{f: f, opt: opt}
	if a.files, err = readDirectory(ctx, f, end); err != nil {
		return nil, err
	}
	return a, nil
}

// Name returns the name of the archive.
func (a *Archive) Name() string { return a.f.Name() }

// Close closes the archive. Files that are read in place fail from then on.
func (a *Archive) Close() error { return a.f.Close() }

// directory is the place of an archive's directory.
type directory struct {
	start, size int64 // in the file
	records     uint64
	base        int64 // what to add to the offsets in it: bytes before the archive
}

// zipError returns a FormatError of an archive.
func zipError(f File, off int64, what, want string, got any) error {
	return &dataloader.FormatError{File: f.Name(), Offset: off, What: "zip " + what, Want: want, Got: fmt.Sprint(got)}
}

// findEnd reads the record at the end of the archive, in either form.
func findEnd(ctx context.Context, f File) (directory, error) {
	n := min(f.Size(), endBytes+math.MaxUint16)
	tail := make([]byte, n)
	if err := ReadAt(ctx, f, tail, f.Size()-n); err != nil {
		return directory{}, err
	}
	at := -1
	for i := len(tail) - endBytes; i >= 0; i-- {
		if string(tail[i:i+4]) == "PK\x05\x06" && i+endBytes+int(binary.LittleEndian.Uint16(tail[i+20:])) == len(tail) {
			at = i
			break
		}
	}
	if at < 0 {
		return directory{}, zipError(f, f.Size(), "end of the archive", `a record "PK\5\6" whose comment ends the file`,
			"none: the file is cut, has bytes after its end, or is no zip archive")
	}
	le, b, pos := binary.LittleEndian, tail[at:], f.Size()-n+int64(at)
	if le.Uint16(b[4:]) != le.Uint16(b[6:]) || le.Uint16(b[4:]) != 0 && le.Uint16(b[4:]) != math.MaxUint16 {
		return directory{}, zipError(f, pos+4, "number of this part", "0: archives in several parts are not read", le.Uint16(b[4:]))
	}
	d := directory{records: uint64(le.Uint16(b[10:])), size: int64(le.Uint32(b[12:]))}
	offset, limit := int64(le.Uint32(b[16:])), pos
	if d.records == math.MaxUint16 || d.size == math.MaxUint32 || offset == math.MaxUint32 {
		var err error
		if d, offset, limit, err = findEnd64(ctx, f, pos, d, offset); err != nil {
			return directory{}, err
		}
	}
	d.start = limit - d.size
	d.base = d.start - offset
	if d.start < 0 || d.base < 0 {
		return directory{}, zipError(f, pos+12, "directory", fmt.Sprintf("to end at byte %d", limit),
			fmt.Sprintf("%d bytes from byte %d on", d.size, offset))
	}
	if d.records > uint64(d.size)/centralBytes {
		return directory{}, zipError(f, pos+10, "number of files", fmt.Sprintf("at most %d, for a directory of %d bytes", d.size/centralBytes, d.size), d.records)
	}
	return d, nil
}

// findEnd64 reads the end record of an archive of more than 4 GiB or 65,535 files, which precedes the
// record at pos. Where there is none, the numbers of that record count: d and offset.
func findEnd64(ctx context.Context, f File, pos int64, d directory, offset int64) (directory, int64, int64, error) {
	loc := make([]byte, locatorBytes)
	if pos < locatorBytes {
		return d, offset, pos, nil
	}
	if err := ReadAt(ctx, f, loc, pos-locatorBytes); err != nil {
		return d, 0, 0, err
	}
	if string(loc[:4]) != "PK\x06\x07" {
		return d, offset, pos, nil
	}
	le := binary.LittleEndian
	at := le.Uint64(loc[8:])
	// Bytes before the archive shift its end record: it lies just before the locator, unless it is
	// longer than it must be.
	var b [end64Bytes]byte
	for _, at := range []int64{pos - locatorBytes - end64Bytes, int64(min(at, math.MaxInt64))} {
		if at < 0 || at > pos-locatorBytes-end64Bytes {
			continue
		}
		if err := ReadAt(ctx, f, b[:], at); err != nil {
			return d, 0, 0, err
		}
		if string(b[:4]) != "PK\x06\x06" || le.Uint64(b[4:]) != uint64(pos-locatorBytes-at-12) {
			continue
		}
		d.records = le.Uint64(b[32:])
		size, off := le.Uint64(b[40:]), le.Uint64(b[48:])
		if size > uint64(at) || off > uint64(at) {
			return d, 0, 0, zipError(f, at+40, "directory", fmt.Sprintf("inside the first %d bytes", at), fmt.Sprintf("%d bytes from byte %d on", size, off))
		}
		d.size = int64(size)
		return d, int64(off), at, nil
	}
	return d, 0, 0, zipError(f, pos-locatorBytes, "end of a large archive", fmt.Sprintf(`a record "PK\6\6" at byte %d`, at), "none")
}

// readDirectory reads the records of the directory, 64 KiB at a time, and checks them.
func readDirectory(ctx context.Context, f File, d directory) ([]entry, error) {
	r := &records{r: bufio.NewReaderSize(Section(ctx, f, d.start, d.size), 64<<10), at: d.start}
	files := make([]entry, 0, d.records) // at most one for each 46 bytes of the directory
	for i := uint64(0); i < d.records; i++ {
		e, err := r.next(f, d)
		if err != nil {
			return nil, err
		}
		files = append(files, e)
	}
	if r.at != d.start+d.size {
		return nil, zipError(f, r.at, "directory", fmt.Sprintf("%d files to fill %d bytes", d.records, d.size), fmt.Sprintf("%d bytes", r.at-d.start))
	}
	if err := checkPlaces(f, files, d.start); err != nil {
		return nil, err
	}
	return files, checkNames(f, files, d.start)
}

// checkPlaces sorts files by place and returns an error if two overlap, or one overlaps the directory.
func checkPlaces(f File, files []entry, end int64) error {
	slices.SortFunc(files, func(a, b entry) int { return cmp.Compare(a.header, b.header) })
	for i := range files {
		e := &files[i]
		e.next = end
		if i+1 < len(files) {
			e.next = files[i+1].header
		}
		least := localBytes + int64(len(e.name)) + e.packed
		if e.next-e.header < least {
			return zipError(f, e.header, fmt.Sprintf("file %q", e.name), fmt.Sprintf("at least %d bytes of its own", least),
				fmt.Sprintf("%d: it overlaps what follows", e.next-e.header))
		}
	}
	return nil
}

// checkNames sorts files by name and returns an error if a name is no path in the archive, occurs
// twice, or is that of a file and of a folder.
func checkNames(f File, files []entry, dir int64) error {
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for i, e := range files {
		if name := strings.TrimSuffix(e.name, "/"); !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") {
			return zipError(f, dir, "name of a file", `a path of UTF-8 with "/", without "..", "\" and NUL`, strconv.Quote(e.name))
		}
		if i > 0 && files[i-1].name == e.name {
			return zipError(f, dir, "names", "each once", strconv.Quote(e.name)+" twice")
		}
		if strings.HasSuffix(e.name, "/") {
			continue
		}
		if k := search(files, e.name+"/"); k < len(files) && strings.HasPrefix(files[k].name, e.name+"/") {
			return zipError(f, dir, "names", "a file or a folder", strconv.Quote(e.name)+" as both")
		}
	}
	return nil
}

// search returns the index of the first file whose name is not less than name.
func search(files []entry, name string) int {
	k, _ := slices.BinarySearchFunc(files, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
	return k
}
