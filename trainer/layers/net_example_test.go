package layers_test

import (
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/evenkeel/evenkeel/trainer/layers"
)

// net returns a net on a new graph, and an input of the given dimensions; dims[0] is the batch size.
func net(dims ...int) (*layers.Net, *gorgonia.Node) {
	n := layers.New(gorgonia.NewGraph())
	return n, n.Input("x", dims...)
}

// show prints the parameters and running statistics of a net, and the shape of its output.
func show(n *layers.Net, out *gorgonia.Node) {
	if err := n.Err(); err != nil {
		log.Fatal(err)
	}
	for _, p := range n.Params() {
		fmt.Println(p.Node.Name(), p.Node.Shape())
	}
	for _, p := range n.Statistics() {
		fmt.Println(p.Node.Name(), p.Node.Shape(), "statistic")
	}
	fmt.Println("output", out.Shape())
}

func ExampleNet_Dense() {
	n, x := net(8, 20)
	show(n, n.Dense(x, "hidden", 10, layers.ReLU))
	// Output:
	// hidden/w (20, 10)
	// hidden/b (10)
	// output (8, 10)
}

// A 3×3 convolution that keeps the size of the image.
func ExampleNet_Conv() {
	n, x := net(8, 3, 32, 32)
	c := layers.Conv2D{Out: 16, Kernel: layers.Square(3), Pad: layers.Square(1)}
	show(n, n.Conv(x, "conv", c, layers.ReLU))
	// Output:
	// conv/w (16, 3, 3, 3)
	// conv/b (16)
	// output (8, 16, 32, 32)
}

// A depthwise convolution: a filter of its own for each channel.
func ExampleNet_Conv_depthwise() {
	n, x := net(8, 16, 32, 32)
	c := layers.Conv2D{Out: 16, Groups: 16, Kernel: layers.Square(3), Pad: layers.Square(1), NoBias: true}
	show(n, n.Conv(x, "conv", c, nil))
	// Output:
	// conv/w (16, 1, 3, 3)
	// output (8, 16, 32, 32)
}

// Windows of 2×2 that touch halve the image.
func ExampleNet_MaxPool() {
	n, x := net(8, 3, 32, 32)
	show(n, n.MaxPool(x, "pool", layers.Pool{Kernel: layers.Square(2)}))
	// Output:
	// output (8, 3, 16, 16)
}

func ExampleNet_AvgPool() {
	n, x := net(8, 3, 32, 32)
	show(n, n.AvgPool(x, "pool", layers.Pool{Kernel: layers.Square(3), Stride: layers.Square(2), Pad: layers.Square(1)}))
	// Output:
	// output (8, 3, 16, 16)
}

func ExampleNet_GlobalAvgPool() {
	n, x := net(8, 64, 7, 7)
	show(n, n.GlobalAvgPool(x, "pool"))
	// Output:
	// output (8, 64)
}

func ExampleNet_Flatten() {
	n, x := net(8, 64, 7, 7)
	show(n, n.Flatten(x, "flat"))
	// Output:
	// output (8, 3136)
}

func ExampleNet_BatchNorm() {
	n, x := net(8, 16, 32, 32)
	show(n, n.BatchNorm(x, "norm", layers.ReLU))
	// Output:
	// norm/gamma (16)
	// norm/beta (16)
	// norm/mean (16) statistic
	// norm/variance (16) statistic
	// output (8, 16, 32, 32)
}

func ExampleNet_LayerNorm() {
	n, x := net(8, 5, 64)
	show(n, n.LayerNorm(x, "norm"))
	// Output:
	// norm/gamma (64)
	// norm/beta (64)
	// output (8, 5, 64)
}

func ExampleNet_GroupNorm() {
	n, x := net(8, 16, 32, 32)
	show(n, n.GroupNorm(x, "norm", 4))
	// Output:
	// norm/gamma (16)
	// norm/beta (16)
	// output (8, 16, 32, 32)
}

// In training a quarter of the elements are set to 0; evaluation and prediction do not change x.
func ExampleNet_Dropout() {
	n, x := net(8, 20)
	show(n, n.Dropout(x, "dropout", 0.25))
	// Output:
	// output (8, 20)
}

// Texts of 12 words each; a word is an index into a vocabulary of 1,000.
func ExampleNet_Embedding() {
	n := layers.New(gorgonia.NewGraph())
	words := n.Indices("words", 8, 12)
	show(n, n.Embedding(words, "embed", 1000, 32))
	// Output:
	// embed/table (1000, 32)
	// output (8, 12, 32)
}

// A block that halves the image and doubles the channels: its input is projected to the new shape.
func ExampleNet_Residual() {
	n, x := net(8, 16, 32, 32)
	c := layers.Conv2D{Out: 32, Kernel: layers.Square(3), Stride: layers.Square(2), Pad: layers.Square(1)}
	show(n, n.Residual(x, "block", func(x *gorgonia.Node) *gorgonia.Node {
		return n.Conv(x, "block/conv", c, nil)
	}, layers.ReLU))
	// Output:
	// block/conv/w (32, 16, 3, 3)
	// block/conv/b (32)
	// block/skip/w (32, 16, 1, 1)
	// block/skip/norm/gamma (32)
	// block/skip/norm/beta (32)
	// block/skip/norm/mean (32) statistic
	// block/skip/norm/variance (32) statistic
	// output (8, 32, 16, 16)
}

// A classifier has the fields x and y, class indices, and reports its accuracy.
func ExampleNet_Classifier() {
	n, x := net(8, 20)
	m, err := n.Classifier(x, n.Dense(x, "out", 10, nil))
	if err != nil {
		log.Fatal(err)
	}
	for _, in := range m.Inputs {
		fmt.Println(in.Name(), in.Shape(), in.Dtype())
	}
	fmt.Println("accuracy:", m.Correct != nil)
	// Output:
	// x (8, 20) float32
	// y (8) int
	// accuracy: true
}

// A weight of 0 leaves a sample out of loss, gradient and accuracy.
func ExampleNet_WeightedClassifier() {
	n, x := net(8, 20)
	weight := n.Input("weight", 8)
	m, err := n.WeightedClassifier(x, n.Dense(x, "out", 10, nil), weight)
	if err != nil {
		log.Fatal(err)
	}
	for _, in := range m.Inputs {
		fmt.Println(in.Name(), in.Shape(), in.Dtype())
	}
	fmt.Println("losses:", m.Loss.Shape())
	// Output:
	// x (8, 20) float32
	// weight (8) float32
	// y (8) int
	// losses: (8)
}

// A row of y is a distribution over the classes.
func ExampleNet_ClassifierOneHot() {
	n, x := net(8, 20)
	m, err := n.ClassifierOneHot(x, n.Dense(x, "out", 10, nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Inputs[1].Name(), m.Inputs[1].Shape(), m.Inputs[1].Dtype())
	// Output:
	// y (8, 10) float32
}

// A regression has the fields x and y, targets of the shape of the output, and no accuracy.
func ExampleNet_Regressor() {
	n, x := net(8, 20)
	m, err := n.Regressor(x, n.Dense(x, "out", 3, nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Inputs[1].Name(), m.Inputs[1].Shape(), "accuracy:", m.Correct != nil)
	// Output:
	// y (8, 3) accuracy: false
}

// The loss of a sample is the mean of its squared errors; samples count by their weights.
func ExampleNet_WeightedRegressor() {
	n, x := net(8, 20)
	m, err := n.WeightedRegressor(x, n.Dense(x, "out", 3, nil), n.Input("weight", 8))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Weight.Name(), m.Weight.Shape(), "losses:", m.Loss.Shape())
	// Output: weight (8) losses: (8)
}

// An autoencoder has one field: its input is also its target.
func ExampleNet_Autoencoder() {
	n, x := net(8, 20)
	code := n.Dense(x, "code", 4, layers.Tanh)
	m, err := n.Autoencoder(x, n.Dense(code, "out", 20, nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(m.Inputs), "field, output", m.Output.Shape())
	// Output:
	// 1 field, output (8, 20)
}

// The first mistake is kept: it names the layer and the shapes.
func ExampleNet_Err() {
	n, x := net(8, 3, 32, 32)
	h := n.Dense(x, "hidden", 10, layers.ReLU)
	_, err := n.Classifier(x, n.Dense(h, "out", 10, nil))
	fmt.Println(errors.Is(err, layers.ErrShape), err == n.Err())
	fmt.Println(err)
	// Output:
	// true true
	// dense "hidden": input (8, 3, 32, 32) needs 2 dimensions: use Flatten: shapes do not fit
}

// diagonal is an initial value of one's own: a matrix [N, N] starts as Scale times the identity.
type diagonal struct{ Scale float64 }

func (d diagonal) Fill(_ *rand.Rand, shape []int, at int, dst []float64) {
	for i := range dst {
		dst[i] = 0
		if row, column := (at+i)/shape[1], (at+i)%shape[1]; row == column {
			dst[i] = d.Scale
		}
	}
}

// A type with the method Fill computes initial values: here for the weights of all layers that follow.
func ExampleInit() {
	n, x := net(8, 3)
	n.Weights = diagonal{0.5}
	n.Dense(x, "hidden", 3, nil)
	if err := n.Values(1); err != nil {
		log.Fatal(err)
	}
	for _, p := range n.Params() {
		fmt.Println(p.Node.Name(), p.Node.Value().Data())
	}
	// Output:
	// hidden/w [0.5 0 0 0 0.5 0 0 0 0.5]
	// hidden/b [0 0 0]
}

// The same seed and name give the same values.
func ExampleFill() {
	a, b := make([]float32, 6), make([]float32, 6)
	for _, dst := range [][]float32{a, b} {
		if err := layers.Fill(dst, layers.HeUniform{}, 1, "hidden/w", 2, 3); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%.2f\n%.2f\n", a, b)
	// Output:
	// [0.00 0.21 0.24 0.09 -0.81 0.66]
	// [0.00 0.21 0.24 0.09 -0.81 0.66]
}

// double is an activation of one's own, made of Gorgonia's operations.
func double(n *layers.Net, x *gorgonia.Node, name string) *gorgonia.Node {
	y := gorgonia.Must(gorgonia.Add(x, x))
	gorgonia.WithName(name)(y)
	return y
}

func ExampleActivation() {
	n, x := net(8, 3)
	fmt.Println(n.Dense(x, "plain", 2, nil).Name())
	fmt.Println(n.Dense(x, "doubled", 2, double).Name())
	fmt.Println(n.Dense(x, "leaky", 2, layers.LeakyReLU(0.01)).Name(), n.Err())
	// Output:
	// plain/out
	// doubled/act
	// leaky/act <nil>
}

// Parameters of one's own, with layers and Gorgonia's operations in one graph, run on a machine of Gorgonia.
func ExampleNet_Values() {
	g := gorgonia.NewGraph()
	n := layers.New(g)
	x := n.Input("x", 2, 3)
	scale := n.Param("scale/s", layers.Constant{Value: 2}, 2, 3)
	y := gorgonia.Must(gorgonia.HadamardProd(n.Softmax(x, "softmax"), scale))
	if err := errors.Join(n.Err(), n.Values(1)); err != nil {
		log.Fatal(err)
	}
	in := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{0, 0, 0, 1, 1, 1}))
	if err := gorgonia.Let(x, in); err != nil {
		log.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.2f\n", y.Value().Data())
	// Output:
	// [0.67 0.67 0.67 0.67 0.67 0.67]
}

// The fan-in and fan-out of filters [16, 3, 3, 3].
func ExampleFans() {
	fmt.Println(layers.Fans([]int{16, 3, 3, 3}))
	// Output:
	// 27 144
}

// The label -100 marks padding: there the weight is 0.
func ExampleNet_Ignore() {
	n, x := net(8, 20)
	labels, weight := n.Ignore(n.Labels("y", 8), "ignore", -100)
	logits := n.Dense(x, "out", 10, nil)
	m := layers.Model{Inputs: append(n.Inputs(), x), Output: logits, Loss: n.CrossEntropy(logits, labels, "losses"), Weight: weight,
		Correct: n.Correct(logits, labels, "correct"), Params: n.Params()}
	fmt.Println(m.Loss.Shape(), m.Weight.Shape(), n.Err())
	// Output: (8) (8) <nil>
}
