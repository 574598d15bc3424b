// Package turbojpeg decodes JPEG with libturbojpeg, a library of the system, for package images.
//
// It is about twice as fast as image/jpeg and reuses its memory. The library is loaded at run time,
// without cgo: on Debian the package is libturbojpeg0, on macOS jpeg-turbo of Homebrew, on Windows
// turbojpeg.dll. A program that imports this package is linked dynamically. [Open] loads it and
// fails if it is not found; [IfFound] leaves image/jpeg in place then. It calls the functions of
// TurboJPEG 2, which the library of version 3 has too: the tests were run with libjpeg-turbo 2.1.5 and
// 3.1.0, which decode the small picture to the same bytes.
//
// Pixels may differ from those of image/jpeg in the low bits, so that the name and version, and a
// hash of what the library makes of a small picture, are part of the fingerprint of the data.
//
// Memory: a decoder of the library for each worker that decodes at once, outside the Go heap, about
// the size of a row of the picture, for progressive files 3 to 6 bytes a pixel. A call allocates
// nothing in the steady state.
package turbojpeg

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
)

// ErrNotFound: the library is not installed, or lacks functions of TurboJPEG 2. The error is a
// *NotFoundError.
var ErrNotFound = errors.New("libturbojpeg not found")

// NotFoundError lists what Open tried. It unwraps to ErrNotFound.
type NotFoundError struct {
	Tried []string // names or paths
	Err   error    // of the last one
}

// Error returns the names and what to do.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("libturbojpeg not found (tried %s): install libturbojpeg0 (Debian) or jpeg-turbo, set Options.Path, or decode with image/jpeg: %v",
		strings.Join(e.Tried, ", "), e.Err)
}

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// Options tells where the library is.
type Options struct {
	Path string // of the library; default: the usual names, in the system's search path
}

// Library is libturbojpeg. It is an [images.JPEG], for use by many goroutines at once.
type Library struct {
	fn   functions
	name string

	mu     sync.Mutex
	free   []*decoder
	closed bool
}

// functions is the addresses of the C functions, by name.
type functions struct {
	tjInitDecompress, tjDestroy, tjDecompressHeader3, tjDecompressToYUVPlanes, tjDecompress2, tjGetErrorStr2 uintptr
}

// decoder is a decompressor of the library and the memory that C reads and writes.
type decoder struct {
	handle                           uintptr
	width, height, sampling, colours int32
	strides                          [3]int32
	planes                           [3]unsafe.Pointer
	pins                             runtime.Pinner
	args                             [9]uintptr // of a call, so that it allocates nothing
}

// call calls a function of the library with the decoder as the first argument.
func (d *decoder) call(fn uintptr, args ...uintptr) uintptr {
	d.args[0] = d.handle
	return call(fn, d.args[:1+copy(d.args[1:], args)]...)
}

// Values of turbojpeg.h.
const (
	stopOnWarning = 8192 // a damaged file is an error
	limitScans    = 32768
	formatRGBA    = 7
	formatCMYK    = 11
)

// Colour spaces (TJCS).
const (
	coloursRGB = iota
	coloursYCbCr
	coloursGray
	coloursCMYK
	coloursYCCK
)

//go:embed probe.jpg
var probe []byte

// Open loads the library and decodes a small picture with it. It returns a *NotFoundError if the
// library is missing or cannot be used on this system.
func Open(opt Options) (*Library, error) {
	names := libraries
	if opt.Path != "" {
		names = []string{opt.Path}
	}
	l := &Library{}
	var last error = errors.New("not supported on " + runtime.GOOS + "/" + runtime.GOARCH)
	for _, name := range names {
		lib, err := load(name)
		if err != nil {
			last = err
			continue
		}
		if last = l.bind(lib); last == nil {
			return l, l.identify(name)
		}
	}
	return nil, &NotFoundError{Tried: names, Err: last}
}

// IfFound is Open, but returns nil, for which a pipeline uses image/jpeg, if the library is not
// found.
func IfFound(opt Options) (images.JPEG, error) {
	l, err := Open(opt)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// bind looks up the functions.
func (l *Library) bind(lib uintptr) error {
	for name, fn := range map[string]*uintptr{
		"tjInitDecompress": &l.fn.tjInitDecompress, "tjDestroy": &l.fn.tjDestroy, "tjDecompressHeader3": &l.fn.tjDecompressHeader3,
		"tjDecompressToYUVPlanes": &l.fn.tjDecompressToYUVPlanes, "tjDecompress2": &l.fn.tjDecompress2, "tjGetErrorStr2": &l.fn.tjGetErrorStr2,
	} {
		var err error
		if *fn, err = symbol(lib, name); err != nil {
			return err
		}
	}
	return nil
}

// identify decodes the probe and sets the name.
func (l *Library) identify(file string) error {
	m, err := l.Decode(probe, 40, 24, 1, nil)
	if err != nil {
		return fmt.Errorf("libturbojpeg %s does not decode a good picture: %w", file, err)
	}
	y, ok := m.(*image.YCbCr)
	if !ok {
		return fmt.Errorf("libturbojpeg %s decodes a picture to %T: %w", file, m, dataloader.ErrFormat)
	}
	h := fnv.New32a()
	for _, p := range [][]byte{y.Y, y.Cb, y.Cr} {
		h.Write(p)
	}
	l.name = fmt.Sprintf("libturbojpeg %s (probe %08x)", version(file), h.Sum32())
	return nil
}

// versionIn finds the version in the bytes of the library, or returns "of unknown version".
func versionIn(b []byte) string {
	const before = "libjpeg-turbo version "
	at := bytes.Index(b, []byte(before))
	if at < 0 {
		return "of unknown version"
	}
	b = b[at+len(before):]
	n := 0
	for n < len(b) && n < 20 && (b[n] == '.' || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	return string(b[:n])
}

// Name returns the version of the library, if its file is known, and a hash of what it makes of a
// small picture.
func (l *Library) Name() string { return l.name }

// Close releases the decoders. The library stays loaded. Calls of Decode that have not returned
// finish; later ones return an error that wraps [dataloader.ErrClosed]. It may be called twice.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, d := range l.free {
		call(l.fn.tjDestroy, d.handle)
	}
	l.free = nil
	return nil
}

// take returns a decoder that is not in use.
func (l *Library) take() (*decoder, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("libturbojpeg: %w", dataloader.ErrClosed)
	}
	if n := len(l.free); n > 0 {
		d := l.free[n-1]
		l.free = l.free[:n-1]
		return d, nil
	}
	d := &decoder{handle: call(l.fn.tjInitDecompress)}
	if d.handle == 0 {
		return nil, errors.New("libturbojpeg: tjInitDecompress returned no decoder: out of memory")
	}
	return d, nil
}

// give returns a decoder to the library.
func (l *Library) give(d *decoder) {
	d.planes = [3]unsafe.Pointer{}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		call(l.fn.tjDestroy, d.handle)
		return
	}
	l.free = append(l.free, d)
}

// Decode implements [images.JPEG]. It returns planes for YCbCr and grey files, else RGBA or CMYK.
// Warnings of the library, as for a file that is cut, are errors. CMYK is taken as inverted, as
// Adobe writes it.
func (l *Library) Decode(encoded []byte, width, height, shrink int, old image.Image) (image.Image, error) {
	if len(encoded) == 0 {
		return nil, errors.New("empty file")
	}
	d, err := l.take()
	if err != nil {
		return nil, err
	}
	defer l.give(d)
	defer d.pins.Unpin()
	d.pins.Pin(d)
	d.pins.Pin(&encoded[0])
	if code := d.call(l.fn.tjDecompressHeader3, address(&encoded[0]), uintptr(len(encoded)), address(&d.width), address(&d.height),
		address(&d.sampling), address(&d.colours)); int32(code) != 0 {
		return nil, l.failure(d)
	}
	if int(d.width) != width || int(d.height) != height {
		return nil, fmt.Errorf("libturbojpeg reads %d × %d pixels from the header, want %d × %d", d.width, d.height, width, height)
	}
	w, h := (width+shrink-1)/shrink, (height+shrink-1)/shrink
	if d.colours == coloursYCbCr || d.colours == coloursGray {
		return l.decodePlanes(d, encoded, w, h, old)
	}
	return l.decodePixels(d, encoded, w, h, old)
}

// decodePlanes decodes to planes of luma and chroma, w × h pixels.
func (l *Library) decodePlanes(d *decoder, encoded []byte, w, h int, old image.Image) (image.Image, error) {
	m, planes, err := d.picture(w, h, old)
	if err != nil {
		return nil, err
	}
	for k, p := range planes {
		if p != nil {
			d.pins.Pin(&p[0])
			d.planes[k] = unsafe.Pointer(&p[0])
		}
	}
	if code := d.call(l.fn.tjDecompressToYUVPlanes, address(&encoded[0]), uintptr(len(encoded)), address(&d.planes[0]),
		uintptr(w), address(&d.strides[0]), uintptr(h), stopOnWarning|limitScans); int32(code) != 0 {
		return nil, l.failure(d)
	}
	return m, nil
}

// picture returns a picture with memory for the planes, and sets the strides. The library writes
// whole chroma samples: planes are rounded up to them.
func (d *decoder) picture(w, h int, old image.Image) (image.Image, [3][]byte, error) {
	rect := image.Rect(0, 0, w, h)
	if d.colours == coloursGray {
		m, ok := old.(*image.Gray)
		if !ok {
			m = new(image.Gray)
		}
		m.Pix, m.Stride, m.Rect = room(m.Pix, w*h), w, rect
		d.strides = [3]int32{int32(w)}
		return m, [3][]byte{m.Pix}, nil
	}
	ratios := [...]struct {
		ratio  image.YCbCrSubsampleRatio
		rx, ry int
	}{0: {image.YCbCrSubsampleRatio444, 1, 1}, 1: {image.YCbCrSubsampleRatio422, 2, 1}, 2: {image.YCbCrSubsampleRatio420, 2, 2},
		4: {image.YCbCrSubsampleRatio440, 1, 2}, 5: {image.YCbCrSubsampleRatio411, 4, 1}}
	if d.sampling < 0 || int(d.sampling) >= len(ratios) || ratios[d.sampling].rx == 0 {
		return nil, [3][]byte{}, fmt.Errorf("chroma sampling %d of TurboJPEG: want 4:4:4, 4:2:2, 4:2:0, 4:4:0 or 4:1:1: encode the picture again", d.sampling)
	}
	r := ratios[d.sampling]
	m, ok := old.(*image.YCbCr)
	if !ok {
		m = new(image.YCbCr)
	}
	cw, ch := (w+r.rx-1)/r.rx, (h+r.ry-1)/r.ry
	m.YStride, m.CStride, m.SubsampleRatio, m.Rect = cw*r.rx, cw, r.ratio, rect
	m.Y, m.Cb, m.Cr = room(m.Y, cw*r.rx*ch*r.ry), room(m.Cb, cw*ch), room(m.Cr, cw*ch)
	d.strides = [3]int32{int32(m.YStride), int32(cw), int32(cw)}
	return m, [3][]byte{m.Y, m.Cb, m.Cr}, nil
}

// decodePixels decodes RGB and CMYK files to w × h pixels.
func (l *Library) decodePixels(d *decoder, encoded []byte, w, h int, old image.Image) (image.Image, error) {
	rect, format := image.Rect(0, 0, w, h), uintptr(formatRGBA)
	var m image.Image
	var pix []byte
	if d.colours == coloursRGB {
		p, ok := old.(*image.RGBA)
		if !ok {
			p = new(image.RGBA)
		}
		p.Pix, p.Stride, p.Rect = room(p.Pix, 4*w*h), 4*w, rect
		m, pix = p, p.Pix
	} else {
		p, ok := old.(*image.CMYK)
		if !ok {
			p = new(image.CMYK)
		}
		p.Pix, p.Stride, p.Rect = room(p.Pix, 4*w*h), 4*w, rect
		m, pix, format = p, p.Pix, formatCMYK
	}
	d.pins.Pin(&pix[0])
	if code := d.call(l.fn.tjDecompress2, address(&encoded[0]), uintptr(len(encoded)), address(&pix[0]), uintptr(w), uintptr(4*w),
		uintptr(h), format, stopOnWarning|limitScans); int32(code) != 0 {
		return nil, l.failure(d)
	}
	if format == formatCMYK {
		for i, v := range pix {
			pix[i] = 255 - v
		}
	}
	return m, nil
}

// failure returns the last error of a decoder.
func (l *Library) failure(d *decoder) error {
	p := call(l.fn.tjGetErrorStr2, d.handle)
	return fmt.Errorf("libturbojpeg: %s", text(p))
}

// text copies a C string of at most 200 bytes, the size of TurboJPEG's buffer for messages.
func text(p uintptr) string {
	if p == 0 {
		return "no message"
	}
	// A pointer to C memory, which does not move.
	b := unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), 200)
	if n := bytes.IndexByte(b, 0); n >= 0 {
		b = b[:n]
	}
	return string(b)
}

// address returns the address of memory that is pinned.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// room returns a slice of n bytes that reuses the memory of b if it is large enough.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
