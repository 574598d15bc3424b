package passes

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/internal/compile/schedule"
	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/internal/ir/irtest"
	"github.com/evenkeel/evenkeel/kernels"
)

// tests are the examples of each pass.
var tests = []struct {
	name     string
	pass     func(p *ir.Program)
	examples []irtest.Example
}{
	{"fold", Fold, foldExamples},
	{"identity", Identity, identityExamples},
	{"merge", Merge, mergeExamples},
	{"prune", Prune, pruneExamples},
	{"repeat", Repeat, repeatExamples},
	{"redecode", Redecode, redecodeExamples},
	{"poolrelu", PoolReLUGrad, poolExamples},
	{"batchnorm", FuseBatchNormReLU, batchNormExamples},
	{"sum", Sums, sumExamples},
	{"fuse", Fuse, fuseExamples},
	{"reduce", Reduce, reduceExamples},
	{"prepack", func(p *ir.Program) {
		if err := Prepack(p, new(ir.Homes), splits{}); err != nil {
			panic(err)
		}
	}, prepackExamples},
	{"round", func(p *ir.Program) { Round(p, half) }, roundExamples},
	{"narrow", func(p *ir.Program) { Narrow(p, half) }, narrowExamples},
	{"slices", func(p *ir.Program) {
		Slices(p, []*kernels.Op{kernels.SGD}, schedule.Options{Order: true, InPlace: true, Views: true})
	}, slicesExamples},
	{"offload", func(p *ir.Program) { Offload(p, []*kernels.Op{kernels.SGD}, true) }, offloadExamples},
}

func TestPassesRewriteProgramsLikeTheirGoldenFiles(t *testing.T) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { irtest.Golden(t, c.name, c.pass, c.examples) })
	}
}

// A pass that has run leaves nothing for a second run.
func TestPassesAreIdempotent(t *testing.T) {
	for _, c := range tests {
		if slices.Contains([]string{"repeat", "redecode", "narrow", "slices", "offload"}, c.name) {
			continue // a second run numbers repetitions anew, and finds fields with one reader, 16-bit values, slices and copies, which these leave as they are
		}
		for _, e := range c.examples {
			b := irtest.New(t)
			e.Build(b)
			c.pass(b.Program)
			once := b.Program.String()
			if c.pass(b.Program); b.Program.String() != once {
				t.Errorf("%s, %s: got\n%vafter the second run, after the first\n%s", c.name, e.Name, b.Program, once)
			}
		}
	}
}
