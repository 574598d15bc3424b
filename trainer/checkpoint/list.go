package checkpoint

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Names of checkpoints are "step-" and 12 digits, so that they sort by step.
const (
	prefix = "step-"
	suffix = ".safetensors"
	// indexSuffix is that of the index of a checkpoint in several files.
	indexSuffix = ".safetensors.index.json"
)

// Checkpoint describes a checkpoint of a folder.
type Checkpoint struct {
	Name    string             // of its file, or of the index of its files
	Step    int64              // number of the training step that it was taken after
	Bytes   int64              // of its files
	Metrics map[string]float64 // measured at that step; see Folder.Measured
}

// stem returns the beginning of the names of the files of a checkpoint.
func stem(step int64) string { return fmt.Sprintf("%s%012d", prefix, step) }

// stepOf returns the step of the checkpoint with a name; ok is false for other files.
func stepOf(name string) (step int64, ok bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	if rest, found := strings.CutSuffix(digits, indexSuffix); found {
		digits = rest
	} else if digits, ok = strings.CutSuffix(digits, suffix); !ok {
		return 0, false
	}
	step, err := strconv.ParseInt(digits, 10, 64)
	return step, err == nil && step >= 0 && stem(step) == prefix+digits
}

// list returns the names of the checkpoints in dir, oldest first, one of each step. It does not
// read them.
func list(dir string) ([]Checkpoint, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []Checkpoint
	for _, e := range entries {
		if step, ok := stepOf(e.Name()); ok {
			all = append(all, Checkpoint{Name: e.Name(), Step: step})
		}
	}
	slices.SortFunc(all, func(a, b Checkpoint) int {
		if a.Step != b.Step {
			return int(max(-1, min(1, a.Step-b.Step)))
		}
		return strings.Compare(a.Name, b.Name)
	})
	// A file comes before an index of the same step, and is the one that counts: see
	// safetensors.Create.
	return slices.CompactFunc(all, func(a, b Checkpoint) bool { return a.Step == b.Step }), nil
}

// Best selects the checkpoint that is kept because its result is the best one.
type Best struct {
	// Metric is the name of a value of Folder.Measured, such as "loss". Default: none is kept.
	Metric string
	// Larger values are better, as an accuracy. Default: smaller ones, as a loss.
	Larger bool
}

// better reports whether value a is better than b. NaN is worse than every number.
func (b Best) better(value, than float64) bool {
	if math.IsNaN(value) || math.IsNaN(than) {
		return !math.IsNaN(value)
	}
	if b.Larger {
		return value > than
	}
	return value < than
}

// of returns the index of the best checkpoint; the earliest one of equal ones; -1 if none has a
// value.
func (b Best) of(all []Checkpoint) int {
	best := -1
	if b.Metric == "" {
		return best
	}
	for i, c := range all {
		if v, ok := c.Metrics[b.Metric]; ok && (best < 0 || b.better(v, all[best].Metrics[b.Metric])) {
			best = i
		}
	}
	return best
}

// surplus divides checkpoints, oldest first, into those that stay, which are the last n and the
// best one, and the others.
func surplus(all []Checkpoint, n int, best Best) (stay, others []Checkpoint) {
	if n < 0 {
		return all, nil
	}
	top := best.of(all)
	for i, c := range all {
		if i >= len(all)-n || i == top {
			stay = append(stay, c)
		} else {
			others = append(others, c)
		}
	}
	return stay, others
}
