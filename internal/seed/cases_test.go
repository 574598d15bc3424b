package seed

import "testing"

func TestAllCasesAreComputedOnlyIfTheEnvironmentSaysSo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "few": false, "all": true} {
		if got := readCases(text); got != want {
			t.Errorf("%q: all %v, want %v", text, got, want)
		}
	}
	if got, want := Cases(1, 2) == 2, all; got != want {
		t.Errorf("many %v, want %v", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("another word is accepted")
		}
	}()
	readCases("full")
}
