// Package trainer trains a Gorgonia graph inside one block of device memory, the arena. A plan
// says, before anything is allocated, which bytes each tensor has.
//
// In the order in which a program needs them:
//
//   - [ModelFunc] adds a model to a graph for one batch size. [Options] choose the device, the
//     batch size, the optimizer and the memory limit.
//   - [Plan] computes the memory plan, [MaxBatch] the largest batch that fits, and [Explore] which
//     other options would fit. They allocate no device memory.
//   - [New] compiles the model for training, evaluation and prediction, plans the memory that the
//     three share, and allocates it once. If the plan does not fit, the error is a [*CapacityError]
//     that names options which would.
//   - [Trainer.Fit] trains one epoch, [Trainer.Evaluate] measures loss and accuracy, and
//     [Trainer.Predict] yields outputs. They allocate no device memory.
//   - [Trainer.Steps] is Fit as a loop of your own: it yields after each [Step], and the body may
//     use the trainer. [Trainer.Step] trains one step on a [Batch] that the caller makes. See
//     docs/loops.md.
//   - [Trainer.Capture] copies the complete state between two steps, and [Trainer.Restore] goes on from
//     it, bit for bit, in this trainer or another one.
//   - [NewPredictor] makes a [Predictor], which answers single rows of many goroutines without a
//     dataset, also while the trainer goes on: docs/predict.md.
//   - [Trainer.Params] reads and writes parameters, [Trainer.CopyParams] copies them between parts of
//     the model, and [Trainer.Averaged] has their averages. [Trainer.Read] reads values and gradients
//     of a step as floats, [Trainer.Kept] as bytes.
//     [Trainer.Plan] returns the plan, [Trainer.Stats] the counters, [Trainer.LossScale] the state
//     of loss scaling. [Trainer.Close] releases the memory.
//
// A step is one launch of a compiled program on one batch. The arena has slots, places for the input
// of a batch, two unless [Options].Slots says more: the others fill while the device works on one.
// [TuneSlots] measures how many the data need. The arena is divided into
// named regions. Values that live only during a step, such as activations, share the region
// "scratch". docs/glossary.md has all terms, docs/memory.md the layout.
//
// To run a Gorgonia graph that exists already, use package vm instead.
//
// [ErrOption] and the sentinels listed with it are the classes of errors. [NonFiniteError] names
// the tensor, [IndexError] the index and [DivisionError] the divisor that stopped a step.
// [SumLossError] names a loss that is a sum where a mean is needed.
package trainer
