package arena

import "context"

// Work returns how many buffers the portfolio and its repairs compare to place those of p.
func Work(p Problem) int64 {
	items, err := itemize(p)
	if err != nil {
		return 0
	}
	s := solver{ctx: context.Background(), effort: defaultEffort}
	s.target, _ = bound(items)
	if _, err := s.solve(items); err != nil {
		return 0
	}
	return s.scanned
}
