package dataloader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
)

// fetch returns the bytes of all fields of one sample.
func fetch(ds dataloader.Dataset, index, epoch int) [][]byte {
	var dst [][]byte
	for _, f := range ds.Fields() {
		dst = append(dst, make([]byte, f.Bytes()))
	}
	if err := ds.Fetch(context.Background(), dataloader.At{Index: index, Epoch: epoch, Seed: 1}, dst); err != nil {
		log.Fatal(err)
	}
	return dst
}

// Five samples in batches of two. Two slots are the whole memory of the epoch: workers fill one while the other is used.
func Example() {
	pixels := []uint8{0, 1, 10, 11, 20, 21, 30, 31, 40, 41} // [5, 2]
	labels := []int32{0, 1, 0, 1, 0}
	ds, err := dataloader.FromSlices(5,
		dataloader.Column("x", pixels, 2).Scaled(1.0/255, 0),
		dataloader.Column("y", labels))
	if err != nil {
		log.Fatal(err)
	}
	l, err := dataloader.New(ds, dataloader.Options{Batch: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 2)
	for i := range slots {
		slots[i].Fields = [][]byte{make([]byte, 2*2), make([]byte, 2*4)}
	}
	ctx := context.Background()
	run, err := l.Epoch(ctx, 0, slots)
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for {
		b, err := run.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		x := slots[b.Slot].Fields[0][:b.Rows*2]
		y := dataloader.View[int32](slots[b.Slot].Fields[1])[:b.Rows]
		fmt.Println("step", b.Step, "samples", b.Indices, "x", x, "y", y)
		if err := run.Release(b.Slot, nil); err != nil { // or the event of the copy to the device
			log.Fatal(err)
		}
	}
	// Output:
	// step 0 samples [0 1] x [0 1 10 11] y [0 1]
	// step 1 samples [2 3] x [20 21 30 31] y [0 1]
	// step 2 samples [4] x [40 41] y [0]
}

// squares is a dataset of one's own: sample i has the input i and the target i².
type squares int

func (n squares) Len() int { return int(n) }

func (n squares) Fields() []dataloader.Field {
	return []dataloader.Field{{Name: "x", Type: arena.Float32}, {Name: "y", Type: arena.Float32}}
}

func (n squares) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	x := float32(at.Index)
	dataloader.View[float32](dst[0])[0] = x
	dataloader.View[float32](dst[1])[0] = x * x
	return nil
}

// A dataset of one's own implements three methods. Check finds mistakes in it.
func ExampleDataset() {
	ds := squares(100)
	fmt.Println(dataloader.Check(ds))
	fmt.Println(dataloader.SampleBytes(ds), "bytes a sample")
	sample := fetch(ds, 7, 0)
	fmt.Println(dataloader.View[float32](sample[0]), dataloader.View[float32](sample[1]))
	// Output:
	// <nil>
	// 8 bytes a sample
	// [7] [49]
}

// Images of 2×2 bytes with labels, in memory. The device decodes a byte x to x/255.
func ExampleFromSlices() {
	pixels := []uint8{0, 64, 128, 255, 255, 128, 64, 0}
	ds, err := dataloader.FromSlices(2,
		dataloader.Column("x", pixels, 1, 2, 2).Scaled(1.0/255, 0),
		dataloader.Column("y", []int32{3, 7}))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range ds.Fields() {
		fmt.Println(f.Name, f.Type, f.Shape, f.Bytes(), "bytes")
	}
	_, err = dataloader.FromSlices(3, dataloader.Column("x", pixels, 4))
	fmt.Println(errors.Is(err, dataloader.ErrField), err)
	// Output:
	// x uint8 [1 2 2] 4 bytes
	// y int32 [] 4 bytes
	// true field 0 "x": has 8 elements: 3 samples of shape [4] need 4 each
}

func ExampleColumn() {
	c := dataloader.Column("price", []float64{9.5, 12, 7.25})
	fmt.Println(c.Name, c.Type, c.Shape, c.Bytes())
	// Output:
	// price float64 [] 8
}

// Data augmentation: a random change of each sample, which depends on the seed, the epoch and the index alone.
func ExampleMap() {
	ds, err := dataloader.FromSlices(3, dataloader.Column("x", []float32{1, 2, 3}))
	if err != nil {
		log.Fatal(err)
	}
	noisy := dataloader.Map(ds, func(at dataloader.At, sample [][]byte) error {
		r := at.Rand()
		dataloader.View[float32](sample[0])[0] += float32(r.IntN(4)) * 0.25
		return nil
	})
	for epoch := range 2 {
		fmt.Print("epoch ", epoch, ":")
		for i := range noisy.Len() {
			fmt.Print(" ", dataloader.View[float32](fetch(noisy, i, epoch)[0])[0])
		}
		fmt.Println()
	}
	// Output:
	// epoch 0: 1 2 3.5
	// epoch 1: 1 2.25 3.25
}

// A model that reproduces its input needs no labels.
func ExampleSelect() {
	ds, err := dataloader.FromSlices(2,
		dataloader.Column("x", []uint8{1, 2, 3, 4}, 2), dataloader.Column("y", []uint8{0, 1}))
	if err != nil {
		log.Fatal(err)
	}
	images, err := dataloader.Select(ds, "x")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(fetch(images, 1, 0))
	_, err = dataloader.Select(ds, "z")
	fmt.Println(err)
	// Output:
	// [[3 4]]
	// select "z": the dataset has the fields ["x" "y"]: bad option
}

// The first 80 samples are for training, the others for validation.
func ExampleSplit() {
	train, validation, err := dataloader.Split(squares(100), 80)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train.Len(), validation.Len(), dataloader.View[float32](fetch(validation, 0, 0)[0]))
	// Output:
	// 80 20 [80]
}

func ExampleSubset() {
	ds, err := dataloader.Subset(squares(100), 10, 13)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ds.Len(), dataloader.View[float32](fetch(ds, 2, 0)[0]))
	// Output:
	// 3 [12]
}

// The order of the samples of two epochs. It depends on the seed and the epoch, not on the number of workers.
func ExampleLoader() {
	for _, workers := range []int{1, 4} {
		l, err := dataloader.New(dataloader.Indices(6), dataloader.Options{Batch: 4, Shuffle: true, Seed: 1, Workers: workers})
		if err != nil {
			log.Fatal(err)
		}
		slots := []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*4)}}}
		fmt.Println(workers, "workers:")
		for epoch := range 2 {
			printOrder(l, epoch, slots)
		}
		if err := l.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1 workers:
	// [0 1 5 4][2 3] of epoch 0
	// [3 5 0 4][1 2] of epoch 1
	// 4 workers:
	// [0 1 5 4][2 3] of epoch 0
	// [3 5 0 4][1 2] of epoch 1
}

// printOrder prints the indices of one epoch.
func printOrder(l *dataloader.Loader, epoch int, slots []dataloader.Slot) {
	ctx := context.Background()
	run, err := l.Epoch(ctx, epoch, slots)
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for range l.Steps() {
		b, err := run.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(b.Indices)
		if err := run.Release(b.Slot, nil); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(" of epoch", epoch)
}

// An epoch goes on at any step: seed, epoch and step are the whole position.
func ExampleLoader_EpochFrom() {
	ds := dataloader.Indices(6)
	l, err := dataloader.New(ds, dataloader.Options{Batch: 2, Shuffle: true, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for _, step := range []int{0, 2} {
		run, err := l.EpochFrom(context.Background(), 0, step, []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*2)}}})
		if err != nil {
			log.Fatal(err)
		}
		for s := step; s < l.Steps(); s++ {
			fmt.Print(run.Indices(s))
		}
		fmt.Println(" from step", step)
		run.Close()
	}
	// Output:
	// [0 1][5 4][2 3] from step 0
	// [2 3] from step 2
}

// The last batch of an epoch has fewer rows, or is dropped.
func ExampleOptions() {
	for _, tail := range []dataloader.Tail{dataloader.KeepTail, dataloader.DropTail} {
		l, err := dataloader.New(squares(10), dataloader.Options{Batch: 4, Tail: tail})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Steps(), "steps,", l.Dropped(), "samples dropped")
		if err := l.Close(); err != nil {
			log.Fatal(err)
		}
	}
	_, err := dataloader.New(squares(10), dataloader.Options{Batch: -1})
	fmt.Println(err)
	// Output:
	// 3 steps, 0 samples dropped
	// 2 steps, 2 samples dropped
	// batch -1: must be 1 or more: bad option
}

// An IDX file of three samples of two bytes, written and read. OpenIDX reads one from a path.
func ExampleReadIDX() {
	file, err := (&dataloader.IDX{Type: arena.Uint8, Dims: []int{3, 2}, Data: []byte{1, 2, 3, 4, 5, 6}}).Bytes()
	if err != nil {
		log.Fatal(err)
	}
	x, err := dataloader.ReadIDX(bytes.NewReader(file), 0)
	if err != nil {
		log.Fatal(err)
	}
	ds, err := dataloader.FromSlices(x.Len(), x.Array("x"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(x.Dims, fetch(ds, 2, 0))

	_, err = dataloader.ReadIDX(bytes.NewReader(file[:9]), 0)
	fmt.Println(errors.Is(err, dataloader.ErrFormat), err)
	// Output:
	// [3 2] [[5 6]]
	// true input: dimension 1 at byte 9: want 4 bytes, got 1: unexpected EOF
}

// The four files of a small data set in the form of MNIST: two images of 28×28 pixels for each part.
func ExampleMNIST() {
	dir, err := os.MkdirTemp("", "mnist")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	images := dataloader.IDX{Type: arena.Uint8, Dims: []int{2, 28, 28}, Data: bytes.Repeat([]byte{0, 255}, 28*28)}
	labels := dataloader.IDX{Type: arena.Uint8, Dims: []int{2}, Data: []byte{3, 8}}
	for _, part := range []string{"train", "t10k"} {
		for name, x := range map[string]dataloader.IDX{"-images-idx3-ubyte": images, "-labels-idx1-ubyte": labels} {
			b, err := x.Bytes()
			if err != nil {
				log.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, part+name), b, 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
	train, test, err := dataloader.MNIST(dir, 28*28)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(train.Len(), test.Len(), train.Fields()[0].Shape, "label", fetch(test, 1, 0)[1][0])
	// Output:
	// 2 2 [784] label 8
}

// Two records of CIFAR-10: a label and three planes of 32×32 pixels each.
func ExampleReadCIFAR10() {
	var file []byte
	for label := range 2 {
		file = append(file, byte(label))
		file = append(file, bytes.Repeat([]byte{byte(100 * (label + 1))}, 3*32*32)...)
	}
	ds, err := dataloader.ReadCIFAR10(bytes.NewReader(file), 2)
	if err != nil {
		log.Fatal(err)
	}
	sample := fetch(ds, 1, 0)
	fmt.Println(ds.Fields()[0].Shape, "first pixel", sample[0][0], "label", sample[1][0])
	// Output:
	// [3 32 32] first pixel 200 label 1
}

// A record of CIFAR-100: a coarse label, a fine label and three planes of 32×32 pixels. A model of the 100 fine classes
// uses the fields "x" and "y" only.
func ExampleReadCIFAR100() {
	file := append([]byte{4, 30}, bytes.Repeat([]byte{200}, 3*32*32)...)
	ds, err := dataloader.ReadCIFAR100(bytes.NewReader(file), 1)
	if err != nil {
		log.Fatal(err)
	}
	sample := fetch(ds, 0, 0)
	fmt.Println(ds.Fields()[0].Shape, "first pixel", sample[0][0], "fine label", sample[1][0], "coarse label", sample[2][0])
	fine, err := dataloader.Select(ds, "x", "y")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(fine.Fields()), "fields of", dataloader.SampleBytes(fine), "bytes")
	// Output:
	// [3 32 32] first pixel 200 fine label 30 coarse label 4
	// 2 fields of 3073 bytes
}

// A closed loader returns an error that wraps arena.ErrClosed, as everything closed does.
func ExampleLoader_Close() {
	l, err := dataloader.New(squares(10), dataloader.Options{Batch: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Close())
	slot := dataloader.Slot{Fields: [][]byte{make([]byte, 16), make([]byte, 16)}}
	_, err = l.Epoch(context.Background(), 0, []dataloader.Slot{slot})
	fmt.Println(errors.Is(err, arena.ErrClosed), err)
	// Output:
	// <nil>
	// true loader: closed
}
