package images

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// Options describes the pictures of a field. Height and Width are required; the zero value of the
// rest is a good default.
type Options struct {
	Height, Width int         // of the field, in pixels
	Channels      int         // 1 (grey), 3 (red, green, blue) or 4 (and alpha); default 3
	Type          arena.DType // Uint8 (default), or Float32: pixels of 0 to 255 with fractions
	// The device decodes a stored pixel x to Scale*x + Shift. The default is 1/255 and 0, so that a
	// model sees 0 to 1.
	Scale, Shift float64
	// Steps run in this order, each with random draws of its own. Without steps a picture is
	// resized to the field. After the last step a picture must have the size of the field.
	Steps []Step
	// MaxPixels is the largest picture that is accepted, in pixels, by default 100,000,000. It is
	// compared with the header, before anything is decoded.
	MaxPixels int
	// Orient turns JPEG pictures upright, as their EXIF orientation demands. By default pixels are
	// taken as they are stored, as other libraries do; Counts tells how many pictures demand it.
	Orient     bool
	Alpha      Alpha    // what becomes of transparency if Channels is 1 or 3
	Background [3]uint8 // red, green and blue below transparent pixels, for ComposeAlpha; default black
	JPEG       JPEG     // decodes JPEG; nil: image/jpeg
	// Shrink lets JPEG decode at 1/2 or 1/4 of the size if the view is at least 4 or 8 times larger
	// than the picture that is made of it. It is faster for large photos and changes pixels by
	// about 1 of 255 on average, at edges by up to 20. image/jpeg ignores it.
	Shrink bool
}

// Alpha is a rule for pictures with transparent pixels in fields without alpha.
type Alpha uint8

const (
	// DropAlpha takes the colours and ignores alpha, as convert("RGB") of Pillow does.
	DropAlpha Alpha = iota
	// ComposeAlpha lays the picture over the background.
	ComposeAlpha
)

const defaultMaxPixels = 100_000_000

// Counts are numbers of pictures that a pipeline has decoded since New.
type Counts struct {
	Pictures int64 // all
	Oriented int64 // JPEG with an EXIF orientation other than 1, whether or not Orient is set
	Shrunk   int64 // JPEG that were decoded at 1/2 or 1/4 of their size
}

// Pipeline decodes pictures into a field and changes them on the way. It is a [dataloader.Decoder].
// Its methods may be called by many goroutines at once.
type Pipeline struct {
	opt      Options
	lastMove int // index of the last step that moves pixels to other memory; -1 for none
	pictures atomic.Int64
	oriented atomic.Int64
	shrunk   atomic.Int64
	scratch  pool
}

// New returns a pipeline. It returns all mistakes in opt together; they wrap
// [dataloader.ErrOption].
func New(opt Options) (*Pipeline, error) {
	if opt.Channels == 0 {
		opt.Channels = 3
	}
	if opt.Type == 0 {
		opt.Type = arena.Uint8
	}
	if opt.Scale == 0 {
		opt.Scale = 1.0 / 255
	}
	if opt.MaxPixels == 0 {
		opt.MaxPixels = defaultMaxPixels
	}
	if len(opt.Steps) == 0 {
		opt.Steps = []Step{Resize{}}
	}
	opt.Steps = append([]Step(nil), opt.Steps...)
	p := &Pipeline{opt: opt, lastMove: -1}
	err := p.opt.check()
	for i, s := range opt.Steps {
		if s == nil {
			err = errors.Join(err, fmt.Errorf("step %d is nil: %w", i, dataloader.ErrOption))
			continue
		}
		if problem := s.check(&p.opt); problem != "" {
			err = errors.Join(err, fmt.Errorf("step %d (%T): %s: %w", i, s, problem, dataloader.ErrOption))
		}
		if s.moves() {
			p.lastMove = i
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// check returns all mistakes in the options but those in steps.
func (o *Options) check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(format+": %w", append(args, dataloader.ErrOption)...))
	}
	if o.Height < 1 || o.Width < 1 || o.Height > 1<<15 || o.Width > 1<<15 {
		bad("height %d and width %d: must be 1 to %d", o.Height, o.Width, 1<<15)
	}
	if o.Channels != 1 && o.Channels != 3 && o.Channels != 4 {
		bad("channels %d: must be 1, 3 or 4", o.Channels)
	}
	if o.Type != arena.Uint8 && o.Type != arena.Float32 {
		bad("type %v: must be uint8 or float32", o.Type)
	}
	if math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0) || math.IsNaN(o.Shift) || math.IsInf(o.Shift, 0) {
		bad("scale %v and shift %v: must be finite", o.Scale, o.Shift)
	}
	if o.MaxPixels < 0 || int64(o.MaxPixels) > math.MaxInt32 {
		bad("MaxPixels %d: must be 0 to %d", o.MaxPixels, math.MaxInt32)
	}
	if o.Alpha > ComposeAlpha {
		bad("alpha rule %d: must be DropAlpha or ComposeAlpha", o.Alpha)
	}
	return errors.Join(errs...)
}

// Field returns the field of a picture: shape [channels, height, width], uint8 or float32.
func (p *Pipeline) Field(name string) dataloader.Field {
	return dataloader.Field{Name: name, Type: p.opt.Type, Shape: []int{p.opt.Channels, p.opt.Height, p.opt.Width},
		Scale: p.opt.Scale, Shift: p.opt.Shift}
}

// Counts returns how many pictures were decoded.
func (p *Pipeline) Counts() Counts {
	return Counts{Pictures: p.pictures.Load(), Oriented: p.oriented.Load(), Shrunk: p.shrunk.Load()}
}

// Decoder returns the name and version of the JPEG decoder, whose low bits decide those of the
// pixels.
func (p *Pipeline) Decoder() string {
	if p.opt.JPEG != nil {
		return p.opt.JPEG.Name()
	}
	return "image/jpeg"
}

// Fingerprint returns a hash of the options, the steps and the JPEG decoder. Of a [Func] it knows
// only the name.
func (p *Pipeline) Fingerprint() uint64 {
	h := fnv.New64a()
	o := p.opt
	fmt.Fprintf(h, "images %d %d %d %v %v %v %v %d %v %v %q\n", o.Height, o.Width, o.Channels, o.Type, o.Scale, o.Shift,
		o.Orient, o.Alpha, o.Background, o.Shrink, p.Decoder())
	for _, s := range o.Steps {
		if f, ok := s.(Func); ok {
			fmt.Fprintf(h, "func %q\n", f.Name)
			continue
		}
		fmt.Fprintf(h, "%T %+v\n", s, s)
	}
	return h.Sum64()
}
