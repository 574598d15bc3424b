package weights

import "slices"

// Torch returns the rules of a state_dict of PyTorch, saved as safetensors, for a net whose layers
// have the names of the modules, with "/" for ".".
//
//	module                     tensors                             layer, parameters
//	Linear                     weight (transposed), bias           Dense: w, b
//	Conv1d, Conv2d             weight, bias                        Conv: w, b
//	BatchNorm                  weight, bias, running_mean,         BatchNorm: gamma, beta, mean,
//	                           running_var                         variance
//	LayerNorm, GroupNorm       weight, bias                        LayerNorm, GroupNorm: gamma, beta
//	Embedding                  weight                              Embedding: table
//	LSTM, layer k              weight_ih_lk, weight_hh_lk          LSTM called name/lk: wx, wh
//	  (both transposed)        bias_ih_lk + bias_hh_lk             b
//	GRU, layer k               the same; of bias_hh_lk the         GRU called name/lk: wx, wh, b, bn
//	                           last third is bn
//	MultiheadAttention         in_proj_weight, in_proj_bias,       Attention: in_proj/w, in_proj/b,
//	                           out_proj.weight, out_proj.bias      out_proj/w, out_proj/b; or Dense
//	                                                               called name/query, name/key and
//	                                                               name/value for thirds of in_proj
//	parameter or buffer        its name                            Param: its name
//
// The suffix _reverse of a recurrent layer is a layer name/lk/reverse. Of one layer, lk may be left
// out: name, and name/reverse. LSTMCell and GRUCell have the names without _lk. BatchNorm's
// num_batches_tracked is dropped, and saved as 0. Prefixes "module.", "_orig_mod." and "model." of
// names mean nothing. A linear layer that was saved by a convolution of size 1, or the other way,
// fits: axes of size 1 may be missing.
func Torch() Rules {
	return Rules{Separator: ".", Strip: []string{"module.", "_orig_mod.", "model."}, List: slices.Concat(
		recurrentRules(),
		attentionRules(),
		[]Rule{
			{Ours: "*/w", Dims: 2, File: "*.weight", Transpose: true},
			{Ours: "*/w", File: "*.weight"},
			{Ours: "*/b", File: "*.bias"},
			{Ours: "*/gamma", File: "*.weight"},
			{Ours: "*/beta", File: "*.bias"},
			{Ours: "*/mean", File: "*.running_mean"},
			{Ours: "*/variance", File: "*.running_var"},
			{Ours: "*/mean", File: "*.num_batches_tracked", Kind: Count},
			{Ours: "*/table", File: "*.weight"},
			{Ours: "*", File: "*"},
		})}
}

// recurrentRules are the rules of LSTM and GRU, and of their cells.
func recurrentRules() (all []Rule) {
	for _, x := range []struct{ ours, suffix string }{
		{"*/l#/reverse", "_l#_reverse"}, {"*/l#", "_l#"}, {"*/reverse", "_l0_reverse"}, {"*", "_l0"}, {"*", ""},
	} {
		ih, hh := "*.bias_ih"+x.suffix, "*.bias_hh"+x.suffix
		all = append(all,
			Rule{Ours: x.ours + "/wx", File: "*.weight_ih" + x.suffix, Transpose: true},
			Rule{Ours: x.ours + "/wh", File: "*.weight_hh" + x.suffix, Transpose: true},
			Rule{Ours: x.ours + "/bn", File: hh, Cut: 3, Take: []int{2}},
			Rule{Ours: x.ours + "/b", With: x.ours + "/bn", File: ih},
			Rule{Ours: x.ours + "/b", With: x.ours + "/bn", File: hh, Cut: 3, Take: []int{0, 1, -1}, Kind: Add},
			Rule{Ours: x.ours + "/b", With: x.ours + "/wx", File: ih},
			Rule{Ours: x.ours + "/b", With: x.ours + "/wx", File: hh, Kind: Add},
		)
	}
	return all
}

// attentionRules are the rules of MultiheadAttention: of one dense layer for queries, keys and
// values, or of three.
func attentionRules() []Rule {
	all := []Rule{
		{Ours: "*/in_proj/w", File: "*.in_proj_weight", Transpose: true},
		{Ours: "*/in_proj/b", File: "*.in_proj_bias"},
	}
	for k, name := range thirds {
		all = append(all,
			Rule{Ours: "*/" + name + "/w", With: "*/out_proj/w", File: "*.in_proj_weight", Cut: 3, Take: []int{k}, Transpose: true},
			Rule{Ours: "*/" + name + "/w", With: "*/out_proj/w", File: "*." + name[:1] + "_proj_weight", Transpose: true},
			Rule{Ours: "*/" + name + "/b", With: "*/out_proj/w", File: "*.in_proj_bias", Cut: 3, Take: []int{k}},
		)
	}
	return all
}

// thirds are the layers of an attention whose weights are one tensor in a file.
var thirds = []string{"query", "key", "value"}

// GPT2 returns the rules of Hugging Face's GPT-2, for a net whose layers have the names of its
// modules: "wte", "wpe", "h/0/ln_1", "h/0/attn", "h/0/ln_2", "h/0/mlp/c_fc", "h/0/mlp/c_proj", …,
// "ln_f". Its Conv1D has [In, Out], as Dense has, and is not transposed. "h/0/attn" is an
// Attention, or dense layers "h/0/attn/c_attn", or "query", "key" and "value", and
// "h/0/attn/c_proj".
//
// The output projection is the table of "wte", as in the file, where "lm_head.weight" is missing or
// repeats it. A net whose projection is not tied calls it "lm_head", and starts with that table.
// The prefix "transformer." may be missing. Other layers, such as a new head, follow [Torch].
func GPT2() Rules {
	block := "transformer.h.#."
	all := []Rule{
		{Ours: "wte/table", File: "transformer.wte.weight"},
		{Ours: "wte/table", Without: "lm_head/w", File: "lm_head.weight", Kind: Same},
		{Ours: "lm_head/w", File: "lm_head.weight", Transpose: true},
		{Ours: "lm_head/w", File: "transformer.wte.weight", Transpose: true},
		{Ours: "wpe/table", File: "transformer.wpe.weight"},
		{File: block + "attn.bias", Kind: Drop}, // masks of older files
		{File: block + "attn.masked_bias", Kind: Drop},
	}
	for _, x := range [][2]string{{"in_proj", "c_attn"}, {"out_proj", "c_proj"}} {
		all = append(all,
			Rule{Ours: "h/#/attn/" + x[0] + "/w", File: block + "attn." + x[1] + ".weight"},
			Rule{Ours: "h/#/attn/" + x[0] + "/b", File: block + "attn." + x[1] + ".bias"},
		)
	}
	for k, name := range thirds {
		all = append(all,
			Rule{Ours: "h/#/attn/" + name + "/w", File: block + "attn.c_attn.weight", Axis: 1, Cut: 3, Take: []int{k}},
			Rule{Ours: "h/#/attn/" + name + "/b", File: block + "attn.c_attn.bias", Cut: 3, Take: []int{k}},
		)
	}
	all = append(all,
		Rule{Ours: "h/#/*/w", File: block + "*.weight"},
		Rule{Ours: "h/#/*/b", File: block + "*.bias"},
		Rule{Ours: "h/#/*/gamma", File: block + "*.weight"},
		Rule{Ours: "h/#/*/beta", File: block + "*.bias"},
		Rule{Ours: "ln_f/gamma", File: "transformer.ln_f.weight"},
		Rule{Ours: "ln_f/beta", File: "transformer.ln_f.bias"},
	)
	r := Torch()
	r.List = append(all, r.List...)
	r.Strip = append(r.Strip, "transformer.")
	return r
}
