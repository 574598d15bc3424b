package report_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evenkeel/evenkeel/trainer/report"
)

func TestGroupsAreATableAndData(t *testing.T) {
	p := report.Plan{Groups: report.Groups{
		{Objective: "critic", Match: []string{"a/*", "b"}, Parameters: 3, Elements: 1234567, Optimizer: "AdamW", Rate: 0.002, Decay: 0.01, Controls: 72},
		{Parameters: 1, Elements: 8, Frozen: true},
	}}
	want := []string{
		"group           optimizer  parameters   elements   rate  decay  controls",
		strings.Repeat("─", 72),
		"critic: a/*, b  AdamW               3  1,234,567  0.002   0.01        72",
		"all others      frozen              1          8      -      -         0", "",
	}
	if got := p.Groups.String(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if !strings.Contains(p.String(), "\n\n"+p.Groups.String()) {
		t.Errorf("no table in\n%s", p)
	}
	var b bytes.Buffer
	if err := p.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct{ Groups []map[string]any }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	data := map[string]any{"objective": "critic", "match": []any{"a/*", "b"}, "parameters": 3.0, "elements": 1234567.0, "optimizer": "AdamW",
		"rate": 0.002, "decay": 0.01, "controls_bytes": 72.0, "frozen": false}
	if len(got.Groups) != 2 || !reflect.DeepEqual(got.Groups[0], data) || got.Groups[1]["frozen"] != true {
		t.Errorf("got %v, want %v first", got.Groups, data)
	}
	p.Groups[0].Match = []string{strings.Repeat("encoder/", 30)}
	for _, line := range strings.Split(p.Groups.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
