package weights

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/seed"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/weights/safetensors"
)

// shapesOf names tensors and shapes, sorted.
func shapesOf(p *savePlan) (all []string) {
	for _, o := range p.tensors {
		all = append(all, fmt.Sprint(o.tensor.Name, " ", o.tensor))
	}
	slices.Sort(all)
	return all
}

// modules are layers of ours and what PyTorch saves of the module of that name.
var modules = []struct {
	name  string
	rules func() Rules
	ours  []trainer.NamedSpec
	file  []string
}{
	{"linear", Torch, specs(spec("fc/w", 3, 5), spec("fc/b", 5)), []string{"fc.bias F32 [5]", "fc.weight F32 [5 3]"}},
	{"linear in modules", Torch, specs(spec("a/0/fc/w", 3, 5)), []string{"a.0.fc.weight F32 [5 3]"}},
	{"convolution", Torch, specs(spec("c/w", 6, 2, 3, 4), spec("c/b", 6)), []string{"c.bias F32 [6]", "c.weight F32 [6 2 3 4]"}},
	{"transposed convolution", Torch, specs(spec("up/w", 4, 6, 2, 2)), []string{"up.weight F32 [4 6 2 2]"}},
	{"batch norm", Torch, specs(spec("n/gamma", 4), spec("n/beta", 4), spec("n/mean", 4), spec("n/variance", 4)),
		[]string{"n.bias F32 [4]", "n.num_batches_tracked I64 []", "n.running_mean F32 [4]", "n.running_var F32 [4]", "n.weight F32 [4]"}},
	{"layer norm", Torch, specs(spec("n/gamma", 4), spec("n/beta", 4)), []string{"n.bias F32 [4]", "n.weight F32 [4]"}},
	{"embedding", Torch, specs(spec("e/table", 7, 3)), []string{"e.weight F32 [7 3]"}},
	{"parameter", Torch, specs(spec("vit/cls_token", 1, 1, 4)), []string{"vit.cls_token F32 [1 1 4]"}},
	{"lstm", Torch, specs(spec("l/wx", 3, 8), spec("l/wh", 2, 8), spec("l/b", 8)),
		[]string{"l.bias_hh_l0 F32 [8]", "l.bias_ih_l0 F32 [8]", "l.weight_hh_l0 F32 [8 2]", "l.weight_ih_l0 F32 [8 3]"}},
	{"lstm without biases", Torch, specs(spec("l/wx", 3, 8), spec("l/wh", 2, 8)), []string{"l.weight_hh_l0 F32 [8 2]", "l.weight_ih_l0 F32 [8 3]"}},
	{"gru of layers in both directions", Torch, specs(spec("l/l1/wx", 3, 6), spec("l/l1/wh", 2, 6), spec("l/l1/b", 6), spec("l/l1/bn", 2),
		spec("l/l1/reverse/wx", 3, 6), spec("l/l1/reverse/wh", 2, 6), spec("l/l1/reverse/b", 6), spec("l/l1/reverse/bn", 2)),
		[]string{"l.bias_hh_l1 F32 [6]", "l.bias_hh_l1_reverse F32 [6]", "l.bias_ih_l1 F32 [6]", "l.bias_ih_l1_reverse F32 [6]",
			"l.weight_hh_l1 F32 [6 2]", "l.weight_hh_l1_reverse F32 [6 2]", "l.weight_ih_l1 F32 [6 3]", "l.weight_ih_l1_reverse F32 [6 3]"}},
	{"attention of one layer", Torch, specs(spec("m/in_proj/w", 4, 12), spec("m/in_proj/b", 12), spec("m/out_proj/w", 4, 4), spec("m/out_proj/b", 4)),
		[]string{"m.in_proj_bias F32 [12]", "m.in_proj_weight F32 [12 4]", "m.out_proj.bias F32 [4]", "m.out_proj.weight F32 [4 4]"}},
	{"attention of three layers", Torch, specs(spec("m/query/w", 4, 4), spec("m/key/w", 4, 4), spec("m/value/w", 4, 4), spec("m/out_proj/w", 4, 4),
		spec("m/query/b", 4), spec("m/key/b", 4), spec("m/value/b", 4)),
		[]string{"m.in_proj_bias F32 [12]", "m.in_proj_weight F32 [12 4]", "m.out_proj.weight F32 [4 4]"}},
	{"attention of BERT", Torch, specs(spec("self/query/w", 4, 4), spec("self/key/w", 4, 4)), []string{"self.key.weight F32 [4 4]", "self.query.weight F32 [4 4]"}},
	{"gpt-2", GPT2, specs(spec("wte/table", 9, 4), spec("wpe/table", 8, 4), spec("h/0/attn/c_attn/w", 4, 12), spec("h/0/attn/c_attn/b", 12),
		spec("h/11/mlp/c_fc/w", 4, 16), spec("h/11/ln_2/gamma", 4), spec("ln_f/beta", 4), spec("score/w", 4, 2)),
		[]string{"lm_head.weight F32 [9 4]", "score.weight F32 [2 4]", "transformer.h.0.attn.c_attn.bias F32 [12]", "transformer.h.0.attn.c_attn.weight F32 [4 12]",
			"transformer.h.11.ln_2.weight F32 [4]", "transformer.h.11.mlp.c_fc.weight F32 [4 16]", "transformer.ln_f.bias F32 [4]",
			"transformer.wpe.weight F32 [8 4]", "transformer.wte.weight F32 [9 4]"}},
	{"gpt-2 of three layers, not tied", GPT2, specs(spec("wte/table", 9, 4), spec("lm_head/w", 4, 9), spec("h/3/attn/query/w", 4, 4),
		spec("h/3/attn/key/w", 4, 4), spec("h/3/attn/value/w", 4, 4), spec("h/3/attn/c_proj/w", 4, 4)),
		[]string{"lm_head.weight F32 [9 4]", "transformer.h.3.attn.c_attn.weight F32 [4 12]", "transformer.h.3.attn.c_proj.weight F32 [4 4]", "transformer.wte.weight F32 [9 4]"}},
}

// Names and shapes are PyTorch's, and what is saved is loaded again, bit for bit.
func TestModulesOfPyTorchAreSavedAndLoaded(t *testing.T) {
	r := seed.Rand(t, 44)
	for _, m := range modules {
		for _, scope := range []string{"", "trunk"} {
			rules, before := m.rules(), map[string]array{}
			rules.Scope = scope
			var ours []trainer.NamedSpec
			for _, p := range m.ours {
				if scope != "" {
					p.Name = scope + "/" + p.Name
				}
				ours = append(ours, p)
				before[p.Name] = drawn(r, p.Spec.Shape...)
			}
			if scope != "" {
				ours = append(ours, spec("head/w", 2, 2)) // outside
			}
			out, err := rules.planSave(ours, ours, "")
			if err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			if got := shapesOf(out); !slices.Equal(got, m.file) {
				t.Errorf("%s: saved %q, want %q", m.name, got, m.file)
			}
			file := stored(t, out, before)
			for _, prefix := range []string{"", "module.", "_orig_mod.module."} {
				prefixed := map[string]array{}
				for name, a := range file {
					if a.x != nil { // no counter: it is an integer
						prefixed[prefix+name] = a
					}
				}
				f := filed(t, safetensors.Float32, prefixed)
				if s := outcome(planned(t, rules, ours, f), f.Tensors()); len(s.dropped) > 0 || s.outside != len(scope)/len("trunk") {
					t.Fatalf("%s: %+v", m.name, s)
				}
				for name, a := range values(t, rules, ours, f) {
					if !slices.Equal(a.x, before[name].x) {
						t.Errorf("%s: %s is %v, was %v", m.name, name, a.x, before[name].x)
					}
				}
			}
		}
	}
}

func TestTheSecondBiasIsAddedExceptThatOfTheCandidateOfAGRU(t *testing.T) {
	vector := func(x ...float64) array { return array{[]int{len(x)}, x} }
	f := filed(t, safetensors.Float32, map[string]array{
		"r.weight_ih": {[]int{3, 1}, []float64{1, 2, 3}}, "r.weight_hh": {[]int{3, 1}, []float64{4, 5, 6}},
		"r.bias_ih": vector(1, 2, 3), "r.bias_hh": vector(10, 20, 30),
	})
	gru := specs(spec("r/wx", 1, 3), spec("r/wh", 1, 3), spec("r/b", 3), spec("r/bn", 1))
	got := values(t, Torch(), gru, f)
	if !slices.Equal(got["r/b"].x, []float64{11, 22, 3}) || !slices.Equal(got["r/bn"].x, []float64{30}) {
		t.Errorf("gru: %v", got)
	}
	if got := values(t, Torch(), gru[:3], f)["r/b"].x; // without bn it is an LSTM's bias
	!slices.Equal(got, []float64{11, 22, 33}) {
		t.Errorf("lstm: %v", got)
	}
	half := filed(t, safetensors.Float32, map[string]array{"r.weight_ih": {[]int{3, 1}, []float64{1, 2, 3}}, "r.bias_ih": vector(1, 2, 3)})
	p, err := Torch().planLoad(gru[:3], half.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	all := outcome(p, half.Tensors()).missing
	if missing := strings.Join(all, " "); len(all) != 2 || !strings.Contains(missing, "r/b (") || !strings.Contains(missing, "r.bias_hh") {
		t.Errorf("half of a bias: missing %q", all)
	}
}

func TestATiedProjectionMayBeMissingAndMustNotDiffer(t *testing.T) {
	table := array{[]int{3, 2}, []float64{1, 2, 3, 4, 5, 6}}
	other := array{[]int{3, 2}, []float64{1, 2, 3, 4, 5, 7}}
	tied, untied := specs(spec("wte/table", 3, 2)), specs(spec("wte/table", 3, 2), spec("lm_head/w", 2, 3))
	for _, c := range []struct {
		name   string
		file   map[string]array
		params []trainer.NamedSpec
		want   map[string][]float64 // nil: an error
	}{
		{"missing", map[string]array{"wte.weight": table}, tied, map[string][]float64{"wte/table": table.x}},
		{"equal", map[string]array{"transformer.wte.weight": table, "lm_head.weight": table}, tied, map[string][]float64{"wte/table": table.x}},
		{"the table missing", map[string]array{"lm_head.weight": table}, tied, map[string][]float64{"wte/table": table.x}},
		{"different", map[string]array{"transformer.wte.weight": table, "lm_head.weight": other}, tied, nil},
		{"different and not tied", map[string]array{"transformer.wte.weight": table, "lm_head.weight": other}, untied,
			map[string][]float64{"wte/table": table.x, "lm_head/w": {1, 3, 5, 2, 4, 7}}},
		{"missing and not tied", map[string]array{"wte.weight": table}, untied, map[string][]float64{"wte/table": table.x, "lm_head/w": {1, 3, 5, 2, 4, 6}}},
	} {
		f := filed(t, safetensors.Float32, c.file)
		all, err := loaded(t, planned(t, GPT2(), c.params, f), f)
		if c.want == nil {
			if !errors.Is(err, trainer.ErrData) || !strings.Contains(err.Error(), `"transformer.wte.weight" and "lm_head.weight" differ`) {
				t.Errorf("%s: got %v", c.name, err)
			}
			continue
		}
		for name, want := range c.want {
			if err != nil || !slices.Equal(all[name].x, want) {
				t.Errorf("%s: %s is %v, want %v: %v", c.name, name, all[name].x, want, err)
			}
		}
	}
}

func TestWhatFilesHaveBesidesIsDroppedOrLeft(t *testing.T) {
	scalar := array{[]int{}, []float64{5}}
	f := filed(t, safetensors.Float32, map[string]array{
		"module.n.running_mean": {[]int{2}, []float64{1, 2}}, "module.n.num_batches_tracked": scalar, "module.other.num_batches_tracked": scalar,
	})
	p, err := Torch().planLoad(specs(spec("n/mean", 2)), f.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	s := outcome(p, f.Tensors())
	if !slices.Equal(s.dropped, []string{"module.n.num_batches_tracked"}) || !slices.Equal(s.left, []string{"module.other.num_batches_tracked"}) {
		t.Errorf("%+v", s)
	}
	f = filed(t, safetensors.Float32, map[string]array{"h.0.attn.bias": scalar, "transformer.h.1.attn.masked_bias": scalar, "h.0.attn.c_attn.bias": {[]int{3}, []float64{1, 2, 3}}})
	if s := outcome(planned(t, GPT2(), specs(spec("h/0/attn/c_attn/b", 3)), f), f.Tensors()); len(s.dropped) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestTensorsThatDoNotFitAreListedWithBothShapes(t *testing.T) {
	f := filed(t, safetensors.Float32, map[string]array{
		"a.weight": {[]int{3, 4}, make([]float64, 12)}, "b.in_proj_weight": {[]int{7, 2}, make([]float64, 14)},
		"module.c.bias": {[]int{1}, []float64{1}}, "model.c.bias": {[]int{1}, []float64{1}},
	})
	p, err := Torch().planLoad(specs(spec("a/w", 3, 4), spec("b/in_proj/w", 2, 6), spec("c/b", 1), spec("d/w", 1, 1)), f.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	want := []trainer.Mismatch{
		{Name: "a/w", Want: "F32 [4 3]", Got: "a.weight F32 [3 4]"},
		{Name: "b/in_proj/w", Want: "F32 [6 2]", Got: "b.in_proj_weight F32 [7 2]"},
		{Name: "c/b", Want: "one tensor c.bias", Got: `["model.c.bias" "module.c.bias"]`},
	}
	if s := outcome(p, f.Tensors()); !slices.Equal(s.bad, want) || len(s.left) > 0 || !slices.Equal(s.missing, []string{"d/w (d.weight, d.w)"}) {
		t.Errorf("got %+v", s)
	}
	f = filed(t, safetensors.Float16, map[string]array{"x": {[]int{2}, []float64{1, 2}}})
	for want, rule := range map[string]Rule{
		"it has no 2 equal blocks along axis 0": {Ours: "p", File: "x", Cut: 3, Take: []int{0, 1}},
		"it has no 1 equal blocks along axis 1": {Ours: "p", File: "x", Axis: 1, Cut: 3, Take: []int{0}},
		"of 1 dimensions cannot be transposed":  {Ours: "p", File: "x", Transpose: true},
	} {
		one := filed(t, safetensors.Float32, map[string]array{"x": {[]int{5}, make([]float64, 5)}})
		p, err := Rules{List: []Rule{rule}}.planLoad(specs(spec("p", 5)), one.Tensors())
		if err != nil || len(p.recipes[0].bad) != 1 || !strings.Contains(p.recipes[0].bad[0].Want, want) {
			t.Errorf("want %q, got %v, %+v", want, err, p.recipes[0].bad)
		}
		if _, err := (Rules{List: []Rule{rule}}).planSave(specs(spec("p", 5)), specs(spec("p", 5)), ""); !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), want) {
			t.Errorf("save: want %q, got %v", want, err)
		}
	}
	integers := spec("x", 2)
	integers.Spec.Type = arena.Int32
	if p, err = (Rules{}).planLoad(specs(integers), f.Tensors()); err != nil || len(p.recipes[0].bad) != 1 || p.recipes[0].bad[0].Want != "I32 [2]" {
		t.Errorf("halves as integers: %v, %+v", err, p)
	}
}

func TestRulesThatContradictThemselvesAreErrors(t *testing.T) {
	block := Rule{Ours: "*/w", File: "*.w", Cut: 3, Take: []int{1}}
	bad := map[string]Rule{
		"wildcards":     {Ours: "*/w", File: "*.*"},
		"wildcards of":  {Ours: "*/w", File: "*.w", With: "*/#"},
		"Take [3]":      {Ours: "*/w", File: "*.w", Cut: 3, Take: []int{3}},
		"Take [1 1]":    {Ours: "*/w", File: "*.w", Cut: 3, Take: []int{1, 1}},
		"Cut needs":     {Ours: "*/w", File: "*.w", Cut: 3},
		"name is empty": {File: "*.w"},
		"has no Ours":   {Kind: Drop, Ours: "x", File: "*.w"},
		"unknown kind":  {Kind: 9, Ours: "x", File: "y"},
	}
	var all []Rule
	for _, want := range slices.Sorted(maps.Keys(bad)) {
		all = append(all, bad[want])
		_, err := Rules{List: []Rule{bad[want]}}.planLoad(specs(spec("p")), nil)
		if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), strings.TrimSuffix(want, " of")) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if _, err := (Rules{List: all}).planLoad(specs(spec("p")), nil); strings.Count(err.Error(), ErrRule.Error()) != len(all) {
		t.Errorf("%d bad rules: %v", len(all), err)
	}
	if _, err := (Rules{List: []Rule{{Kind: Add, Ours: "a", File: "b"}}}).planLoad(specs(spec("p")), nil); !errors.Is(err, ErrRule) {
		t.Errorf("an addition to nothing: %v", err)
	}
	both := specs(spec("a/w", 6, 2), spec("b/w", 6, 2))
	for want, rules := range map[string][]Rule{
		"block 0 of 3":   {block},
		"both it":        {{Ours: "a/w", File: "t"}, {Ours: "b/w", File: "t"}},
		"are both it":    {{Ours: "a/w", File: "t", Cut: 1, Take: []int{0}}, {Ours: "b/w", File: "t"}},
		"of weights":     {{Ours: "a/w", File: "t", Cut: 1, Take: []int{0}}, {Ours: "b/w", File: "t", Cut: 1, Take: []int{0}}},
		"no rule names":  {{Ours: "a/w", File: "t"}},
		"another weight": {{Ours: "a/w", File: "t", Transpose: true}, {Ours: "b/w", File: "t"}},
	} {
		_, err := Rules{List: rules}.planSave(both, both, "")
		if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestFloatsAreSavedInOtherTypes(t *testing.T) {
	p := specs(spec("fc/w", 2, 2))
	before := map[string]array{"fc/w": {[]int{2, 2}, []float64{1, 1.0 / 3, -65504, 65519}}}
	for as, want := range map[safetensors.DType][]float64{ // the file's is transposed
		safetensors.Float64:  {1, -65504, float64(float32(1.0 / 3)), 65519},
		safetensors.BFloat16: {1, -65536, 0.333984375, 65536},
		safetensors.Float16:  {1, -65504, 0.333251953125, 65504},
	} {
		out, err := Torch().planSave(p, p, as)
		if err != nil {
			t.Fatal(err)
		}
		if got := stored(t, out, before)["fc.weight"].x; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", as, got, want)
		}
	}
}

// A state_dict of one module has no first part in its names.
func TestAScopeMayBeALayer(t *testing.T) {
	r := Torch()
	r.Scope = "trunk/fc"
	fc := specs(spec("trunk/fc/w", 2, 3), spec("trunk/fc/b", 3), spec("head/w", 3, 1))
	f := filed(t, safetensors.Float32, map[string]array{"weight": {[]int{3, 2}, []float64{1, 2, 3, 4, 5, 6}}, "bias": {[]int{3}, []float64{7, 8, 9}}})
	got := values(t, r, fc, f)
	if len(got) != 2 || !slices.Equal(got["trunk/fc/w"].x, []float64{1, 3, 5, 2, 4, 6}) || !slices.Equal(got["trunk/fc/b"].x, []float64{7, 8, 9}) {
		t.Errorf("linear: %v", got)
	}
	out, err := r.planSave(fc, fc, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := shapesOf(out); !slices.Equal(got, []string{"bias F32 [3]", "weight F32 [3 2]"}) {
		t.Errorf("saved %q", got)
	}
	r.Scope = "rnn"
	rnn := specs(spec("rnn/wx", 1, 3), spec("rnn/wh", 1, 3), spec("rnn/b", 3), spec("rnn/bn", 1))
	if out, err = r.planSave(rnn, rnn, ""); err != nil {
		t.Fatal(err)
	}
	want := []string{"bias_hh_l0 F32 [3]", "bias_ih_l0 F32 [3]", "weight_hh_l0 F32 [3 1]", "weight_ih_l0 F32 [3 1]"}
	if got := shapesOf(out); !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
	whole := specs(spec("w", 2)) // a parameter of the whole model keeps its name
	if out, err = Torch().planSave(whole, whole, ""); err != nil || !slices.Equal(shapesOf(out), []string{"w F32 [2]"}) {
		t.Errorf("saved %q, %v", shapesOf(out), err)
	}
}

// Keys and values of other sizes than queries have tensors of their own.
func TestAttentionOverOtherFeaturesHasThreeTensors(t *testing.T) {
	ours := specs(spec("m/query/w", 2, 2), spec("m/key/w", 3, 2), spec("m/value/w", 1, 2), spec("m/out_proj/w", 2, 2))
	f := filed(t, safetensors.Float32, map[string]array{"m.q_proj_weight": {[]int{2, 2}, make([]float64, 4)}, "m.k_proj_weight": {[]int{2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		"m.v_proj_weight": {[]int{2, 1}, []float64{1, 2}}, "m.out_proj.weight": {[]int{2, 2}, make([]float64, 4)}})
	if got := values(t, Torch(), ours, f)["m/key/w"].x; !slices.Equal(got, []float64{1, 4, 2, 5, 3, 6}) {
		t.Errorf("keys %v", got)
	}
}

func TestAScopeThatTheModelLacksIsAnError(t *testing.T) {
	r := Torch()
	r.Scope = "trnk"
	for name, err := range map[string]error{
		"load": func() error { _, err := r.planLoad(specs(spec("trunk/w", 2)), nil); return err }(),
		"save": func() error { _, err := r.planSave(specs(spec("trunk/w", 2)), nil, ""); return err }(),
	} {
		if !errors.Is(err, ErrRule) || !strings.Contains(err.Error(), `"trnk"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Names in a file are anything.
func TestOddNamesInAFileAreLeftOver(t *testing.T) {
	one := array{[]int{1}, []float64{1}}
	odd := []string{"", "\x00", "*", "#.weight", "*.weight", "module.", "module.module.", strings.Repeat("module.", 1<<16) + "x", "a/b", "../../fc.weight", "\x00.weight", "fc..weight"}
	file := map[string]array{}
	for _, name := range odd {
		file[name] = one
	}
	file["fc.weight"] = array{[]int{1, 1}, []float64{2}}
	for _, r := range []Rules{Torch(), GPT2()} {
		f := filed(t, safetensors.Float32, file)
		p, err := r.planLoad(specs(spec("fc/w", 1, 1)), f.Tensors())
		if err != nil {
			t.Fatal(err)
		}
		if s := outcome(p, f.Tensors()); len(s.left) != len(odd) || len(s.bad)+len(s.missing) > 0 {
			t.Errorf("left %d of %d: %+v", len(s.left), len(odd), s.bad)
		}
	}
}
