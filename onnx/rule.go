package onnx

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/onnx/internal/proto"
)

// A ruleFunc imports a node: it adds the operations that compute it and returns its results. It
// ends by refuse, mismatch or badAttribute where it cannot.
type ruleFunc func(c *call) []*value

// A rule imports nodes of an operator from a version of the operator set on.
type rule struct {
	since  int64
	apply  ruleFunc // nil: only constants are known
	fold   ruleFunc // of constants; nil: apply, evaluated
	shapes ruleFunc // needs no elements of operands, only their shapes; excludes the others
}

// newestOpset is the newest version of ONNX's operators that the rules are written for.
const newestOpset = 28

// rules maps operators to their rules, the oldest first. The rule with the largest version that is
// not above that of the model is used. Each family has a file of its own.
var rules = func() map[string][]rule {
	all := make(map[string][]rule)
	for _, family := range []map[string][]rule{foldRules, elementwiseRules, activationRules, logicRules, moveRules, indexRules, matrixRules, reduceRules,
		normRules, windowRules, resizeRules, recurrentRules, attentionRules, lossRules, scatterRules, specialRules, tapRules, gridRules} {
		for op, list := range family {
			if all[op] != nil {
				panic("onnx: operator " + op + " has rules in two families") // a bug of this package
			}
			all[op] = list
		}
	}
	return all
}()

// always is the list of a rule that holds for every version.
func always(f ruleFunc) []rule { return []rule{{since: 1, apply: f}} }

// rule returns the rule of a node, or an error that says that there is none.
func (b *inference) rule(n *proto.Node) (*rule, error) {
	for _, a := range n.Attributes {
		if a.Other || a.Ref != "" {
			return nil, fmt.Errorf("attribute %q is a graph or is of a function: %w", a.Name, kernels.ErrUnsupported)
		}
	}
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return nil, fmt.Errorf("only operators of ONNX's own domain are known: %w", kernels.ErrUnsupported)
	}
	if n.Op == "Identity" {
		return &rule{}, nil
	}
	list := rules[n.Op]
	if list == nil {
		return nil, fmt.Errorf("no rule for this operator: %w", kernels.ErrUnsupported)
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].since <= b.m.opset {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("known from opset %d on, the model has %d: %w", list[0].since, b.m.opset, kernels.ErrUnsupported)
}
