// Package runs records a training in a folder and shows it on a page: losses, accuracies, rates,
// norms of gradients, speed, where the time goes, and memory over time.
//
// [Create] makes a [Run]. Its Progress is a hook for trainer.Options.Progress; it copies the numbers
// of a step into a ring and returns, and a goroutine of the run's own writes and draws them. [Keep]
// sets the options whose values a run can show, [Run.Attach] gives it the trainer to read memory and
// norms from, and [Run.Close] ends it:
//
//	run, err := runs.Create(ctx, "runs/first", runs.Options{})
//	…
//	opt.Progress = run.Progress
//	runs.Keep(&opt)
//	t, err := trainer.New(ctx, model, opt)
//	…
//	err = run.Attach(runs.Source{Trainer: t, Device: opt.Device})
//	… t.Fit
//	err = run.Close()
//
// The folder has these files:
//
//	index.html           the page, with all it shows
//	metrics.jsonl        a line for each step and evaluation, and each second, later more rarely
//	events.out.tfevents… the same numbers for TensorBoard
//	curves.svg, .png     curves over steps
//	time.svg, .png       speed, waits and memory over time
//	plan.txt, .html      the memory plan
//	run.json             name, settings and times of the run
//	lock                 which process records in the folder
//
// [Compare] writes a page that shows several runs. Package trainer/runs/live serves the page while
// the training runs, with buttons that call [Run.Pause], [Run.Stop] and [Run.Checkpoint].
package runs
