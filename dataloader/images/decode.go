package images

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"runtime/debug"
	"sync"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// JPEG is a decoder of JPEG files other than image/jpeg. It must be safe for concurrent use.
type JPEG interface {
	// Name returns the name and version, as part of the fingerprint of the data: another decoder
	// may yield other low bits.
	Name() string
	// Decode decodes a file of width × height pixels at 1/shrink of its size, rounded up, where
	// shrink is 1, 2 or 4. It may reuse the memory of old, a picture that it returned before, or
	// nil. It returns planes (*image.YCbCr, *image.Gray) where the file has them.
	Decode(encoded []byte, width, height, shrink int, old image.Image) (image.Image, error)
}

// decoding is the state and the memory of decoding one picture. It is kept for the next one.
type decoding struct {
	p    *Pipeline
	at   dataloader.At
	step int    // that runs
	dst  []byte // the field
	rand dataloader.Rand

	view    view
	src     source
	settled bool // src is the planes of the picture: view is unchanged and src is in work or dst
	cur     int  // index in work; inDst if src is dst

	reader     bytes.Reader
	old        image.Image // of the JPEG decoder
	sampler    resampler
	row        rgba[uint8]
	deepRow    rgba[float32]
	palette    [256]color.NRGBA
	limited    bool // chroma and luma are those of WebP
	pix        [4][]uint8
	real       [4][]float32
	turned     [4][]uint8
	turnedReal [4][]float32
	work       [2]Picture
}

const inDst = -1

// pool is decodings that are not in use.
type pool struct{ sync.Pool }

// start returns a decoding for a sample.
func (p *Pipeline) start(at dataloader.At, dst []byte) (*decoding, error) {
	o := &p.opt
	if want := o.Channels * o.Height * o.Width * int(o.Type.Size()); len(dst) != want {
		return nil, fmt.Errorf("destination of %d bytes: the field has %d: %w", len(dst), want, dataloader.ErrSlot)
	}
	d, _ := p.scratch.Get().(*decoding)
	if d == nil {
		d = &decoding{p: p}
	}
	d.at, d.dst, d.settled, d.cur = at, dst, false, 0
	return d, nil
}

// end keeps the memory of d, but none of the caller's.
func (p *Pipeline) end(d *decoding) {
	d.dst = nil
	d.reader.Reset(nil)
	for k := range d.src.planes {
		d.src.planes[k] = plane{}
	}
	p.scratch.Put(d)
}

// Decode decodes a picture in any of the formats of the package and runs the steps. It writes the
// field to dst, which must have exactly its size. Random draws depend on at alone. A picture that
// is damaged, too large, or uses a feature that no decoder here has is a *dataloader.FormatError
// without a file name.
func (p *Pipeline) Decode(at dataloader.At, encoded, dst []byte) (err error) {
	d, err := p.start(at, dst)
	if err != nil {
		return err
	}
	defer func() {
		if v := recover(); v != nil { // of a step: the memory of d is not used again
			err = &dataloader.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	err = d.decode(encoded)
	p.end(d)
	return err
}

// decode decodes a picture and runs the steps.
func (d *decoding) decode(encoded []byte) error {
	o := &d.p.opt
	h, err := readHeader(encoded)
	if err != nil {
		return err
	}
	if err := h.check(len(encoded), o.MaxPixels); err != nil {
		return err
	}
	d.p.pictures.Add(1)
	if h.orientation != 1 {
		d.p.oriented.Add(1)
	}
	if !o.Orient {
		h.orientation = 1
	}
	done, err := d.plan(h.w, h.h, h.orientation)
	if err != nil {
		return err
	}
	m, err := d.open(encoded, h, d.shrink(h))
	if err != nil {
		return err
	}
	d.setSource(m, h, o)
	return d.run(done)
}

// plan places the first steps, as far as they only need the size of the picture. It returns their
// number.
func (d *decoding) plan(w, h, orientation int) (int, error) {
	if orientation >= 5 { // rows and columns are swapped, then mirrored
		w, h = h, w
	}
	d.view = whole(w, h)
	d.view.flipX = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7
	d.view.flipY = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8
	for i, s := range d.p.opt.Steps {
		s, ok := s.(placer)
		if !ok {
			return i, nil
		}
		d.step = i
		d.rand = d.stepAt().Rand()
		if ok, err := s.place(&d.view, &d.p.opt, &d.rand); !ok {
			return i, err
		}
	}
	return len(d.p.opt.Steps), nil
}

// run runs the steps from number done and writes the picture to dst.
func (d *decoding) run(done int) error {
	o := &d.p.opt
	for i, s := range o.Steps[done:] {
		d.step = done + i
		d.rand = d.stepAt().Rand()
		if err := d.apply(s); err != nil {
			return err
		}
	}
	if d.view.w != o.Width || d.view.h != o.Height {
		return fmt.Errorf("picture of %d × %d (height × width) after the last step, the field has %d × %d: end with Resize or a crop: %w",
			d.view.h, d.view.w, o.Height, o.Width, dataloader.ErrField)
	}
	d.step = len(o.Steps)
	d.settle(true)
	d.deliver()
	return nil
}

// apply runs a step. A step that only places is placed once more if the view must be computed first.
func (d *decoding) apply(s Step) error {
	switch s := s.(type) {
	case placer:
		ok, err := s.place(&d.view, &d.p.opt, &d.rand)
		if !ok && err == nil {
			d.settle(false)
			_, err = s.place(&d.view, &d.p.opt, &d.rand)
		}
		return err
	case changer:
		return s.apply(d, &d.rand)
	}
	return nil
}

// stepAt returns the At of the current step, whose draws are independent of those of other steps
// and of the caller's. The finalizer is that of splitmix64.
func (d *decoding) stepAt() dataloader.At {
	at := d.at
	x := at.Seed ^ 0x696d616765730000 ^ uint64(d.step+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	at.Seed = x ^ x>>31
	return at
}

// shrink returns the part of the size at which a JPEG is decoded: 1, 2 or 4.
func (d *decoding) shrink(h header) int {
	o := &d.p.opt
	if !o.Shrink || o.JPEG == nil || h.format != jpegFile {
		return 1
	}
	v := d.view
	by := min((v.x1-v.x0)/float64(v.fullW), (v.y1-v.y0)/float64(v.fullH))
	switch {
	case by >= 8:
		return 4
	case by >= 4:
		return 2
	}
	return 1
}

// open decodes the picture. It moves the view to the shrunk size.
func (d *decoding) open(encoded []byte, h header, shrink int) (image.Image, error) {
	m, err := d.call(encoded, h, shrink)
	if err != nil {
		at := int64(len(encoded) - d.reader.Len())
		if h.format == jpegFile && d.p.opt.JPEG != nil {
			at = 0 // not known
		}
		return nil, &dataloader.FormatError{Offset: at, What: h.format.String() + " data", Want: "a whole picture", Got: "an error", Err: noEOF(err)}
	}
	w, rows := (h.w+shrink-1)/shrink, (h.h+shrink-1)/shrink
	if b := m.Bounds(); b.Dx() != w || b.Dy() != rows {
		return nil, bad(h.format, "picture", 0, fmt.Sprintf("%d × %d pixels", w, rows), "%d × %d", b.Dx(), b.Dy())
	}
	if shrink > 1 {
		d.p.shrunk.Add(1)
		if h.orientation >= 5 {
			d.view = d.view.shrunk(h.h, h.w, rows, w)
		} else {
			d.view = d.view.shrunk(h.w, h.h, w, rows)
		}
	}
	return m, nil
}

// noEOF replaces io.EOF, which means the end of an epoch elsewhere.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// call calls the decoder of the format. Its panic is an error.
func (d *decoding) call(encoded []byte, h header, shrink int) (m image.Image, err error) {
	defer func() {
		if v := recover(); v != nil {
			m, err = nil, &dataloader.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	d.reader.Reset(encoded)
	d.limited = h.format == webpFile
	switch h.format {
	case jpegFile:
		if d.p.opt.JPEG == nil {
			return jpeg.Decode(&d.reader)
		}
		m, err = d.p.opt.JPEG.Decode(encoded, h.w, h.h, shrink, d.old)
		if err == nil {
			d.old = m
		}
		return m, err
	case pngFile:
		return png.Decode(&d.reader)
	case gifFile:
		return gif.Decode(&d.reader)
	case webpFile:
		return webp.Decode(&d.reader)
	}
	return bmp.Decode(&d.reader)
}

// settle computes the view, so that src is the planes of the picture. last says that what follows
// does not move it to other memory, so that it may be written to dst if it has the size of the
// field.
func (d *decoding) settle(last bool) {
	o := &d.p.opt
	toDst := last && d.step > d.p.lastMove && d.view.w == o.Width && d.view.h == o.Height
	if d.settled && d.view.unchanged(d.src.w, d.src.h) && (!toDst || d.cur == inDst) {
		return
	}
	to := d.next(d.view.w, d.view.h, toDst)
	if o.Type == arena.Float32 {
		d.sampler.resampleFloat(to.Float, &d.src, d.view, o.Channels)
	} else {
		d.sampler.resample8(to.Pix, &d.src, d.view, o.Channels)
	}
	d.use(to)
}

// next returns memory for a picture of w × h that is not in use by the current one: dst or a part
// of work. It becomes the current one with use.
func (d *decoding) next(w, h int, toDst bool) Picture {
	o := &d.p.opt
	p := Picture{Channels: o.Channels, Height: h, Width: w}
	if toDst {
		if o.Type == arena.Uint8 {
			p.Pix = d.dst
		} else {
			p.Float = dataloader.View[float32](d.dst)
		}
		if p.Pix != nil || p.Float != nil {
			d.cur = inDst
			return p
		}
	}
	d.cur = max(d.cur, 0) ^ 1
	b := &d.work[d.cur]
	if n := p.Channels * h * w; o.Type == arena.Uint8 {
		b.Pix = resize(b.Pix, n)
		p.Pix = b.Pix
	} else {
		b.Float = resize(b.Float, n)
		p.Float = b.Float
	}
	return p
}

// use makes p the source.
func (d *decoding) use(p Picture) {
	d.src = source{w: p.Width, h: p.Height, planes: d.src.planes[:0]}
	n := p.Height * p.Width
	for c := range p.Channels {
		if p.Float != nil {
			d.src.planes = append(d.src.planes, plane{real: p.Float[c*n:][:n], stride: p.Width})
		} else {
			d.src.planes = append(d.src.planes, plane{pix: p.Pix[c*n:][:n], stride: p.Width})
		}
	}
	d.view = whole(p.Width, p.Height)
	d.settled = true
}

// picture returns the current picture, which must be settled.
func (d *decoding) picture() Picture {
	o := &d.p.opt
	p := Picture{Channels: o.Channels, Height: d.src.h, Width: d.src.w}
	n := p.Channels * p.Height * p.Width
	if o.Type == arena.Float32 {
		p.Float = d.src.planes[0].real[:n:n]
	} else {
		p.Pix = d.src.planes[0].pix[:n:n]
	}
	return p
}
