package run

import (
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/group"
)

func TestRanksOfAHostHavePlacesInTheirOrder(t *testing.T) {
	groups, err := group.Local(3, group.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			if n, err := placeOnHost(t.Context(), g); err != nil || n != g.Rank() {
				t.Errorf("rank %d: place %d, %v", g.Rank(), n, err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
