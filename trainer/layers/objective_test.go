package layers_test

import (
	"errors"
	"fmt"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// A weight of a task is a number that the program sets: it is listed with the parameters, and training leaves it alone.
func ExampleNet_Scalar() {
	net := layers.New(gorgonia.NewGraph())
	x := net.Input("x", 4, 2)
	loss := net.Mul(net.Scalar("task/weight", 0.5), net.Mean(x, "task/loss", layers.Reduce{}), "loss")
	for _, p := range net.Params() {
		fmt.Println(p.Node.Name(), p.Node.Shape(), p.Fixed)
	}
	fmt.Println(loss.IsScalar(), net.Err())
	// Output:
	// task/weight (1) true
	// true <nil>
}

func TestAScalarNeedsANameOfItsOwn(t *testing.T) {
	net := layers.New(gorgonia.NewGraph())
	net.Scalar("weight", 1)
	if net.Scalar("weight", 2) != nil || !errors.Is(net.Err(), layers.ErrName) {
		t.Errorf("got %v, want ErrName", net.Err())
	}
	if ps := net.Params(); len(ps) != 1 || !ps[0].Fixed {
		t.Errorf("parameters %+v, want one that is fixed", ps)
	}
}
