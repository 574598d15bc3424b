package images

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"testing"

	"github.com/evenkeel/evenkeel/dataloader"
)

// epoch returns a hash of all batches of an epoch.
func epoch(t *testing.T, ds dataloader.Dataset, workers, number int) string {
	t.Helper()
	l, err := dataloader.New(ds, dataloader.Options{Batch: 3, Shuffle: true, Seed: 7, Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 3)
	for i := range slots {
		for _, f := range ds.Fields() {
			slots[i].Fields = append(slots[i].Fields, make([]byte, 3*f.Bytes()))
		}
	}
	run, err := l.Epoch(context.Background(), number, slots)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	h := sha256.New()
	for {
		b, err := run.Next(context.Background())
		if err == io.EOF {
			return fmt.Sprintf("%x", h.Sum(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		for k, f := range ds.Fields() {
			h.Write(slots[b.Slot].Fields[k][:int64(b.Rows)*f.Bytes()])
		}
		if err := run.Release(b.Slot, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBatchesDoNotDependOnTheNumberOfWorkers(t *testing.T) {
	fsys := tree(t, "a/1.jpg", "a/2.jpg", "b/1.jpg", "c/1.jpg")
	for i, name := range []string{"photo420.jpg", "photo.png", "alpha.webp", "frames.gif", "cmyk.jpg"} {
		fsys[fmt.Sprintf("d/%d.jpg", i)] = fsys["a/1.jpg"]
		f := *fsys["a/1.jpg"]
		f.Data = file(t, name)
		fsys[fmt.Sprintf("e/%d.jpg", i)] = &f
	}
	f, err := OpenFS(fsys, ".", FolderOptions{Pipeline: pipeline(t, Options{Height: 32, Width: 32, Steps: append([]Step{RandomResizedCrop{}}, everyStep()...)})})
	if err != nil {
		t.Fatal(err)
	}
	want := epoch(t, f, 1, 0)
	for _, workers := range []int{2, 5} {
		if got := epoch(t, f, workers, 0); got != want {
			t.Errorf("%d workers deliver other bytes than one", workers)
		}
	}
	if epoch(t, f, 2, 1) == want {
		t.Error("epoch 1 has the bytes of epoch 0")
	}
}
