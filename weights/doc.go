// Package weights saves the parameters and running statistics of a model to a file and loads them
// from one: all of them or none.
//
//	err := weights.Save(ctx, "model.safetensors", t, weights.SaveOptions{})
//	report, err := weights.Load(ctx, "model.safetensors", t, weights.LoadOptions{})
//
// A [Source] or [Target] is a *trainer.Trainer, a *trainer.Predictor or, to save its averages, a
// trainer.Averaged. [Clone] copies from one to another, on any devices.
//
// [Load] compares names, types and shapes first and reports all that differs in one error, a
// *trainer.WeightsError. It reads every value before it sets the first, and refuses NaN and infinity
// unless LoadOptions.AllowNonFinite is set. If something fails after the first is set, it sets the
// former values again.
//
// Files are in the safetensors format, with a checksum in their metadata, or NumPy's .npz, by their
// name. The state of the optimizer is no part of them: see package trainer/checkpoint.
//
// [Rules] convert files of other libraries, both ways: [Torch] and [GPT2] those of PyTorch.
//
// Nothing is allocated on the device. Values go through two buffers of 1 MiB, and the former ones
// are kept in up to 64 MiB of memory, or in a temporary file if they are more. A weight that rules
// transpose, cut or add is in memory as a whole, with its tensors, one at a time.
package weights
