package seed

import "testing"

func TestTheSeedIsFixedUnlessTheEnvironmentSaysOtherwise(t *testing.T) {
	draw := func(value string) uint64 {
		t.Setenv(Variable, value)
		return Random(t).Uint64()
	}
	if draw("") != draw("") || draw("") != draw("1") {
		t.Error("numbers without a seed change")
	}
	if draw("42") != draw("42") || draw("42") == draw("") {
		t.Error("a seed does not fix the numbers, or they are those of every seed")
	}
	if draw("random") == draw("") {
		t.Error("a random seed has the fixed numbers")
	}
	if draw("random") != draw("random") {
		t.Error("a process has two random seeds")
	}
	if _, err := parse("many"); err == nil {
		t.Error("a word is taken for a seed")
	}
	other := uint64(0)
	t.Run("another name", func(t *testing.T) { other = Random(t).Uint64() })
	if other == draw("random") {
		t.Error("tests of two names draw the same")
	}
}
