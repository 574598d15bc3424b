package plot_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/trainer/loop"
	"github.com/evenkeel/evenkeel/trainer/plot"
)

// The curve of loop.RangeTest, as a file whose name ends in .svg or .png: plot.RangeTest(curve).Save(name).
func ExampleRangeTest() {
	curve := loop.Curve{{Rate: 1e-3, Loss: 2, Smooth: 2}, {Rate: 1e-2, Loss: 1, Smooth: 1.5}, {Rate: 1e-1, Loss: 3, Smooth: 2}}
	var b bytes.Buffer
	if err := plot.RangeTest(curve).Write(&b, plot.SVG); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Contains(b.Bytes(), []byte("learning rate")))
	// Output: true
}
