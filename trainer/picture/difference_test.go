package picture_test

import (
	"slices"
	"testing"

	"github.com/evenkeel/evenkeel/trainer/picture"
	"github.com/evenkeel/evenkeel/trainer/report"
)

func TestTheDifferenceAddsUp(t *testing.T) {
	t.Parallel()
	a, b := plan(t), plan(t)
	r := &b.Regions[len(b.Regions)-1]
	r.Size -= 4096
	b.Total -= 4096
	q := &b.Programs[0]
	q.Buffers, q.Offsets, q.Specs = slices.Clone(q.Buffers[1:]), q.Offsets[1:], nil // without x
	q.Live, q.Time = 0, 125
	for i, label := range map[int]string{9: "hidden/act again", 12: "out/act again", 13: "hidden/act again"} { // rounds may repeat it
		q.Passes[i], q.Labels[i] = report.Recompute, label
	}
	d := picture.Difference(a, b)
	var regionsA, regionsB, liveA, liveB int64
	for _, c := range d.Regions {
		regionsA, regionsB = regionsA+c.A, regionsB+c.B
	}
	for _, c := range d.Live {
		liveA, liveB = liveA+c.A, liveB+c.B
	}
	if regionsA != a.Total || regionsB != b.Total {
		t.Errorf("regions add up to %d and %d, want %d and %d", regionsA, regionsB, a.Total, b.Total)
	}
	peak := int64(0) // of b, by the definition
	for at := range int32(20) {
		var n int64
		for _, buf := range q.Buffers {
			if buf.Start <= at && at < buf.End {
				n += (buf.Size + 255) / 256 * 256
			}
		}
		peak = max(peak, n)
	}
	if liveA != a.Programs[0].Live || liveB != peak {
		t.Errorf("live bytes add up to %d and %d, want %d and %d", liveA, liveB, a.Programs[0].Live, peak)
	}
	if !slices.Equal(d.Recomputed, []string{"hidden/act", "out/act"}) || d.Time != 0.25 {
		t.Errorf("recomputed %q, time %v", d.Recomputed, d.Time)
	}
	for i := 1; i < len(d.Live); i++ {
		if x, y := d.Live[i-1], d.Live[i]; max(x.A-x.B, x.B-x.A) < max(y.A-y.B, y.B-y.A) {
			t.Errorf("%+v comes before %+v, which differs more", x, y)
		}
	}
	if len(d.Regions) != 5 || d.Regions[2].Name != "slot" || d.Regions[2].A != a.Category("slot") {
		t.Errorf("regions %+v, want both slots as one", d.Regions)
	}
	if d := picture.Difference(&report.Plan{}, b); len(d.Regions) != 5 || d.Regions[0].A != 0 || d.Time != 0 {
		t.Errorf("against no plan: %+v", d)
	}
}
