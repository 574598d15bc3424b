package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
)

// All ranks compare the same introductions, so that they come to the same error.
func TestRanksThatCannotFormACommunicator(t *testing.T) {
	for _, c := range []struct {
		all  []introduction
		want string // "": none
	}{
		{[]introduction{{GPU: "a", Version: 22703}, {GPU: "b", Version: 22703}}, ""},
		{[]introduction{{GPU: "a", Version: 22703}, {GPU: "b", Version: 22703}, {GPU: "b", Version: 22703}}, "ranks 1 2: they share a GPU"},
		{[]introduction{{GPU: "a", Version: 22703}, {GPU: "b", Version: 21805}}, "rank 1: NCCL is 2.18.5, that of rank 0 2.27.3: use one version"},
		{[]introduction{{Error: "no library"}, {Error: "another"}}, "rank 0: no library"},
		{[]introduction{{GPU: "a"}, {GPU: "a", Error: "no library"}}, "rank 1: no library"},
	} {
		switch e := compareIntroductions(c.all); {
		case e == nil:
			if c.want != "" {
				t.Errorf("%+v: no error, want %q", c.all, c.want)
			}
		case c.want == "" || !strings.Contains(e.Error(), c.want) || !errors.Is(e, arena.ErrOption):
			t.Errorf("%+v: got %v, want %q", c.all, e, c.want)
		}
	}
}

// NCCL codes versions up to 2.8 in another way than later ones.
func TestNCCLVersions(t *testing.T) {
	for code, want := range map[int]string{2708: "2.7.8", 21400: "2.14.0", 22703: "2.27.3", 23203: "2.32.3"} {
		if got := ncclVersion(code); got != want {
			t.Errorf("%d is %s, want %s", code, got, want)
		}
	}
}
