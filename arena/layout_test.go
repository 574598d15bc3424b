package arena_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/google/go-cmp/cmp"
)

func TestLayoutPlacesPartsInOrderOnMultiplesOf256(t *testing.T) {
	var l arena.Layout
	params, scratch, empty := l.Region("parameters"), l.Region("scratch"), l.Region("empty")
	got := []arena.Ref{
		l.Place(params, "hidden", "weight", 300),
		l.Place(params, "hidden", "bias", 0),
		l.Place(params, "out", "weight", 256),
		l.Place(params, "out", "bias", 1),
	}
	l.Reserve(scratch, 1000)
	l.Reserve(scratch, 10) // the longest counts
	want := []arena.Ref{{Size: 300}, {Offset: 512}, {Offset: 512, Size: 256}, {Offset: 768, Size: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places: %s", diff)
	}
	regions := []arena.RegionInfo{
		{Name: "parameters", Size: 1024, Bytes: 557, Parts: []arena.Part{
			{"hidden", "weight", 0, 300}, {"hidden", "bias", 512, 0}, {"out", "weight", 512, 256}, {"out", "bias", 768, 1}}},
		{Name: "scratch", Offset: 1024, Size: 1024},
		{Name: "empty", Offset: 2048},
	}
	if diff := cmp.Diff(regions, l.Regions()); diff != "" {
		t.Errorf("regions: %s", diff)
	}
	if l.Total() != 2048 || l.Base(scratch) != 1024 || l.Base(empty) != 2048 || l.Err() != nil {
		t.Errorf("got total %d, bases %d and %d, error %v", l.Total(), l.Base(scratch), l.Base(empty), l.Err())
	}
	l.Regions()[0].Parts[0].Size = 9
	if l.Regions()[0].Parts[0].Size != 300 {
		t.Error("the caller's copy of the regions is the layout's own")
	}
}

func TestPartsFillWhatIsReservedBeforeTheRegionGrows(t *testing.T) {
	var l arena.Layout
	r := l.Region("r")
	l.Reserve(r, 600)
	l.Place(r, "", "a", 500)
	if l.Total() != 768 {
		t.Errorf("got %d bytes, want 768", l.Total())
	}
	l.Place(r, "", "b", 257)
	if l.Total() != 1024 {
		t.Errorf("got %d bytes, want 1024", l.Total())
	}
}

func TestLayoutKeepsItsFirstError(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(l *arena.Layout, r arena.Region)
		want string
	}{
		"a negative size": {func(l *arena.Layout, r arena.Region) { l.Place(r, "layer", "culprit", -1) }, "layer/culprit"},
		"a size beyond the largest": {func(l *arena.Layout, r arena.Region) {
			l.Place(r, "", "culprit", math.MaxInt64-1)
		}, "culprit"},
		"sizes that overflow together": {func(l *arena.Layout, r arena.Region) {
			l.Place(r, "", "a", math.MaxInt64-1024)
			l.Place(r, "", "culprit", 1024)
		}, "culprit"},
		"regions that overflow together": {func(l *arena.Layout, r arena.Region) {
			l.Reserve(r, math.MaxInt64-1024)
			l.Place(l.Region("culprit"), "", "a", 1024)
		}, "culprit"},
		"a negative reservation":    {func(l *arena.Layout, r arena.Region) { l.Reserve(r, -1) }, "first"},
		"a region of another":       {func(l *arena.Layout, _ arena.Region) { l.Place(7, "", "culprit", 1) }, "culprit"},
		"a base of another":         {func(l *arena.Layout, _ arena.Region) { l.Base(-1) }, "-1"},
		"a reservation beyond that": {func(l *arena.Layout, r arena.Region) { l.Reserve(r, math.MaxInt64) }, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			var l arena.Layout
			c.do(&l, l.Region("first"))
			err := l.Err()
			if !errors.Is(err, arena.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error that names %s", err, c.want)
			}
			l.Place(0, "", "later", -2)
			if l.Err() != err {
				t.Errorf("a later error took its place: %v", l.Err())
			}
			if total := l.Total(); total < 0 || total%arena.Align != 0 {
				t.Errorf("total is %d", total)
			}
			if _, err := arena.New(new(fakeDevice), &l, 0); !errors.Is(err, arena.ErrInvalid) {
				t.Errorf("New returns %v", err)
			}
		})
	}
}
