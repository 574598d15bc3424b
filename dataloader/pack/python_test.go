package pack_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/pack"
	"github.com/evenkeel/evenkeel/internal/page"
	"github.com/evenkeel/evenkeel/internal/peer/python"
)

// The lines of Python in docs/data.md read a pack. EVENKEEL_PYTHON names a Python that has NumPy.
func TestPythonReadsAPack(t *testing.T) {
	_, script, _ := strings.Cut(page.Read(t, "docs/data.md"), "```python\n")
	script, _, found := strings.Cut(script, "```\n")
	if !found {
		t.Fatal("docs/data.md has no lines of Python")
	}
	peer := os.Getenv("EVENKEEL_PYTHON")
	if peer == "" {
		peer = "python3"
	}
	if err := exec.Command(peer, "-c", "import numpy").Run(); err != nil {
		t.Skip("needs a Python with NumPy, named by EVENKEEL_PYTHON: ", err)
	}
	ds := &made{n: 30, failing: -1, fields: []dataloader.Field{{Name: "a", Type: arena.Uint8, Shape: []int{3}}, {Name: "b", Type: arena.Int64},
		{Name: "c", Type: arena.Int32, Shape: []int{2, 2}}, {Name: "jpg", Type: arena.Uint8, Shape: []int{3}}, {Name: "d", Type: arena.Uint8}}}
	p := write(t, ds, pack.WriteOptions{Encoded: []string{"jpg"}})
	out, err := python.Run(t.Context(), peer, script+`
import sys
r = read(sys.argv[1])
for i in range(len(r)):
    at, n = r["jpg"][i]["offset"], r["jpg"][i]["bytes"]
    print(list(r["a"][i]), r["b"][i], [list(x) for x in r["c"][i]], r["d"][i], sum(open(sys.argv[1], "rb").read()[at:at+n]))
`, nil, p)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 30 {
		s := fetch(t, ds, dataloader.At{Index: i})
		c, sum := dataloader.View[int32](s[2]), 0
		for _, b := range valueOf(i, 3) {
			sum += int(b)
		}
		fmt.Fprintf(&want, "[%d, %d, %d] %d [[%d, %d], [%d, %d]] %d %d\n", s[0][0], s[0][1], s[0][2], dataloader.View[int64](s[1])[0], c[0], c[1], c[2], c[3], s[4][0], sum)
	}
	if got := string(out); clean(got) != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, &want)
	}
}

// clean removes the types that newer versions of NumPy print.
func clean(s string) string {
	for _, name := range []string{"uint8", "int32", "int64"} {
		s = strings.ReplaceAll(s, "np."+name+"(", "(")
	}
	return strings.NewReplacer("(", "", ")", "").Replace(s)
}
