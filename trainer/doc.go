// Package trainer trains a Gorgonia graph inside one block of device memory whose every byte is announced before the first step.
//
// [New] compiles a model for training, evaluation and prediction, plans the memory that all of them share, and allocates it once.
// [Trainer.Fit] trains one epoch, [Trainer.Evaluate] measures, [Trainer.Predict] yields outputs; none of them
// allocates device memory, and losses leave as plain numbers. [Plan] does the arithmetic alone.
// Package vm runs graphs that already exist: it is a gorgonia.VM.
package trainer
