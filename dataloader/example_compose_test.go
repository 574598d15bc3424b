package dataloader_test

import (
	"context"
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/dataloader"
)

// numbered returns n samples with the field "x", their number, and the field "class", which is 1 for
// one in five.
func numbered(n int) dataloader.Dataset {
	x, class := make([]uint8, n), make([]uint8, n)
	for i := range x {
		x[i] = uint8(i)
		if i%5 == 0 {
			class[i] = 1
		}
	}
	ds, err := dataloader.FromSlices(n, dataloader.Column("x", x), dataloader.Column("class", class))
	if err != nil {
		log.Fatal(err)
	}
	return ds
}

// A split that keeps the share of each class, and a sampler that balances the classes in training.
func ExampleSplitStratified() {
	ctx, ds := context.Background(), numbered(100)
	labels, err := dataloader.Labels(ctx, ds, "class", dataloader.PassOptions{})
	if err != nil {
		log.Fatal(err)
	}
	parts, err := dataloader.SplitStratified(ds, labels, 1, 0.8, 0.2)
	if err != nil {
		log.Fatal(err)
	}
	for _, part := range parts {
		labels, err := dataloader.Labels(ctx, part, "class", dataloader.PassOptions{})
		if err != nil {
			log.Fatal(err)
		}
		rare := 0
		for _, y := range labels {
			rare += y
		}
		fmt.Println(part.Len(), "samples,", rare, "of class 1")
	}
	if labels, err = dataloader.Labels(ctx, parts[0], "class", dataloader.PassOptions{}); err != nil {
		log.Fatal(err)
	}
	sampler, err := dataloader.ClassBalanced(labels, 0)
	if err != nil {
		log.Fatal(err)
	}
	order, err := sampler.Epoch(parts[0].Len(), 1, 0)
	if err != nil {
		log.Fatal(err)
	}
	rare := 0
	for i := range order.Len() {
		rare += labels[order.Index(i)]
	}
	fmt.Println(order.Len(), "positions,", rare, "of class 1")
	// Output:
	// 80 samples, 16 of class 1
	// 20 samples, 4 of class 1
	// 80 positions, 40 of class 1
}

// Two samples of the first source for each one of the second.
func ExampleInterleave() {
	ds, err := dataloader.Interleave(dataloader.AtFirst,
		dataloader.Source{Dataset: numbered(4), Rate: 2}, dataloader.Source{Dataset: numbered(100), Rate: 1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ds.Len(), "samples")
	// Output: 6 samples
}

func ExampleStats() {
	m, err := dataloader.Stats(context.Background(), numbered(101), "x", dataloader.StatsOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Count, m.Mean, m.Variance, m.Min, m.Max)
	ds, err := dataloader.Normalize(numbered(101), m)
	if err != nil {
		log.Fatal(err)
	}
	f := ds.Fields()[0]
	fmt.Printf("%v: scale %.4f, shift %.4f\n", f.Type, f.Scale, f.Shift)
	// Output:
	// 101 [50] [850] [0] [100]
	// uint8: scale 0.0343, shift -1.7150
}

func ExamplePad() {
	texts, err := dataloader.Tokenize("text", []string{"abc", "b"}, dataloader.Bytes{})
	if err != nil {
		log.Fatal(err)
	}
	ds, err := dataloader.Pad(texts, dataloader.PadOptions{Length: 4, Mask: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range ds.Fields() {
		fmt.Println(f.Name, f.Type, f.Shape)
	}
	// Output:
	// text int32 [4]
	// text_length int32 []
	// text_mask uint8 [4]
}

func ExamplePairs() {
	ds, err := dataloader.Pairs(numbered(10), dataloader.PairOptions{Alpha: 0.2})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range ds.Fields() {
		fmt.Println(f.Name, f.Type)
	}
	// Output:
	// x uint8
	// class uint8
	// x_partner uint8
	// class_partner uint8
	// mix float32
}

func ExampleCache() {
	cached, err := dataloader.Cache(numbered(100), dataloader.CacheOptions{Bytes: 1 << 10})
	if err != nil {
		log.Fatal(err)
	}
	train := dataloader.Map(cached, func(at dataloader.At, sample [][]byte) error {
		r := at.Rand()
		sample[0][0] += uint8(r.IntN(3)) // drawn again in each epoch
		return nil
	})
	fmt.Println(train.Len(), "samples")
	// Output: 100 samples
}
