package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// Sizes of the data: those of data that fit into memory, since the comparison is of work and not of
// disks.
const (
	smallImages = 50_000 // 3×32×32
	photos      = 800    // 256×256
	classes     = 10
	tars        = 8
	tableRows   = 1_000_000
	columns     = 20
	fileTokens  = 50_000_000
	window      = 1024
)

// makeFiles writes the data of all rows to dir, but for the Parquet file.
func makeFiles(dir string) error {
	for _, f := range []func(dir string) error{makeSmall, makePhotos, makeTable, makeTokens} {
		if err := f(dir); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file through a buffer.
func write(path string, content func(w *bufio.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = content(w); err == nil {
		err = w.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// makeSmall writes small.npy, images of noise.
func makeSmall(dir string) error {
	return write(filepath.Join(dir, "small.npy"), func(w *bufio.Writer) error {
		header := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 3, 32, 32), }", smallImages)
		fmt.Fprintf(w, "\x93NUMPY\x01\x00v\x00%-117s\n", header)
		_, err := io.CopyN(w, rand.NewChaCha8([32]byte{1}), smallImages*3*32*32)
		return err
	})
}

// makePhotos writes photos/CLASS/N.jpg, and the same files in photos-N.tar.
func makePhotos(dir string) error {
	var b bytes.Buffer
	for shard := range tars {
		err := write(filepath.Join(dir, fmt.Sprintf("photos-%d.tar", shard)), func(w *bufio.Writer) error {
			t := tar.NewWriter(w)
			for i := shard * photos / tars; i < (shard+1)*photos/tars; i++ {
				folder := filepath.Join(dir, "photos", strconv.Itoa(i%classes))
				if err := os.MkdirAll(folder, 0o777); err != nil {
					return err
				}
				b.Reset()
				if err := jpeg.Encode(&b, photo(uint64(i)), &jpeg.Options{Quality: 90}); err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%05d.jpg", i)), b.Bytes(), 0o666); err != nil {
					return err
				}
				for _, e := range []struct {
					suffix string
					data   []byte
				}{{"jpg", b.Bytes()}, {"cls", []byte(strconv.Itoa(i % classes))}} {
					h := &tar.Header{Name: fmt.Sprintf("%05d.%s", i, e.suffix), Size: int64(len(e.data)), Mode: 0o666, Format: tar.FormatUSTAR}
					if err := t.WriteHeader(h); err != nil {
						return err
					}
					if _, err := t.Write(e.data); err != nil {
						return err
					}
				}
			}
			return t.Close()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// photo draws waves of several lengths and grain, which a JPEG file of the usual size of a
// photograph, about 16 KB, holds.
func photo(seed uint64) image.Image {
	const side = 256
	r := rand.New(rand.NewPCG(seed, 7))
	type wave struct{ x, y, phase, high float64 }
	var waves [3][12]wave
	for c := range waves {
		for k := range waves[c] {
			f := math.Exp2(float64(k)/2) / side * 2 * math.Pi
			angle := r.Float64() * 2 * math.Pi
			waves[c][k] = wave{f * math.Cos(angle), f * math.Sin(angle), r.Float64() * 7, 40 / math.Exp2(float64(k)/3)}
		}
	}
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for y := range side {
		for x := range side {
			grain := r.NormFloat64() * 3
			for c := range waves {
				v := 128 + grain
				for _, w := range waves[c] {
					v += w.high * math.Sin(w.x*float64(x)+w.y*float64(y)+w.phase)
				}
				m.Pix[m.PixOffset(x, y)+c] = uint8(min(max(v, 0), 255))
			}
			m.Pix[m.PixOffset(x, y)+3] = 255
		}
	}
	return m
}

// makeTable writes table.csv, numbers of six digits under a header.
func makeTable(dir string) error {
	return write(filepath.Join(dir, "table.csv"), func(w *bufio.Writer) error {
		r := rand.New(rand.NewPCG(2, 7))
		for c := range columns {
			fmt.Fprintf(w, "%sc%d", ","[:min(c, 1)], c)
		}
		var line []byte
		for range tableRows {
			line = append(line[:0], '\n')
			for c := range columns {
				line = append(line, ","[:min(c, 1)]...)
				line = strconv.AppendFloat(line, r.NormFloat64()*100, 'f', 6, 64)
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return w.WriteByte('\n')
	})
}

// makeTokens writes tokens.bin, random numbers below 50,257.
func makeTokens(dir string) error {
	return write(filepath.Join(dir, "tokens.bin"), func(w *bufio.Writer) error {
		r := rand.New(rand.NewPCG(3, 7))
		for range fileTokens {
			if _, err := w.Write(binary.LittleEndian.AppendUint16(w.AvailableBuffer(), uint16(r.IntN(50257)))); err != nil {
				return err
			}
		}
		return nil
	})
}
