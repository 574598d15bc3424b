package cuda

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/numeric"
)

// ruleNumbers returns the name of a rule's kernel and the rule's parameters: a, b, epsilon.
func ruleNumbers(b *binding) (name string, n [3]float64, err error) {
	switch a := b.Attrs.(type) {
	case kernels.SGDAttrs:
		return "sgd", n, nil
	case kernels.MomentumAttrs:
		if a.Nesterov {
			return "nesterov", [3]float64{a.Momentum}, nil
		}
		return "momentum", [3]float64{a.Momentum}, nil
	case kernels.RMSPropAttrs:
		return "rmsprop", [3]float64{a.Rho, 0, a.Epsilon}, nil
	case kernels.AdamAttrs:
		name = "adam"
		if b.Op == kernels.AdamW {
			name = "adamw"
		}
		return name, [3]float64{a.Beta1, a.Beta2, a.Epsilon}, nil
	case kernels.Adam16Attrs:
		name = "adam16"
		if a.Decoupled {
			name = "adamw16"
		}
		return name, [3]float64{a.Beta1, a.Beta2, a.Epsilon}, nil
	case kernels.LionAttrs:
		return "lion", [3]float64{a.Beta1, a.Beta2}, nil
	}
	return "", n, fmt.Errorf("no rule for %T: %w", b.Attrs, kernels.ErrUnsupported)
}

func bindUpdate(b *binding) error {
	name, own, err := ruleNumbers(b)
	if err != nil {
		return err
	}
	u := b.Attrs.(kernels.Updater).Common()
	var scale address
	if u.Scaled {
		scale = b.in(4)
	}
	var states [2]address
	for k := range b.Out[1:] {
		states[k] = b.out(1 + k)
	}
	n := b.In[0].Shape.Elems()
	b.launch("update", name+"_"+suffix(b.In[0].Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		b.out(0), b.in(1), states[0], states[1], int64(n), b.in(2), b.in(3), scale, u.ClipValue, u.Decay, own[0], own[1], own[2])
	return nil
}

func bindRunningStat(b *binding) error {
	a, n := b.Attrs.(kernels.RunningStatAttrs), b.In[0].Shape.Elems()
	b.launch("update", "runningStat"+"_"+suffix(b.In[0].Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		b.out(0), b.in(1), b.in(2), int64(n), 1-a.Momentum, a.Momentum*a.Factor)
	return nil
}

func bindMix(b *binding) error {
	n := int64(b.In[0].Shape.Elems())
	b.launch("update", "mix_"+suffix(b.In[0].Type), strided(b.props, n, blockThreads), line(blockThreads), 0,
		b.out(0), b.in(1), b.in(2), b.in(3), n)
	return nil
}

func bindCheckFinite(b *binding) error {
	n := b.In[0].Shape.Elems()
	b.launch("update", "checkFinite"+"_"+suffix(b.In[0].Type), strided(b.props, int64(n), blockThreads), line(blockThreads), 0,
		b.in(0), b.out(0), int64(n), b.Attrs.(kernels.CheckFiniteAttrs).Code)
	return nil
}

// mostTerms is the largest number of terms that a kernel of bindClipNorm adds up: the parameters of
// a kernel are limited to 4 KB.
const mostTerms = 256

// bindClipNorm adds up the numbers in their order, up to mostTerms in each kernel; the last kernel
// computes the factor from the total. One thread suffices.
func bindClipNorm(b *binding) error {
	a := b.Attrs.(kernels.ClipNormAttrs)
	for from := a.First(); from < len(b.In); from += mostTerms {
		to := min(from+mostTerms, len(b.In))
		w := newWriter()
		var args []any
		var terms []string
		for k := from; k < to; k++ {
			terms = append(terms, w.param(fmt.Sprintf("x%d", k), true))
			args = append(args, b.in(k))
		}
		y := w.param("y", true)
		args = append(args, b.out(0))
		total := w.register("d")
		if from == a.First() {
			w.line("mov.f64 %s, %s;", total, double.literal(0))
		} else {
			w.line("ld.global.f64 %s, [%s];", total, y)
		}
		for _, at := range terms {
			v := w.register("d")
			w.line("ld.global.f64 %s, [%s];", v, at)
			w.line("add.rn.f64 %s, %s, %s;", total, total, v)
		}
		if to == len(b.In) {
			root, scale, none, u := w.register("d"), w.register("d"), w.register("d"), double.literal(1)
			if a.Scaled {
				at := w.param("u", true)
				args = append(args, b.in(0))
				u = w.register("d")
				w.line("ld.global.f64 %s, [%s];", u, at)
			}
			w.line("sqrt.rn.f64 %s, %s;", root, total)
			w.line("div.rn.f64 %s, %s, %s;", scale, double.literal(a.Max), root)
			w.line("sub.rn.f64 %s, %s, %s;", none, total, total) // NaN where the total overflows
			w.line("add.rn.f64 %s, %s, %s;", scale, scale, none)
			total = w.choose(double, "ge", scale, u, u, scale)
		}
		w.line("st.global.f64 [%s], %s;", y, total)
		b.launchText(w.module("clipNorm"), "clipNorm", line(1), line(1), 0, args...)
	}
	return nil
}

// bindAdam8 uses a warp for each block of elements.
func bindAdam8(b *binding) error {
	a := b.Attrs.(kernels.Adam8Attrs)
	var scale address
	if a.Scaled {
		scale = b.in(4)
	}
	var decoupled int32
	if a.Decoupled {
		decoupled = 1
	}
	const warp = 32 // threads
	blocks := b.Out[3].Shape[0]
	b.launch("adam8", "adam8_"+suffix(b.In[0].Type), strided(b.props, int64(blocks*warp), blockThreads), line(blockThreads), 0,
		b.out(0), b.in(1), b.out(1), b.out(2), b.out(3), int64(b.In[0].Shape.Elems()), b.in(2), b.in(3), scale,
		a.ClipValue, a.Decay, a.Beta1, math.Sqrt(a.Beta2), math.Sqrt(1-a.Beta2),
		numeric.MeanSpan(a.Beta1, a.Beta2), a.Epsilon, decoupled)
	return nil
}
