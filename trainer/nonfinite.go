package trainer

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/internal/ir"
	"github.com/evenkeel/evenkeel/trainer/internal/layout"
)

// NonFiniteError names the first tensor of a step that was not finite. It wraps ErrNonFinite, or
// ErrLabel if a label outside the classes is the cause, or ErrWeight if a weight below 0 is.
type NonFiniteError struct {
	Op    string // operation that computed the tensor; "" for data and parameters
	Label string // name of the tensor: layer and node, or the name of the field or parameter
	// Index is that of the first bad element: in the sample's field if Op is "" and Sample ≥ 0,
	// else in the whole tensor. It is -1 if it is not known.
	Index    int
	Value    float64 // value of that element: NaN or an infinity; the weight, with ErrWeight
	Decoded  bool    // the stored data are finite: decoding (Scale, Shift) turned Stored into Value
	Stored   float64 // value of the element as it is stored; set for fields only
	Samples  int     // number of samples in the step
	Sample   int     // index in the dataset of the sample that caused it, or row of a Batch; -1 if not known
	BadLabel int64   // the class label that is outside the classes; set with ErrLabel only
	Classes  int     // number of classes of the model; set with ErrLabel only
	// Scale is the loss scale, if gradients overflow although it is already optim.MinScale, the
	// smallest; else 0.
	Scale float64
	Half  bool // the operation rounds to float16, whose largest number is 65504
	// Variance: the tensor holds the variances over the batch, one for each channel, of the batch
	// normalization that Label names. Index is the channel.
	Variance bool

	row    bool // Sample is a row
	labels int  // labels in a sample; 0 if the model computes them
	steps  int  // of the window whose gradients were added up; 0 or 1: one
	err    error
}

func (e *NonFiniteError) Error() string {
	// The cause comes first, then the circumstances under which it is one.
	at := ""
	if e.Scale > 0 {
		at = fmt.Sprintf(" at a loss scale of %v, the smallest", e.Scale)
	}
	if e.Half {
		at += " of numbers rounded to float16, which end at 65504 " +
			"(name the layer in Options.KeepFloat32, or set Precision to bfloat16)"
	}
	return fmt.Sprintf("%s%s: %v", e.cause(), at, e.err)
}

// cause describes the tensor and the element.
func (e *NonFiniteError) cause() string {
	switch {
	case e.err == ErrLabel:
		return fmt.Sprintf("%s has label %d%s, the model has classes 0 to %d", e.labelsOf(), e.BadLabel, e.labelAt(), e.Classes-1)
	case e.err == ErrWeight && e.Sample < 0:
		return fmt.Sprintf("weights %q, which the model computes, have %v at element %d", e.Label, e.Value, e.Index)
	case e.err == ErrWeight && e.Op != "":
		return fmt.Sprintf("sample %d: weights %q, which the model computes, have %v at element %d", e.Sample, e.Label, e.Value, e.Index)
	case e.Decoded:
		return fmt.Sprintf("%s: field %q has %v at element %d, which its scale and shift decode to %v",
			sampleName(e.Sample, e.row), e.Label, e.Stored, e.Index, e.Value)
	case e.Variance:
		return fmt.Sprintf("batch normalization %q: the variance of channel %d over the batch is %v "+
			"(scale or clip what the layer normalizes)", e.Label, e.Index, e.Value)
	case e.Op == "" && e.Sample >= 0:
		return fmt.Sprintf("%s: field %q has %v at element %d", sampleName(e.Sample, e.row), e.Label, e.Value, e.Index)
	case e.Op == "":
		return fmt.Sprintf("%q has %v at element %d", e.Label, e.Value, e.Index)
	case e.Index < 0 && e.steps > 1:
		return fmt.Sprintf("%s of %q, added up over %d steps", e.Op, e.Label, e.steps)
	case e.Index < 0:
		return fmt.Sprintf("%s of %q", e.Op, e.Label)
	}
	return fmt.Sprintf("%s %q made %v at element %d", e.Op, e.Label, e.Value, e.Index)
}

// labelsOf names what holds the bad label.
func (e *NonFiniteError) labelsOf() string {
	if e.labels == 0 {
		return fmt.Sprintf("%s %q", e.Op, e.Label)
	}
	return fmt.Sprintf("%s: field %q", sampleName(e.Sample, e.row), e.Label)
}

// sampleName names a sample of a dataset, or a row of a Batch.
func sampleName(number int, row bool) string {
	if row {
		return fmt.Sprintf("row %d", number)
	}
	return fmt.Sprintf("sample %d", number)
}

// labelAt is the position of the bad label, where there are several.
func (e *NonFiniteError) labelAt() string {
	if e.labels == 1 {
		return ""
	}
	return fmt.Sprintf(" at element %d", e.Index)
}

// Unwrap returns ErrNonFinite or ErrLabel.
func (e *NonFiniteError) Unwrap() error { return e.err }

// IndexError names an index outside an embedding table, a matrix whose rows a node reads by index.
// It wraps ErrIndex.
type IndexError struct {
	Node   string // name of the node that reads rows of the table
	Field  string // name of the field that holds the index; "" if the model computes the indices
	Index  int64  // the bad index
	Rows   int    // rows of the table: valid indices are 0 to Rows-1
	Sample int    // index of the sample in the dataset, or row of a Batch; -1 if the model computes the indices
	At     int    // position among the indices of the sample, or of the step if Sample is -1
	place  int    // position among those of the step
	row    bool   // Sample is a row
}

func (e *IndexError) Error() string {
	s := fmt.Sprintf("node %q: index %d at %d is not in 0..%d: %v", e.Node, e.Index, e.place, e.Rows-1, ErrIndex)
	if e.Sample < 0 {
		return s
	}
	return fmt.Sprintf("%s: field %q: %s", sampleName(e.Sample, e.row), e.Field, s)
}

// Unwrap returns ErrIndex.
func (e *IndexError) Unwrap() error { return ErrIndex }

// DivisionError names a division of an integer by 0, or 0 to a power below 0. It wraps ErrDivision.
type DivisionError struct {
	Node   string // name of the node that divides
	Field  string // name of the field that holds the divisor; "" if the model computes it
	Sample int    // index of the sample in the dataset, or row of a Batch; -1 if the model computes the divisor
	At     int    // position of the divisor in the sample, or in the step if Sample is -1
	row    bool   // Sample is a row
}

func (e *DivisionError) Error() string {
	if e.Sample < 0 {
		return fmt.Sprintf("node %q: element %d: %v", e.Node, e.At, ErrDivision)
	}
	return fmt.Sprintf("%s: field %q: node %q: element %d: %v", sampleName(e.Sample, e.row), e.Field, e.Node, e.At, ErrDivision)
}

// Unwrap returns ErrDivision.
func (e *DivisionError) Unwrap() error { return ErrDivision }

// badIndex returns an *IndexError if the status word of a step names a bad index, and a
// *DivisionError if it names a divisor of 0. samples are the indices of the batch's samples.
func badIndex(indices []ir.Indices, status []int32, samples []int) error {
	x, ok := layout.FindBadIndex(indices, status)
	if !ok {
		return nil
	}
	sample, at, field := -1, x.At, ""
	// Each is the number of indices of a sample, 0 if they are not a field of it.
	if x.Each > 0 && x.At/x.Each < len(samples) {
		sample, at, field = samples[x.At/x.Each], x.At%x.Each, x.Field
	}
	if x.Divides {
		return &DivisionError{Node: x.Node, Field: field, Sample: sample, At: at}
	}
	return &IndexError{Node: x.Node, Field: field, Index: x.Index, Rows: x.Rows, Sample: sample, At: at, place: x.At}
}

// finite reports whether v is neither NaN nor an infinity.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
