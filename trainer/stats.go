package trainer

import "github.com/evenkeel/evenkeel/arena"

// Stats are a trainer's counters since New. Restore sets Updates and Epochs to those of the state.
type Stats struct {
	Arena arena.Stats // bytes of device memory
	// Pinned is the bytes of pinned host memory: slots, results of steps, offloaded tensors, the copy
	// of the state (Options.Checkpoint), the arena's copy buffer (arena.StageBytes), and buffers that
	// the device pins to run programs.
	Pinned int64
	// Host is the bytes of Go memory that the trainer keeps: instruction lists, values and
	// placements of programs, indices of samples, and batches of Predict. Not counted are datasets,
	// and what loaders and devices keep for themselves, which does not grow with the data.
	Host     int64
	Uploaded int64 // bytes of samples copied to the device; with unified memory, bytes written to a slot
	Updates  int64 // updates of the parameters, by all objectives; 0 if all are frozen
	Steps    int64 // training steps that were finished, those of all objectives
	Epochs   int   // epochs that Fit and Steps have begun
	Programs int   // compiled programs: those of full batches, and those of the last 8 sizes of short batches
}

// Stats returns the counters as they are now. It may be called while a pass runs, and after Close.
func (t *Trainer) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Programs: len(t.programs)}
	s.Steps, s.Epochs, s.Updates = t.counters.steps, t.counters.epochs, t.counters.before
	for _, n := range t.counters.updates {
		s.Updates += n
	}
	if t.memory != nil {
		s.Arena = t.memory.arena.Stats()
	}
	f := t.footprint()
	s.Pinned, s.Host, s.Uploaded = f.Pinned, f.Host, f.Uploaded
	return s
}

// Footprint is how many bytes a trainer uses now, as Stats has them.
type Footprint struct {
	Arena    int64 // of device memory: Stats.Arena.InUse
	Pinned   int64
	Host     int64
	Uploaded int64
}

// Footprint returns the bytes in use. Unlike Stats it allocates nothing, so that it may be called after
// every step. It may be called while a pass runs, and after Close.
func (t *Trainer) Footprint() Footprint {
	if t == nil {
		return Footprint{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.footprint()
}

// footprint is Footprint with the lock held.
func (t *Trainer) footprint() Footprint {
	f := Footprint{Uploaded: t.uploaded.Load()}
	if t.memory != nil && t.memory.arena != nil {
		_, f.Arena, f.Pinned = t.memory.arena.Bytes()
		f.Pinned += t.memory.extraPinnedBytes()
	}
	if t.plan != nil {
		for _, p := range t.programs {
			f.Host += p.bytes
		}
		f.Host += t.loaders.bytes.Load() + t.staging.bytes() + int64(cap(t.buffer))
	}
	return f
}
