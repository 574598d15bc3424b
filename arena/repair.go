package arena

import "slices"

// Limits of repair.
const (
	repairs   = 30 // attempts for each order and gap rule
	scanSteps = 4  // buffers that place compares in the time of one step of the search
)

// repair looks for a plan that meets the target by squeaky wheel optimization (Joslin and Clements,
// 1999): it places items in an order of the portfolio, moves the first item that ends above the
// target forward by a quarter of the distance to the front, and places all items again. It spends a
// quarter of the effort if the search may follow, else all.
func (s *solver) repair(best found) (found, error) {
	effort := s.effort
	if len(s.items) <= maxSearch {
		effort /= 4
	}
	from := s.scanned
	spent := func() int64 { return (s.scanned - from) / scanSteps }
	defer func() { s.effort -= min(s.effort, spent()) }()
	for _, o := range orders {
		for _, first := range []bool{false, true} {
			s.sort(o.keys)
			for range repairs {
				if spent() >= effort {
					return best, nil
				}
				if err := s.cancelled(); err != nil {
					return found{}, err
				}
				height, above := s.place(first, s.target+1)
				if above < 0 {
					copy(best.offsets, s.offsets)
					best.height, best.method, best.optimal = height, "repaired "+method(first, o.name), true
					return best, nil
				}
				i := s.order[above]
				s.order = slices.Insert(slices.Delete(s.order, above, above+1), max(0, above-1-above/4), i)
			}
		}
	}
	return best, nil
}
