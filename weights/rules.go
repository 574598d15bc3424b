package weights

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer"
)

// Rules say how the tensors of a file are named and shaped, by data that hold in both directions:
// what loads a file also saves one. The zero value is Evenkeel's own files, in which names and
// shapes are those of the parameters. [Torch] and [GPT2] return rules for files of PyTorch.
//
// Rules of your own go in front of others, since the first one that fits is used:
//
//	r := weights.Torch()
//	r.List = slices.Insert(r.List, 0, weights.Rule{Ours: "head/w", File: "classifier.1.weight", Transpose: true})
type Rules struct {
	List []Rule
	// Separator replaces "/" in the parts of names that wildcards match: "." in files of PyTorch.
	// Empty: "/".
	Separator string
	// Strip lists prefixes that names in a file may have and that mean nothing, such as "module.".
	// Rules are found with and without them.
	Strip []string
	// Scope is the part of the model that the file is for: the rules see names without the prefix
	// "Scope/", and other parameters have no rule. The scope may be a layer: then the names in the
	// file have no first part, as in "weight". Empty: the whole model.
	Scope string
}

// Rule maps a tensor of a file to a parameter or running statistic of a model.
//
// In Ours, "*" stands for any text and "#" for a number. Those of File, With and Without stand, in
// their order, for the same texts as those of Ours.
type Rule struct {
	Kind Kind
	Ours string // name of the parameter
	File string // name in the file
	With string // the rule holds only in models that have a parameter of this name too; empty: in all
	// Without: the rule holds only in models that have no parameter of this name; empty: in all.
	Without string
	Dims    int // the rule holds only for parameters of so many dimensions; 0: of any

	// Transpose exchanges the last two axes: a linear layer of PyTorch is [Out, In], ours [In,
	// Out].
	Transpose bool
	// The file's tensor is cut into Cut equal blocks along Axis, before it is transposed; the
	// parameter has the blocks Take, in this order. -1 stands for a block of zeros. Cut 0: the
	// whole tensor.
	Axis, Cut int
	Take      []int
}

// Kind is the role of a tensor in a file.
type Kind uint8

const (
	// Value tensors are the parameter, or a part of it. Of several rules that fit, the first one
	// whose tensor exists is used; a file is saved by the first one.
	Value Kind = iota
	// Add tensors are added to the parameter that the rule before loads: a second bias. Blocks that
	// the rule before takes are saved as zeros.
	Add
	// Same tensors repeat the parameter, as tied weights do. The tensor may be missing. Where both
	// exist their values must be equal.
	Same
	// Count tensors count steps. They are dropped, and saved as an int64 scalar 0.
	Count
	// Drop tensors are not needed. They are not saved. Ours is empty.
	Drop
)

// ErrRule is the class of errors about rules that contradict themselves.
var ErrRule = errors.New("bad rule")

// rule is a Rule that is ready for matching.
type rule struct {
	Rule
	ours *regexp.Regexp
	adds []rule // that follow it
}

// root is the first part of the names of a scope that is a layer, while they are matched.
const root = "\x00"

// ruleSet is a list of rules that are ready for matching the weights of a model.
type ruleSet struct {
	Rules
	names                map[string]bool // of the weights in Scope, within it
	values, same, counts []rule
	drops                []*regexp.Regexp
	strict               bool // shapes must be equal, also in axes of size 1
}

// wildcards are the captures of a pattern.
var wildcards = strings.NewReplacer(`\*`, `(.+)`, `#`, `(\d+)`)

// pattern compiles a name with wildcards.
func pattern(name string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s)\A` + wildcards.Replace(regexp.QuoteMeta(name)) + `\z`)
}

// prepare returns the rules ready for matching the weights of a model, or an error that lists all
// bad ones.
func (r Rules) prepare(weights []trainer.NamedSpec) (*ruleSet, error) {
	s := &ruleSet{Rules: r, names: make(map[string]bool)}
	if r.Separator == "" {
		s.Separator = "/"
	}
	if len(r.List) == 0 {
		s.List, s.strict = []Rule{{Ours: "*", File: "*"}}, true
	}
	var errs []error
	for i, x := range s.List {
		p, err := s.check(x)
		if err == nil && x.Kind == Add && len(s.values) == 0 {
			err = errors.New("no rule of kind Value before it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d, %q from %q: %w: %w", i, x.Ours, x.File, err, ErrRule))
			continue
		}
		switch done := (rule{Rule: x, ours: p}); x.Kind {
		case Value:
			s.values = append(s.values, done)
		case Add:
			last := &s.values[len(s.values)-1]
			last.adds = append(last.adds, done)
		case Same:
			s.same = append(s.same, done)
		case Count:
			s.counts = append(s.counts, done)
		case Drop:
			s.drops = append(s.drops, p)
		}
	}
	for _, w := range weights {
		if name, ok := s.scoped(w.Name); ok {
			s.names[name] = true
		}
	}
	if len(s.names) == 0 {
		errs = append(errs, fmt.Errorf("the model has no weight in the scope %q of the rules: %w", s.Scope, ErrRule))
	}
	return s, errors.Join(errs...)
}

// check compiles the pattern of a rule: of names in the file if it drops them, else of ours.
func (s *ruleSet) check(x Rule) (*regexp.Regexp, error) {
	of := x.Ours
	if x.Kind == Drop {
		of = s.bare(x.File)
	}
	p, err := pattern(of)
	known := strings.Count(x.Ours, "*") + strings.Count(x.Ours, "#")
	uses := func(name string) bool { return strings.Count(name, "*")+strings.Count(name, "#") <= known }
	taken := make(map[int]bool)
	for _, k := range x.Take {
		if k < -1 || k >= x.Cut || k >= 0 && taken[k] {
			return nil, fmt.Errorf("blocks Take %v of %d: each is below %d or -1, and none is twice", x.Take, x.Cut, x.Cut)
		}
		taken[k] = true
	}
	switch {
	case err != nil:
		return nil, err
	case x.Kind > Drop:
		return nil, fmt.Errorf("unknown kind %d", x.Kind)
	case x.Kind == Drop && x.Ours != "":
		return nil, errors.New("a rule that drops a tensor has no Ours")
	case of == "" || x.File == "":
		return nil, errors.New("a name is empty")
	case x.Kind != Drop && (!uses(x.File) || !uses(x.With) || !uses(x.Without)):
		return nil, errors.New("the names File, With and Without must not have more wildcards than Ours")
	case x.Cut < 0 || x.Axis < 0 || x.Dims < 0 || (x.Cut > 0) != (len(x.Take) > 0):
		return nil, errors.New("a rule with Cut needs Take, and Cut, Axis and Dims must not be negative")
	}
	return p, nil
}

// match returns the texts of the wildcards if the rule holds for a parameter. Its name is that within
// Scope.
func (s *ruleSet) match(x *rule, name string, dims int) ([]string, bool) {
	found := x.ours.FindStringSubmatch(name)
	if found == nil && s.Scope != "" && !strings.Contains(name, "/") {
		found = x.ours.FindStringSubmatch(root + "/" + name)
	}
	if found == nil || x.Dims > 0 && x.Dims != dims {
		return nil, false
	}
	exists := func(pattern string) bool { return s.names[strings.TrimPrefix(insert(pattern, found[1:]), root+"/")] }
	if x.With != "" && !exists(x.With) || x.Without != "" && exists(x.Without) {
		return nil, false
	}
	return found[1:], true
}

// insert replaces the wildcards of a name by texts.
func insert(name string, texts []string) string {
	var b strings.Builder
	for _, c := range name {
		if (c == '*' || c == '#') && len(texts) > 0 {
			b.WriteString(texts[0])
			texts = texts[1:]
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// fileName returns the name of a rule's tensor.
func (s *ruleSet) fileName(x *rule, texts []string) string {
	inFile := make([]string, len(texts))
	for i, t := range texts {
		inFile[i] = strings.ReplaceAll(t, "/", s.Separator)
	}
	return strings.TrimPrefix(insert(x.File, inFile), root+s.Separator)
}

// scoped returns a parameter's name within Scope.
func (s *ruleSet) scoped(name string) (string, bool) {
	if s.Scope == "" {
		return name, true
	}
	return strings.CutPrefix(name, s.Scope+"/")
}

// bare returns a name of the file without prefixes that mean nothing.
func (s *ruleSet) bare(name string) string {
	for again := true; again; {
		again = false
		for _, p := range s.Strip {
			if rest, ok := strings.CutPrefix(name, p); ok && rest != "" && p != "" {
				name, again = rest, true
			}
		}
	}
	return name
}

// dropped reports whether a rule drops the tensor of that name.
func (s *ruleSet) dropped(name string) bool {
	return slices.ContainsFunc(s.drops, func(p *regexp.Regexp) bool { return p.MatchString(s.bare(name)) })
}
