package layers_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// line returns the number of the line of its caller.
func line() int {
	_, _, n, _ := runtime.Caller(1)
	return n
}

func TestSourcesAreTheLinesOfTheModel(t *testing.T) {
	t.Parallel()
	var helper, call, x, sum int
	block := func(net *layers.Net, h *gorgonia.Node) *gorgonia.Node {
		helper = line() + 1
		return net.Dense(h, "dense", 4, layers.ReLU)
	}
	model := func(g *gorgonia.ExprGraph, batch int) (layers.Model, error) {
		net := layers.New(g)
		x = line() + 1
		in := net.Input("x", batch, 3)
		call = line() + 1
		h := block(net.Scope("block"), in)
		sum = line() + 1
		h = net.Add(h, h, "")
		return net.Classifier(in, h)
	}
	lines, err := layers.Sources(model, 2)
	if err != nil {
		t.Fatal(err)
	}
	at := func(numbers ...int) (all string) {
		for _, n := range numbers {
			all += fmt.Sprintf(" layers/sources_test.go:%d", n)
		}
		return all
	}
	unnamed := ""
	for name := range lines {
		if strings.HasPrefix(name, "add ") {
			unnamed = name
		}
	}
	for name, want := range map[string]string{
		"x": at(x), "block/dense/w": at(helper, call), "block/dense/act": at(helper, call), unnamed: at(sum),
	} {
		if got := " " + strings.Join(lines[name], " "); got != want {
			t.Errorf("%q: lines%s, want%s", name, got, want)
		}
	}
	// Names are the same without the recording.
	g := gorgonia.NewGraph()
	if _, err := model(g, 2); err != nil || unnamed == "" || len(g.ByName(unnamed)) != 1 {
		t.Errorf("%v: a graph whose lines are not recorded has no node %q", err, unnamed)
	}
}

func TestSourcesReturnTheErrorOfTheModel(t *testing.T) {
	t.Parallel()
	failed := errors.New("no such model")
	for name, c := range map[string]struct {
		model func(*gorgonia.ExprGraph, int) (layers.Model, error)
		is    error
	}{
		"none":  {nil, layers.ErrNode},
		"error": {func(*gorgonia.ExprGraph, int) (layers.Model, error) { return layers.Model{}, failed }, failed},
		"net": {func(g *gorgonia.ExprGraph, _ int) (layers.Model, error) {
			layers.New(g).Input("", 1)
			return layers.Model{}, nil
		}, layers.ErrName},
		"panic": {func(g *gorgonia.ExprGraph, _ int) (layers.Model, error) {
			x := layers.New(g).Input("", 1) // nil
			return layers.Model{Output: gorgonia.Must(gorgonia.Square(x))}, nil
		}, layers.ErrName},
		"panic of its own": {func(*gorgonia.ExprGraph, int) (layers.Model, error) { panic("broken") }, layers.ErrNode},
	} {
		if lines, err := layers.Sources(c.model, 2); !errors.Is(err, c.is) || lines != nil {
			t.Errorf("%s: %v, %v, want %v and no lines", name, lines, err, c.is)
		}
	}
}
