package arena

// Stats counts the bytes of an arena. Only RegionStats.Step changes between New and Close.
type Stats struct {
	Reserved int64 // bytes that New allocated; 0 after Close
	InUse    int64 // bytes of the layout's parts, each rounded up to Align; 0 after Close
	Pinned   int64 // bytes of host memory that New pinned, outside the block; 0 after Close
	Regions  []RegionStats
}

// RegionStats counts the bytes of one region.
type RegionStats struct {
	Name     string
	Reserved int64
	InUse    int64
	Step     uint64 // number of resets + 1
}

// Stats returns the counts.
func (a *Arena) Stats() Stats {
	if a == nil {
		return Stats{}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := Stats{Regions: make([]RegionStats, len(a.regions))}
	for i, r := range a.regions {
		s.Regions[i] = RegionStats{Name: r.Name, Step: a.steps[i]}
		if !a.closed {
			s.Regions[i].Reserved, s.Regions[i].InUse = r.Size, r.inUse()
		}
	}
	s.Reserved, s.InUse, s.Pinned = a.count()
	return s
}

// Bytes returns what Stats has as Reserved, InUse and Pinned, and allocates nothing.
func (a *Arena) Bytes() (reserved, inUse, pinned int64) {
	if a == nil {
		return 0, 0, 0
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.count()
}

// count is Bytes with the lock held.
func (a *Arena) count() (reserved, inUse, pinned int64) {
	if a.closed {
		return 0, 0, 0
	}
	for i := range a.regions {
		reserved += a.regions[i].Size
		inUse += a.regions[i].inUse()
	}
	return reserved, inUse, a.stage.size()
}

// inUse returns the bytes from the start of the region to the end of its last part, a multiple of
// Align.
func (r RegionInfo) inUse() int64 {
	if len(r.Parts) == 0 {
		return 0
	}
	last := r.Parts[len(r.Parts)-1]
	return Round(last.Offset + last.Size)
}
