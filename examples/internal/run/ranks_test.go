package run

import (
	"fmt"
	"io"
	"path/filepath"
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

// With -resume the other ranks open the folder after the first one has made it.
func TestRanksResumeFromAFolderThatIsMade(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := line.Run(t.Context(), []string{"-epochs", "1", "-ranks", "3", "-checkpoint", dir, "-resume"}, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if err := line.Run(t.Context(), []string{"-epochs", "1", "-ranks", "3", "-checkpoint", "/dev/null", "-resume"}, io.Discard); err == nil {
		t.Error("a folder that cannot be made is no error")
	}
}
