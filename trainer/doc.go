// Package trainer trains a Gorgonia graph inside one block of device memory whose every byte is
// known before the first step.
//
// In the order in which a program needs them:
//
//   - [ModelFunc] adds a model to a graph for one batch size. [Options] say where, on which data
//     and how to train it.
//   - [Plan] computes what every byte would be for, [MaxBatch] the largest batch that fits, and
//     [Explore] which other options would fit. They allocate no device memory.
//   - [New] compiles the model for training, evaluation and prediction, plans the memory that all
//     of them share, and allocates it once. If it does not fit, the error is a [*CapacityError]
//     that names what would.
//   - [Trainer.Fit] trains one epoch, [Trainer.Evaluate] measures loss and accuracy,
//     [Trainer.Predict] yields outputs. None of them allocates device memory.
//   - [Trainer.Params] gives access to parameters, [Trainer.Kept] to other values of a step, and
//     [Trainer.Plan], [Trainer.Stats] and [Trainer.LossScale] to numbers about the trainer.
//     [Trainer.Close] releases the memory.
//
// Package vm runs a Gorgonia graph that exists already in planned memory; this package does not
// need it.
//
// Errors wrap one of the sentinels below or one of package arena, dataloader or kernels.
// [NonFiniteError] and [IndexError] name the tensor or the index that stopped a step.
package trainer
