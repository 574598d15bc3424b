package images

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strconv"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// SheetOptions describes a contact sheet.
type SheetOptions struct {
	Samples []int // indices; default: Count samples spread over the dataset
	Count   int   // default 24
	Columns int   // default 8
	Repeat  int   // pictures of each sample, in epochs Epoch, Epoch+1, …: different draws; default 1
	Epoch   int
	Seed    uint64   // of the loader or trainer, for the draws that it makes
	Image   string   // field; default: the first of shape [1, 3 or 4, height, width], uint8 or float32
	Label   string   // field; default: the first uint8, int32 or int64 scalar; none if there is none
	Classes []string // names of labels
}

const (
	sheetGap     = 4  // pixels between cells
	sheetText    = 15 // pixels of height of a label
	sheetLetter  = 7  // pixels of width of a letter
	leastLetters = 12 // of a label that a cell has room for
	mostLetters  = 24 // for which a cell is made wider
	maxSheet     = 100_000_000
)

// ContactSheet draws samples with their labels as one picture, to look at what a model is trained
// on: the same pixels, with all random changes, that a loader delivers. Small pictures are enlarged,
// each pixel to a square, so that a cell has room for a label of 12 letters, and for names of
// SheetOptions.Classes of up to 24. Write the sheet with png.Encode.
func ContactSheet(ctx context.Context, ds dataloader.Dataset, opt SheetOptions) (*image.RGBA, error) {
	if err := dataloader.Check(ds); err != nil {
		return nil, err
	}
	s, err := newSheet(ds, opt)
	if err != nil {
		return nil, err
	}
	for i := range s.opt.Samples {
		for k := range s.opt.Repeat {
			if err := s.cell(ctx, i*s.opt.Repeat+k, s.opt.Samples[i], opt.Epoch+k); err != nil {
				return nil, err
			}
		}
	}
	return s.out, nil
}

// sheet is a contact sheet that is being drawn.
type sheet struct {
	ds           dataloader.Dataset
	opt          SheetOptions
	fields       []dataloader.Field
	image, label int // indices of fields; label is -1 for none
	sample       [][]byte
	c, h, w      int
	zoom         int // pixels of the sheet for one of the picture, in each direction
	cw, ch       int // pixels of an enlarged picture
	out          *image.RGBA
}

func newSheet(ds dataloader.Dataset, opt SheetOptions) (*sheet, error) {
	s := &sheet{ds: ds, fields: ds.Fields(), image: -1, label: -1}
	for k, f := range s.fields {
		if s.image < 0 && isPicture(f) && (opt.Image == "" || opt.Image == f.Name) {
			s.image = k
		}
		if s.label < 0 && isLabel(f) && (opt.Label == "" || opt.Label == f.Name) {
			s.label = k
		}
		s.sample = append(s.sample, make([]byte, f.Bytes()))
	}
	if s.image < 0 || opt.Label != "" && s.label < 0 {
		return nil, fmt.Errorf("contact sheet: need a field %q of shape [1, 3 or 4, height, width], uint8 or float32, and a scalar label %q: %w",
			opt.Image, opt.Label, dataloader.ErrOption)
	}
	shape := s.fields[s.image].Shape
	s.c, s.h, s.w = shape[0], shape[1], shape[2]
	if err := s.set(opt); err != nil {
		return nil, err
	}
	letters := leastLetters
	for _, c := range opt.Classes {
		letters = max(letters, min(utf8.RuneCountInString(c), mostLetters))
	}
	s.zoom = (letters*sheetLetter + s.w - 1) / s.w
	s.cw, s.ch = s.zoom*s.w, s.zoom*s.h
	cells := len(s.opt.Samples) * s.opt.Repeat
	rows := (cells + s.opt.Columns - 1) / s.opt.Columns
	width, height := sheetGap+s.opt.Columns*(s.cw+sheetGap), sheetGap+rows*(s.ch+sheetText+sheetGap)
	if int64(width)*int64(height) > maxSheet {
		return nil, fmt.Errorf("contact sheet of %d × %d pixels: at most %d: lower Count: %w", width, height, maxSheet, dataloader.ErrOption)
	}
	s.out = image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(s.out, s.out.Rect, image.White, image.Point{}, draw.Src)
	return s, nil
}

// set checks the options and fills in defaults.
func (s *sheet) set(opt SheetOptions) error {
	n := s.ds.Len()
	if opt.Count < 0 || opt.Columns < 0 || opt.Repeat < 0 || opt.Epoch < 0 || max(opt.Count, opt.Columns, opt.Repeat) > 1<<16 {
		return fmt.Errorf("contact sheet: count %d, columns %d, repeat %d and epoch %d must be 0 to %d: %w",
			opt.Count, opt.Columns, opt.Repeat, opt.Epoch, 1<<16, dataloader.ErrOption)
	}
	if opt.Count == 0 {
		opt.Count = 24
	}
	if opt.Repeat == 0 {
		opt.Repeat = 1
	}
	if opt.Samples == nil {
		count := min(opt.Count, n)
		for i := range count {
			opt.Samples = append(opt.Samples, int(int64(i)*int64(n)/int64(count)))
		}
	}
	for _, i := range opt.Samples {
		if i < 0 || i >= n {
			return fmt.Errorf("contact sheet: sample %d of %d: %w", i, n, dataloader.ErrOption)
		}
	}
	if opt.Columns == 0 {
		opt.Columns = min(8, max(len(opt.Samples)*opt.Repeat, 1))
	}
	s.opt = opt
	return nil
}

func isPicture(f dataloader.Field) bool {
	return (f.Type == arena.Uint8 || f.Type == arena.Float32) && len(f.Shape) == 3 &&
		(f.Shape[0] == 1 || f.Shape[0] == 3 || f.Shape[0] == 4)
}

func isLabel(f dataloader.Field) bool {
	return len(f.Shape) == 0 && (f.Type == arena.Uint8 || f.Type == arena.Int32 || f.Type == arena.Int64)
}

// cell draws one sample.
func (s *sheet) cell(ctx context.Context, cell, sample, epoch int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.ds.Fetch(ctx, dataloader.At{Index: sample, Epoch: epoch, Seed: s.opt.Seed}, s.sample); err != nil {
		return fmt.Errorf("contact sheet: sample %d: %w", sample, err)
	}
	left := sheetGap + cell%s.opt.Columns*(s.cw+sheetGap)
	top := sheetGap + cell/s.opt.Columns*(s.ch+sheetText+sheetGap)
	for y := range s.ch {
		for x := range s.cw {
			s.out.Set(left+x, top+y, s.pixel(y/s.zoom*s.w+x/s.zoom))
		}
	}
	text := font.Drawer{Dst: s.out.SubImage(image.Rect(left, top+s.ch, left+s.cw, top+s.ch+sheetText)).(*image.RGBA),
		Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(left, top+s.ch+12)}
	text.DrawString(s.text(sample))
	return nil
}

// pixel returns the colour of a pixel of the sample.
func (s *sheet) pixel(at int) color.Color {
	v := [4]uint8{3: 255}
	for c := range s.c {
		v[c] = s.value(c*s.h*s.w + at)
	}
	if s.c == 1 {
		return color.Gray{Y: v[0]}
	}
	return color.NRGBA{R: v[0], G: v[1], B: v[2], A: v[3]}
}

// value returns a stored number as 0 to 255: bytes as they are, floats as the device decodes them,
// times 255.
func (s *sheet) value(i int) uint8 {
	f, b := s.fields[s.image], s.sample[s.image]
	if f.Type == arena.Uint8 {
		return b[i]
	}
	scale := f.Scale
	if scale == 0 {
		scale = 1
	}
	v := (float64(dataloader.View[float32](b)[i])*scale + f.Shift) * 255
	return uint8(math.Round(min(max(v, 0), 255)))
}

// text returns the label of the sample, as the name of its class if it is known.
func (s *sheet) text(sample int) string {
	if s.label < 0 {
		return strconv.Itoa(sample)
	}
	b := s.sample[s.label]
	var label int64
	switch s.fields[s.label].Type {
	case arena.Uint8:
		label = int64(b[0])
	case arena.Int32:
		label = int64(dataloader.View[int32](b)[0])
	default:
		label = dataloader.View[int64](b)[0]
	}
	if label >= 0 && label < int64(len(s.opt.Classes)) {
		return s.opt.Classes[label]
	}
	return strconv.FormatInt(label, 10)
}
