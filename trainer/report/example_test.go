package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
	"github.com/evenkeel/evenkeel/trainer/report"
)

// classifier is 784-512-256-10.
func classifier(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 784)
	h := net.Dense(x, "hidden1", 512, layers.ReLU)
	h = net.Dense(h, "hidden2", 256, layers.ReLU)
	return net.Classifier(x, net.Dense(h, "out", 10, nil))
}

// planned returns the plan of the classifier with Adam, on any device.
func planned() *report.Plan {
	p, err := trainer.Plan(context.Background(), classifier, trainer.Options{Batch: 128, Optimizer: optim.Adam{}})
	if err != nil {
		log.Fatal(err)
	}
	return p
}

// The plan as tables. Nothing is allocated to make it.
func ExamplePlan() {
	fmt.Print(planned())
	// Output:
	// memory plan: 10,046,208 bytes (9.6 MiB) on any device, streaming data
	//
	// region                   bytes             share
	// ────────────────────────────────────────────────
	// parameters           2,143,488  2.0 MiB   21.3 %
	// gradients            2,143,488  2.0 MiB   21.3 %
	// optimizer state      4,286,976  4.1 MiB   42.7 %
	// running statistics           0      0 B    0.0 %
	// slot 0                 402,688  393 KiB    4.0 %
	// slot 1                 402,688  393 KiB    4.0 %
	// results                 11,520   11 KiB    0.1 %
	// resident data                0      0 B    0.0 %
	// scratch                655,360  640 KiB    6.5 %
	// ────────────────────────────────────────────────
	// arena               10,046,208  9.6 MiB  100.0 %
	//
	// layer          parameters  gradients  optimizer state     slot  results    other       bytes
	// ────────────────────────────────────────────────────────────────────────────────────────────
	// hidden1         1,607,680  1,607,680        3,215,360        0        0        0   6,430,720
	// hidden2           525,312    525,312        1,050,624        0        0        0   2,101,248
	// out                10,496     10,496           20,992        0        0        0      41,984
	// batch                   0          0                0  805,376        0        0     805,376
	// results                 0          0                0        0   11,264        0      11,264
	// guard                   0          0                0        0      256        0         256
	// shared by all           0          0                0        0        0  655,360     655,360
	// ────────────────────────────────────────────────────────────────────────────────────────────
	// arena           2,143,488  2,143,488        4,286,976  805,376   11,520  655,360  10,046,208
	//
	// program       instructions  scratch  peak live  ratio  at instruction
	// ─────────────────────────────────────────────────────────────────────
	// train 128               32  655,360    655,360  1.000  dhidden2/xw
	// evaluate 128             7  393,216    393,216  1.000  hidden2/act
	// predict 128              3  393,216    393,216  1.000  hidden2/act
	//
	// * train 128: placed by best fit by size
	// * evaluate 128: placed by best fit by size
	// * predict 128: placed by best fit by size
}

// All of the plan, for a program.
func ExamplePlan_JSON() {
	var b bytes.Buffer
	if err := planned().JSON(&b); err != nil {
		log.Fatal(err)
	}
	var p struct {
		Total    int64 `json:"total_bytes"`
		Programs []struct {
			Name string `json:"name"`
			Live int64  `json:"live_bytes"`
		} `json:"programs"`
	}
	if err := json.Unmarshal(b.Bytes(), &p); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Total, p.Programs)
	// Output:
	// 10046208 [{train 128 655360} {evaluate 128 393216} {predict 128 393216}]
}

// The largest tensors, and the layers.
func ExamplePlan_Top() {
	p := planned()
	for _, t := range p.Top(4) {
		fmt.Println(t.Region, t.Label(), t.Bytes)
	}
	for _, l := range p.Layers()[:3] {
		fmt.Println("layer", l.Name, l.Total)
	}
	fmt.Println("both slots:", p.Category("slot"))
	// Output:
	// gradients hidden1/w 1605632
	// optimizer state hidden1/w/m 1605632
	// optimizer state hidden1/w/v 1605632
	// parameters hidden1/w 1605632
	// layer hidden1 6430720
	// layer hidden2 2101248
	// layer out 41984
	// both slots: 805376
}

// Two combinations of settings, as trainer.Explore returns them.
func ExampleChoices() {
	c := report.Choices{
		Limit: 8_000_000,
		Axes:  []string{"optimizer", "gradients"},
		Choices: []report.Choice{
			{Settings: []string{"adam", "kept"}, Total: 9_760_000, MaxBatch: 100, Same: true},
			{Settings: []string{"adam", "freed"}, Total: 7_888_896, Time: 0.02, MaxBatch: 8_769, Fits: true, Same: true},
		},
		Best: 1,
	}
	fmt.Print(c)
	// Output:
	// what fits in 8,000,000 bytes (7.6 MiB):
	//
	//            optimizer  gradients      bytes  time  max batch
	// ───────────────────────────────────────────────────────────
	//            adam       kept       9,760,000  +0 %        100
	// take this  adam       freed      7,888,896  +2 %      8,769
}
