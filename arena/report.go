package arena

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Stats counts an arena's bytes. In use are the parts of the layout and what Take gave out, each rounded up to
// Align: exact numbers, the same at the same point of every step of a program that keeps nothing.
type Stats struct {
	Reserved int64 // what New allocated; 0 after Close
	InUse    int64
	Peak     int64 // the most that was in use since New
	Pinned   int64 // host memory that New pinned, outside the block
	Regions  []RegionStats
}

// RegionStats counts a region's bytes.
type RegionStats struct {
	Name     string
	Reserved int64
	InUse    int64
	Peak     int64
	Step     uint64 // resets + 1
}

// Stats returns the counts of now.
func (a *Arena) Stats() Stats {
	if a == nil {
		return Stats{}
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := Stats{InUse: a.inUse, Peak: a.peak, Regions: make([]RegionStats, len(a.regions))}
	for i, r := range a.regions {
		u := &a.use[i]
		s.Regions[i] = RegionStats{Name: r.Name, InUse: u.used, Peak: u.peak, Step: u.step}
		if !a.closed {
			s.Regions[i].Reserved = r.Size
		}
		s.Reserved += s.Regions[i].Reserved
	}
	if !a.closed {
		s.Pinned = a.stage.size()
	}
	return s
}

// InUse returns Stats().InUse. It allocates nothing.
func (a *Arena) InUse() int64 {
	if a == nil {
		return 0
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.inUse
}

// Report says who has what: data, and by String a text for people.
type Report struct {
	Title   string
	Total   int64        // bytes of all regions
	Regions []RegionInfo // what Take gave out stands behind the parts of the layout
	Owners  []Owner      // largest first
}

// Owner is a layer and its bytes, payload without rounding.
type Owner struct {
	Name    string
	Bytes   int64
	Regions []int64 // its bytes by region
}

// Report says who has what in a layout, before anything is allocated.
func (l *Layout) Report() Report { return newReport("layout", l.Regions()) }

// Report says who has what in the arena now.
func (a *Arena) Report() Report {
	if a == nil || a.device == nil {
		return newReport("arena that was not made", nil)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	regions := slices.Clone(a.regions)
	for i := range regions {
		r := &regions[i]
		r.Parts = slices.Concat(r.Parts, a.use[i].takes)
		for _, p := range a.use[i].takes {
			r.Bytes += p.Size
		}
	}
	title := "arena on " + a.device.Name()
	if a.closed {
		title += ", closed"
	}
	return newReport(title, regions)
}

func newReport(title string, regions []RegionInfo) Report {
	rep := Report{Title: title, Regions: regions}
	index := map[string]int{}
	for i, r := range regions {
		rep.Total += r.Size
		for _, p := range r.Parts {
			k, ok := index[p.Owner]
			if !ok {
				k = len(rep.Owners)
				index[p.Owner] = k
				rep.Owners = append(rep.Owners, Owner{Name: p.Owner, Regions: make([]int64, len(regions))})
			}
			rep.Owners[k].Bytes += p.Size
			rep.Owners[k].Regions[i] += p.Size
		}
	}
	slices.SortStableFunc(rep.Owners, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return rep
}

// String draws a table of the regions and one of the owners, in bytes.
func (rep Report) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d bytes\n\n", rep.Title, rep.Total)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "region\toffset\treserved\tin parts\tparts\tshare\t")
	for _, r := range rep.Regions {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t\n", r.Name, r.Offset, r.Size, r.Bytes, len(r.Parts), share(r.Size, rep.Total))
	}
	w.Flush()
	if len(rep.Owners) == 0 {
		return out.String()
	}
	out.WriteByte('\n')
	// Columns of regions without parts would say nothing.
	var columns []int
	for i, r := range rep.Regions {
		if r.Bytes > 0 {
			columns = append(columns, i)
		}
	}
	fmt.Fprint(w, "owner\tbytes\t")
	for _, i := range columns {
		fmt.Fprintf(w, "%s\t", rep.Regions[i].Name)
	}
	fmt.Fprintln(w)
	for _, o := range rep.Owners {
		name := o.Name
		if name == "" {
			name = "(nobody's)"
		}
		fmt.Fprintf(w, "%s\t%d\t", name, o.Bytes)
		for _, i := range columns {
			fmt.Fprintf(w, "%d\t", o.Regions[i])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return out.String()
}

// share returns n of total in per cent.
func share(n, total int64) string {
	if total == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(total))
}
