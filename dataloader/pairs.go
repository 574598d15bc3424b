package dataloader

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/evenkeel/evenkeel/arena"
)

// PairOptions of Pairs.
type PairOptions struct {
	// Alpha is the parameter of the distribution Beta(Alpha, Alpha) of coefficients: 1 is uniform, less
	// is mostly near 0 or 1. 0: 1.
	Alpha float64
	// Share is the probability that a sample is mixed; others have the coefficient 1. 0: 1.
	Share float64
	// Box names a field with images [C, H, W]: a rectangle of it comes from the partner (CutMix). "":
	// the whole images are blended (mixup).
	Box string
}

// Pairs returns ds with a partner for each sample, for mixup and CutMix on the device. After the
// fields of ds come the same fields of the partner, with "_partner" after their names, and these:
//
//	mix   float32       the share of the sample itself, 0 to 1
//	box   int32 [4]     with Box only: top, left, bottom and right of the partner's rectangle,
//	                    the last two excluded; all 0 for a sample that is not mixed
//
// The model mixes them with Mixup or CutMix of package layers, so that images travel as they are
// stored. For CutMix, mix is 1 less the rectangle's share of the image.
//
// Partner, coefficient and rectangle depend on the seed, the epoch and the sample only. The partner is
// any sample of ds, also the same one; so apply Pairs after a split. It has random draws of its own.
// If ds is [Blocked], so is the result, and the partner is of the same block: mix the classes before
// blocks are written. Wrong options and clashing names are errors that wrap ErrOption or ErrField.
//
// Sources: Zhang and others, mixup: Beyond Empirical Risk Minimization, ICLR 2018; Yun and others,
// CutMix, ICCV 2019.
func Pairs(ds Dataset, opt PairOptions) (Dataset, error) {
	if err := Check(ds); err != nil {
		return nil, err
	}
	if opt.Alpha == 0 {
		opt.Alpha = 1
	}
	if opt.Share == 0 {
		opt.Share = 1
	}
	if !(opt.Alpha >= 1e-6 && opt.Alpha <= 1e6) || !(opt.Share > 0 && opt.Share <= 1) {
		return nil, fmt.Errorf("pairs: alpha %v, share %v: alpha must be 1e-6 to 1e6, share above 0 and at most 1: %w", opt.Alpha, opt.Share, ErrOption)
	}
	own := ds.Fields()
	p := &pairs{Dataset: ds, opt: opt, own: len(own), fields: slices.Clone(own), starts: blocksOf(ds).Starts}
	for _, f := range own {
		f.Name += "_partner"
		p.fields = append(p.fields, f)
	}
	p.fields = append(p.fields, Field{Name: "mix", Type: arena.Float32})
	if opt.Box != "" {
		from, err := choose(own, []string{opt.Box})
		if err != nil {
			return nil, fmt.Errorf("pairs: %w", err)
		}
		f := own[from[0]]
		if len(f.Shape) != 3 {
			return nil, fmt.Errorf("pairs: %w", &FieldError{Index: from[0], Name: f.Name, Problem: fmt.Sprintf("has the shape %v: a rectangle is cut from [C, H, W]", f.Shape)})
		}
		p.height, p.width = f.Shape[1], f.Shape[2]
		if p.height > math.MaxInt32 || p.width > math.MaxInt32 {
			return nil, fmt.Errorf("pairs: %w", &FieldError{Index: from[0], Name: f.Name, Problem: fmt.Sprintf("the shape %v is too large", f.Shape)})
		}
		p.fields = append(p.fields, Field{Name: "box", Type: arena.Int32, Shape: []int{4}})
	}
	if err := checkFields(p.fields); err != nil {
		return nil, fmt.Errorf("pairs: %w", err)
	}
	return p, nil
}

// pairs is a dataset with partners.
type pairs struct {
	Dataset
	opt           PairOptions
	own           int // fields of Dataset
	fields        []Field
	starts        []int // of the blocks; nil: it has none
	height, width int   // of the images; 0: no box
}

func (p *pairs) Fields() []Field { return p.fields }

// Blocks implements Blocked.
func (p *pairs) Blocks() Blocks { return blocksOf(p.Dataset) }

// Fingerprint implements Fingerprinter.
func (p *pairs) Fingerprint() uint64 {
	return hash(domainPairs, Fingerprint(p.Dataset), math.Float64bits(p.opt.Alpha), math.Float64bits(p.opt.Share), uint64(p.height), uint64(p.width))
}

func (p *pairs) Fetch(ctx context.Context, at At, dst [][]byte) error {
	if err := p.Dataset.Fetch(ctx, at, dst[:p.own:p.own]); err != nil {
		return err
	}
	r := Rand{generator(domainPairs, at.Seed, uint64(at.Epoch), uint64(at.Index))}
	from, n := beside(p.Dataset, p.starts, at.Index)
	partner := At{Index: from + r.IntN(n), Epoch: at.Epoch, Seed: hash(domainPairs, at.Seed, uint64(at.Index))}
	if err := p.Dataset.Fetch(ctx, partner, dst[p.own:2*p.own:2*p.own]); err != nil {
		return err
	}
	mixed := r.Float64() < p.opt.Share
	mix := r.beta(p.opt.Alpha)
	if !mixed {
		mix = 1
	}
	if p.height > 0 {
		box := View[int32](dst[2*p.own+1])
		mix = p.rectangle(&r, mix, box)
	}
	View[float32](dst[2*p.own])[0] = float32(mix)
	return nil
}

// rectangle draws the partner's rectangle, of the share 1-mix of the image before it is cut off at the
// borders, with its centre anywhere. It returns the share of the image that is left.
func (p *pairs) rectangle(r *Rand, mix float64, box []int32) float64 {
	side := math.Sqrt(1 - mix)
	h, w := int(float64(p.height)*side), int(float64(p.width)*side)
	y, x := r.IntN(p.height), r.IntN(p.width)
	top, left := max(0, y-h/2), max(0, x-w/2)
	bottom, right := min(p.height, y-h/2+h), min(p.width, x-w/2+w)
	if mix == 1 || bottom <= top || right <= left {
		top, left, bottom, right = 0, 0, 0, 0
	}
	box[0], box[1], box[2], box[3] = int32(top), int32(left), int32(bottom), int32(right)
	return 1 - float64((bottom-top)*(right-left))/float64(p.height*p.width)
}

// beta draws from Beta(a, a), as the share of one of two gamma numbers.
func (r *Rand) beta(a float64) float64 {
	x, y := r.logGamma(a), r.logGamma(a)
	return 1 / (1 + math.Exp(y-x))
}

// logGamma draws the logarithm of a number from Gamma(a, 1). Source: Marsaglia and Tsang, A Simple
// Method for Generating Gamma Variables, ACM TOMS 26(3), 2000. Logarithms keep what small a underflow.
func (r *Rand) logGamma(a float64) float64 {
	boost := 0.0
	if a < 1 {
		boost = math.Log(1-r.Float64()) / a
		a++
	}
	d := a - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return boost + math.Log(d) + math.Log(v)
		}
	}
}

// normal draws from the standard normal distribution (Marsaglia's polar method).
func (r *Rand) normal() float64 {
	for {
		x, y := 2*r.Float64()-1, 2*r.Float64()-1
		if s := x*x + y*y; s > 0 && s < 1 {
			return x * math.Sqrt(-2*math.Log(s)/s)
		}
	}
}
