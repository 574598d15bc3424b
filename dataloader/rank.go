package dataloader

import "fmt"

// checkRanks returns every mistake in the options of ranks.
func (o Options) checkRanks() error {
	if o.Ranks < 0 || o.Ranks > MaxRanks {
		return fmt.Errorf("ranks %d: must be 0 (default: 1) to %d: %w", o.Ranks, MaxRanks, ErrOption)
	}
	if o.Rank < 0 || o.Rank >= max(1, o.Ranks) {
		return fmt.Errorf("rank %d of %d: must be 0 to %d: %w", o.Rank, max(1, o.Ranks), max(1, o.Ranks)-1, ErrOption)
	}
	return nil
}

// MaxRanks is the largest Options.Ranks. New refuses more, which would be a mistake.
const MaxRanks = 1 << 20

// cut is the division of the positions of an epoch into batches. Step s has the positions from
// s·batch·ranks on, up to batch·ranks of them: the global batch. It is cut into one part for each
// rank, in the order of ranks; where it does not divide evenly, the first ranks have one more.
//
//	10 positions, batch 2, 2 ranks:   step 0 │ 0 1 │ 2 3 │   step 1 │ 4 5 │ 6 7 │   step 2 │ 8 │ 9 │
type cut struct {
	positions   int // of the epoch
	batch       int // rows of a rank
	rank, ranks int
}

// global returns the rows of the largest global batch. It does not overflow: New checks it.
func (c *cut) global() int { return c.batch * c.ranks }

// steps returns the number of global batches.
func (c *cut) steps(tail Tail) int {
	n := c.positions / c.global()
	if tail == KeepTail && c.positions%c.global() != 0 {
		n++
	}
	return n
}

// rows returns the first position and the number of rows of this rank in a step. In the last step
// there may be none.
func (c *cut) rows(step int) (first, rows int) {
	first = step * c.global()
	all := min(c.global(), c.positions-first)
	each, more := all/c.ranks, all%c.ranks
	first += each*c.rank + min(c.rank, more)
	if c.rank < more {
		each++
	}
	return first, each
}

// before returns how many of the positions before one are this rank's.
func (c *cut) before(position int) int {
	position = min(position, c.positions)
	step := max(0, position-1) / c.global()
	first, rows := c.rows(step)
	return step*c.batch + min(max(0, position-first), rows)
}
