package trainer

import "testing"

func TestLargestIsTheLargestThatFitsInFewTrials(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		base, each, limit int
		most, want        int
		trials            int // at most
	}{
		{"5 and 7 a sample in 100", 5, 7, 100, 1 << 20, 13, 7},
		{"8 fits, 16 does not", 0, 1, 15, 16, 15, 7},
		{"all fit", 0, 1, 1 << 30, 50, 50, 11},
		{"only one", 90, 7, 100, 1000, 1, 1},
		{"no more is asked for", 0, 1, 10, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			trials := 0
			got, err := largest(1, c.most, func(n int) (bool, error) {
				trials++
				return c.base+c.each*n <= c.limit, nil
			})
			if err != nil || got != c.want || trials > c.trials {
				t.Errorf("got %d in %d trials, %v; want %d in at most %d", got, trials, err, c.want, c.trials)
			}
		})
	}
}
