package trainer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/internal/nets"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

// digitNet is the network of examples/cnn, without dropout.
func digitNet(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x := net.Input("x", batch, 1, 28, 28)
	return net.Classifier(x, nets.DigitsCNN(net, x, 0))
}

func TestASummaryListsTheLayers(t *testing.T) {
	each(t, func(t *testing.T, dev kernels.Device) {
		tr := made(t, digitNet, trainer.Options{Device: dev, Batch: 4, Optimizer: optim.Adam{}, Frozen: []string{"conv1"}})
		s := tr.Summary()
		const products, pixels = 2, 28 * 28
		for i, want := range []struct {
			name                string
			output              []int
			parameters, trained int64
			bytes               int64 // of a parameter, its gradient and two moments, each rounded up to 256
			forward, backward   int64 // backward: at least
		}{
			{"conv1", []int{4, 32, 14, 14}, 9*32 + 32, 0, 1280 + 256, products*9*32*pixels*4 + 32*pixels*4, 0},
			{"conv2", []int{4, 64, 7, 7}, 9*32*64 + 64, 9*32*64 + 64, 4 * (9*32*64*4 + 256), products*9*32*64*pixels/4*4 + 64*pixels/4*4, products * 9 * 32 * 64 * pixels / 4 * 4},
			{"hidden", []int{4, 128}, 3136*128 + 128, 3136*128 + 128, 4 * (3136*128*4 + 512), products * 3136 * 128 * 4, 2 * products * 3136 * 128 * 4},
			{"out", []int{4, 10}, 1290, 1290, 4 * (1280*4 + 256), products*128*10*4 + 5*40, 2 * products * 128 * 10 * 4}, // 5 for each logit: the accuracy
		} {
			l := s.Layers[i]
			if l.Name != want.name || !slices.Equal(l.Output.Shape, want.output) || l.Parameters != want.parameters || l.Trained != want.trained ||
				l.Bytes != want.bytes || l.Forward != want.forward || l.Backward < want.backward || l.Backward > 3*max(want.backward, 1) {
				t.Errorf("got %+v, want %+v", l, want)
			}
		}
		if s.Batch != 4 || len(s.Layers) != 6 || s.Layers[4].Name != "loss" || s.Total.Parameters != 421642 || s.Total.Trained != 421322 ||
			s.Arena != tr.Plan().Total || s.Total.Bytes != s.Layers[0].Bytes+s.Layers[1].Bytes+s.Layers[2].Bytes+s.Layers[3].Bytes {
			t.Errorf("got %+v", s)
		}
		if text := s.String(); !strings.Contains(text, "conv2                    float32 (4, 64, 7, 7)             18,496") {
			t.Errorf("got\n%s", text)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if s := tr.Summary(); len(s.Layers) != 0 {
			t.Errorf("after Close: %+v", s)
		}
		if s := new(trainer.Trainer).Summary(); len(s.Layers) != 0 {
			t.Errorf("of no trainer: %+v", s)
		}
	})
}

func TestASummaryFitsItsColumns(t *testing.T) {
	l := trainer.LayerSummary{Name: strings.Repeat("encoder/", 9), Output: kernels.Spec{Type: arena.Float32, Shape: kernels.Shape{1024, 4096, 4096, 16}},
		Parameters: 999_999_999_999, Bytes: 1023 << 40, Forward: 999_999_999_999_999, Backward: 1}
	s := trainer.Summary{Batch: 1 << 20, Layers: []trainer.LayerSummary{l}, Total: l, Arena: 1 << 50}
	for columns, text := range map[int]string{100: s.String(), 80: s.Text(80), 70: s.Text(7)} {
		most := 0
		for _, line := range strings.Split(text, "\n") {
			most = max(most, utf8.RuneCountInString(line))
		}
		if most != columns {
			t.Errorf("%d columns, want %d:\n%s", most, columns, text)
		}
	}
}

// The layers of a small network.
func ExampleTrainer_Summary() {
	t, device := trainXOR(trainer.Options{})
	defer device.Close()
	defer t.Close()
	for _, l := range t.Summary().Layers[:2] {
		fmt.Println(l.Name, l.Output, l.Parameters)
	}
	// Output:
	// hidden float32 (4, 16) 48
	// out float32 (4, 2) 34
}
