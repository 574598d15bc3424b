package run

import "testing"

func TestTheRateOfAnExampleIsForItsOwnOptimizer(t *testing.T) {
	for _, c := range []struct {
		args []string
		want float64
	}{
		{nil, 0.003},
		{[]string{"-optimizer", "sgd"}, 0},
		{[]string{"-optimizer", "sgd", "-rate", "0.1"}, 0.1},
		{[]string{"-rate", "0.2"}, 0.2},
	} {
		f := Flags{Optimizer: "adam", Rate: 0.003}
		if err := f.Parse("example", c.args); err != nil || f.Rate != c.want {
			t.Errorf("%v: rate %v, %v, want %v", c.args, f.Rate, err, c.want)
		}
	}
}
