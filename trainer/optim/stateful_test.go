package optim_test

import (
	"testing"

	"github.com/evenkeel/evenkeel/trainer/optim"
)

// counting is a schedule with a state.
type counting struct{ n int }

func (c *counting) Rate(base float64, _ int64) float64 { return base }
func (c *counting) State() ([]byte, error)             { return []byte{byte(c.n)}, nil }
func (c *counting) SetState(s []byte) error            { c.n = int(s[0]); return nil }

// two is a schedule of two others, and one that nobody else sees.
type two struct {
	First, Second optim.Schedule
	hidden        optim.Schedule
}

func (t two) Rate(base float64, n int64) float64 { return t.hidden.Rate(base, n) }

func TestSchedulesWithAStateAreFound(t *testing.T) {
	a, b := &counting{1}, &counting{2}
	for _, c := range []struct {
		schedule optim.Schedule
		want     []optim.Stateful
	}{
		{nil, nil}, {optim.Constant{}, nil}, {optim.Warmup{Steps: 3}, nil}, {a, []optim.Stateful{a}},
		{optim.Warmup{Steps: 3, Then: a}, []optim.Stateful{a}},
		{optim.Warmup{Steps: 3, Then: two{b, optim.Warmup{Then: a}, a}}, []optim.Stateful{b, a}},
		{&two{nil, a, b}, []optim.Stateful{a}},
	} {
		got := optim.StatefulOf(c.schedule)
		if len(got) != len(c.want) {
			t.Errorf("%T: %d found, want %d", c.schedule, len(got), len(c.want))
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%T: schedule %d is another one", c.schedule, i)
			}
		}
	}
}
