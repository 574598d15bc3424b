package seed

import "testing"

func TestTheSeedIsFixedUnlessTheEnvironmentSetsIt(t *testing.T) {
	t.Parallel()
	if got := read(""); got != 1 {
		t.Errorf("not set: seed %d, want 1", got)
	}
	if got := read("18446744073709551615"); got != 1<<64-1 {
		t.Errorf("a number: seed %d", got)
	}
	if a, b := read("random"), read("random"); a == b {
		t.Errorf("random: seed %d twice", a)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic for a seed that is no number")
		}
	}()
	read("many")
}

func TestStreamsAreIndependentAndRepeat(t *testing.T) {
	t.Parallel()
	a := Rand(t, 1).Uint64()
	if b := Rand(t, 2).Uint64(); a == b {
		t.Errorf("two streams begin with %d", a)
	}
	if b := Rand(t, 1).Uint64(); a != b {
		t.Errorf("stream 1 begins with %d, then with %d", a, b)
	}
}
