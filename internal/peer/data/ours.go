package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/npy"
)

// speed is the result of one run.
type speed struct {
	Rate   float64 `json:"rate"`   // samples a second
	Memory int64   `json:"memory"` // bytes
}

// load reads batches of ds, epoch after epoch, and measures them. Two slots are filled ahead, as by
// a trainer.
func load(ctx context.Context, ds dataloader.Dataset, batch, workers int, length time.Duration) (s speed, err error) {
	l, err := dataloader.New(ds, dataloader.Options{Batch: batch, Shuffle: true, Workers: workers, Tail: dataloader.DropTail})
	if err != nil {
		return s, err
	}
	defer l.Close()
	slots := make([]dataloader.Slot, 3)
	for i := range slots {
		for _, f := range ds.Fields() {
			slots[i].Fields = append(slots[i].Fields, make([]byte, int64(batch)*f.Bytes()))
		}
	}
	var begun time.Time
	for epoch, rows := 0, 0; ; epoch++ {
		run, err := l.Epoch(ctx, epoch, slots)
		if err != nil {
			return s, err
		}
		for {
			b, err := run.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				return s, err
			}
			if err := run.Release(b.Slot, nil); err != nil {
				return s, err
			}
			if rows += b.Rows; begun.IsZero() && rows >= 8*batch { // caches are full
				begun, rows = time.Now(), 0
			}
			if passed := time.Since(begun); !begun.IsZero() && passed > length {
				s.Rate = float64(rows) / passed.Seconds()
				s.Memory, err = resident()
				return s, err
			}
		}
		if err := run.Close(); err != nil {
			return s, err
		}
	}
}

// resident returns the most bytes of memory that this process has held.
func resident() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("memory is read on Linux only: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM in /proc/self/status of %s", runtime.GOOS)
}

// small returns the images in memory, moved and flipped.
func small(dir string) (dataloader.Dataset, error) {
	b, err := os.ReadFile(filepath.Join(dir, "small.npy"))
	if err != nil {
		return nil, err
	}
	ds, err := dataloader.FromSlices(smallImages, dataloader.Column("x", b[len(b)-smallImages*3*side*side:], 3, side, side))
	if err != nil {
		return nil, err
	}
	return dataloader.Map(ds, move), nil
}

// smallFile returns the images from the file, moved and flipped.
func smallFile(dir string) (dataloader.Dataset, error) {
	ds, err := npy.Open(filepath.Join(dir, "small.npy"), npy.Options{Unmapped: true})
	if err != nil {
		return nil, err
	}
	return dataloader.Map(ds, move), nil
}

// side is the height and width of the small images.
const side = 32

// move moves an image by up to four pixels, and flips half of them.
func move(at dataloader.At, sample [][]byte) error {
	const pad = 4
	r := at.Rand()
	dy, dx, flip := r.IntN(2*pad+1)-pad, r.IntN(2*pad+1)-pad, r.IntN(2) == 1
	var moved [side * side]byte
	for c := range 3 {
		x := sample[0][c*side*side:][:side*side]
		clear(moved[:])
		for y := max(0, -dy); y < min(side, side-dy); y++ {
			from, to := max(0, dx), max(0, -dx)
			copy(moved[y*side+to:y*side+side-from], x[(y+dy)*side+from:(y+dy)*side+side-to])
		}
		if !flip {
			copy(x, moved[:])
			continue
		}
		for y := range side {
			row, into := moved[y*side:][:side], x[y*side:][:side]
			for i := range row {
				into[side-1-i] = row[i]
			}
		}
	}
	return nil
}
