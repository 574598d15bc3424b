package onnx

import (
	"testing"

	"github.com/evenkeel/evenkeel/internal/onnxmodels"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
)

// TestEveryExportRuleHasAModel lists the rules that no model of the tests of export uses.
func TestEveryExportRuleHasAModel(t *testing.T) {
	used := map[*kernels.Op]bool{}
	for _, m := range onnxmodels.All() {
		f, err := trainer.NewForward(t.Context(), m.Build, 2, trainer.PredictorOptions{Fields: m.Fields})
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		for _, in := range f.Program.Instrs {
			used[in.Op] = true
		}
	}
	for op := range exportRules {
		if !used[op] {
			t.Errorf("no model uses %s: add one to internal/onnxmodels", op.Name)
		}
	}
}
