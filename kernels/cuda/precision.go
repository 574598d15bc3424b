package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
)

// Precision is the type that factors of float32 matrix products are rounded to. Sums are always
// float32.
type Precision int

const (
	// Full rounds nothing.
	Full Precision = iota
	// TF32 keeps 10 bits after the point.
	TF32
	// BFloat16 keeps 7 bits after the point.
	BFloat16
	// Float16 keeps 10 bits after the point; operands beyond 65504 become infinite.
	Float16
)

// String returns the name of the number format.
func (p Precision) String() string {
	if name, ok := map[Precision]string{Full: "float32", TF32: "tf32", BFloat16: "bf16", Float16: "f16"}[p]; ok {
		return name
	}
	return fmt.Sprintf("Precision(%d)", int(p))
}

// choose sets the precision of products, or returns an error if this GPU lacks it.
func (p *properties) choose(x Precision) error {
	switch {
	case x < Full || x > Float16:
		return fmt.Errorf("no such precision as %v: %w", x, kernels.ErrUnsupported)
	case x != Full && p.capability < 80:
		return fmt.Errorf("products in %v need compute capability 8.0, %s has %d.%d: %w", x, p.name, p.capability/10,
			p.capability%10, kernels.ErrUnsupported)
	}
	p.precision = x
	return nil
}
