package images

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"image"
	"math"
	"runtime/debug"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// FromImages returns a dataset of pictures in memory, which must not change while in use. A sample
// has the field "x" and, unless labels is nil, "y", int32. A wrong number of labels, and a picture
// that is nil, empty or larger than MaxPixels, are errors; all are reported together.
//
// Pictures of the types of package image are read row by row; those of other types by At, which
// allocates.
func FromImages(pictures []image.Image, labels []int32, p *Pipeline) (dataloader.Dataset, error) {
	if p == nil {
		return nil, fmt.Errorf("pictures in memory: the pipeline is nil: make one with New: %w", dataloader.ErrOption)
	}
	var errs []error
	if labels != nil && len(labels) != len(pictures) {
		errs = append(errs, fmt.Errorf("%d labels for %d pictures: %w", len(labels), len(pictures), dataloader.ErrOption))
	}
	for i, m := range pictures {
		if err := p.fits(m); err != nil {
			errs = append(errs, fmt.Errorf("picture %d: %w", i, err))
		}
	}
	if len(pictures) == 0 {
		errs = append(errs, dataloader.ErrEmpty)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &memory{pictures: pictures, labels: labels, p: p, fields: []dataloader.Field{p.Field("x")}}
	if labels != nil {
		s.fields = append(s.fields, dataloader.Field{Name: "y", Type: arena.Int32})
	}
	return s, nil
}

// memory is a dataset of pictures in memory.
type memory struct {
	pictures []image.Image
	labels   []int32
	p        *Pipeline
	fields   []dataloader.Field
}

// Len returns the number of pictures.
func (s *memory) Len() int { return len(s.pictures) }

// Fields returns "x" and, if there are labels, "y".
func (s *memory) Fields() []dataloader.Field { return slices.Clone(s.fields) }

// Fetch draws picture at.Index.
func (s *memory) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	if err := s.p.Draw(at, s.pictures[at.Index], dst[0]); err != nil {
		return err
	}
	if s.labels != nil {
		binary.NativeEndian.PutUint32(dst[1], uint32(s.labels[at.Index]))
	}
	return nil
}

// Fingerprint returns a hash of the sizes, the labels and the pipeline. Pixels are not read.
func (s *memory) Fingerprint() uint64 {
	h := fnv.New64a()
	for i, m := range s.pictures {
		fmt.Fprintf(h, "%v", m.Bounds())
		if s.labels != nil {
			fmt.Fprintf(h, " %d", s.labels[i])
		}
	}
	fmt.Fprintf(h, "pipeline %x", s.p.Fingerprint())
	return h.Sum64()
}

// fits returns an error for a picture that Draw does not take.
func (p *Pipeline) fits(m image.Image) error {
	if m == nil {
		return fmt.Errorf("nil image: %w", dataloader.ErrOption)
	}
	b := m.Bounds()
	if w, h := int64(b.Dx()), int64(b.Dy()); w < 1 || h < 1 || w > math.MaxInt32 || h > math.MaxInt32 || w*h > int64(p.opt.MaxPixels) {
		return fmt.Errorf("image of %d × %d pixels: must have 1 to MaxPixels = %d pixels: %w", w, h, p.opt.MaxPixels, dataloader.ErrOption)
	}
	return nil
}

// Draw is Decode for a picture that is decoded already. It does not change m.
func (p *Pipeline) Draw(at dataloader.At, m image.Image, dst []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &dataloader.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err := p.fits(m); err != nil {
		return err
	}
	d, err := p.start(at, dst)
	if err != nil {
		return err
	}
	p.pictures.Add(1)
	err = d.draw(m)
	p.end(d)
	return err
}

// draw runs the steps on a picture.
func (d *decoding) draw(m image.Image) error {
	b := m.Bounds()
	done, err := d.plan(b.Dx(), b.Dy(), 1)
	if err != nil {
		return err
	}
	d.limited = false
	d.setSource(m, header{orientation: 1}, &d.p.opt)
	return d.run(done)
}
