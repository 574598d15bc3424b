package cookbook_test

// The program of language.md begins here.
import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"gorgonia.org/gorgonia"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/tokens"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/metrics"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

const (
	alphabet = " .abcdefghijklmnopqrstuvwxyz"
	window   = 24 // characters that the model looks at
	width    = 32
)

// characters is a tokenizer: the token of a character is its place in the alphabet.
func characters(dst []int32, text string) ([]int32, error) {
	for _, c := range text {
		i := strings.IndexRune(alphabet, c)
		if i < 0 {
			return dst, fmt.Errorf("character %q is not in the alphabet", c)
		}
		dst = append(dst, int32(i))
	}
	return dst, nil
}

// corpus writes the tokens of texts to a file and opens its windows: x are characters, and y the ones
// that follow them.
func corpus(path string, texts ...string) (*tokens.Dataset, error) {
	s, err := dataloader.Tokenize("text", texts, dataloader.TokenizerFunc(characters))
	if err != nil {
		return nil, err
	}
	if err := tokens.Write(path, s, 16); err != nil {
		return nil, err
	}
	return tokens.Open(path, tokens.Options{Window: window, Stride: 1, Vocabulary: len(alphabet)})
}

// language predicts, at each place of a window, the next character from those up to it: a
// transformer of one block.
func language(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
	net := layers.New(g)
	x, y := net.Indices("x", batch, window), net.Indices("y", batch, window)
	places := net.Param("places", layers.Normal{Std: 0.1}, window, width)
	h := net.Add(net.Embedding(x, "characters", len(alphabet), width), places, "")
	h = net.Residual(h, "attention", func(x *gorgonia.Node) *gorgonia.Node {
		return net.Attention(net.LayerNorm(x, "norm1"), "seen", layers.Attention{Heads: 1, Causal: true})
	}, nil)
	h = net.Reshape(h, "rows", batch*window, width)
	h = net.Residual(h, "perceptron", func(x *gorgonia.Node) *gorgonia.Node {
		x = net.Dense(net.LayerNorm(x, "norm2"), "widen", 4*width, layers.GELU)
		return net.Dense(x, "narrow", width, nil)
	}, nil)
	logits := net.Dense(net.LayerNorm(h, "norm"), "out", len(alphabet), nil)
	losses := net.CrossEntropy(logits, net.Reshape(y, "labels", batch*window), "losses")
	losses = net.Reshape(losses, "losses/windows", batch, window) // one for each place of a row
	return trainer.Model{
		Inputs: net.Inputs(), Params: net.Params(), Loss: net.Mean(losses, "loss", layers.Reduce{}),
		Output:  net.Reshape(logits, "output", batch, window*len(alphabet)),
		Metrics: []layers.Metric{metrics.Perplexity(net, losses, nil)},
	}, net.Err()
}

func Example_language() {
	const sentence = "a keel keeps a boat upright. an even keel keeps a boat level. "
	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	dir, err := os.MkdirTemp("", "language")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data, err := corpus(filepath.Join(dir, "train.bin"), strings.Repeat(sentence, 8))
	if err != nil {
		log.Fatal(err)
	}
	defer data.Close()
	t, err := trainer.New(ctx, language, trainer.Options{Device: dev, Batch: 32, Optimizer: optim.Adam{Rate: 5e-3},
		Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 12 {
		if _, err := t.Fit(ctx, data); err != nil {
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("perplexity below 1.5: %t\n", result.Metrics[0].Value < 1.5)

	// Continue a text, character by character, each time with the likeliest one.
	p, err := trainer.NewPredictor(ctx, language, trainer.PredictorOptions{Device: dev, Batch: 1, Fields: data.Fields()})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := p.Load(ctx, t); err != nil {
		log.Fatal(err)
	}
	written, logits := sentence[:window], make([]float32, window*len(alphabet))
	for range 37 {
		seen, err := characters(nil, written[len(written)-window:])
		if err != nil {
			log.Fatal(err)
		}
		if err := p.Predict(ctx, logits, seen); err != nil {
			log.Fatal(err)
		}
		best, last := 0, logits[(window-1)*len(alphabet):]
		for c := range last {
			if last[c] > last[best] {
				best = c
			}
		}
		written += alphabet[best : best+1]
	}
	fmt.Println(written)
	fmt.Printf("bytes of the predictor below a quarter of the trainer's: %t\n", 4*p.Plan().Total < t.Plan().Total)
	// Output:
	// perplexity below 1.5: true
	// a keel keeps a boat upright. an even keel keeps a boat level.
	// bytes of the predictor below a quarter of the trainer's: true
}

// The program of language.md ends here.
