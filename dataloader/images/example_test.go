package images_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/dataloader/images"
)

// writePictures writes a folder with two classes of four JPEG files each.
func writePictures() (dir string) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		log.Fatal(err)
	}
	for k, class := range []string{"night", "day"} {
		for i := range 4 {
			m := image.NewGray(image.Rect(0, 0, 64, 48))
			for at := range m.Pix {
				m.Pix[at] = uint8(40 + 120*k + i*10 + at%64/4)
			}
			var b bytes.Buffer
			name := filepath.Join(dir, class, fmt.Sprintf("%d.jpg", i))
			if err := jpeg.Encode(&b, m, nil); err != nil {
				log.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				log.Fatal(err)
			}
			if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
	return dir
}

// A folder of pictures with a subfolder for each class, augmented in the workers of a loader.
func Example() {
	dir := writePictures()
	defer os.RemoveAll(dir)

	p, err := images.New(images.Options{Height: 32, Width: 32, Steps: []images.Step{
		images.RandomResizedCrop{Scale: [2]float64{0.3, 1}},
		images.Flip{Horizontal: 0.5},
		images.ColourJitter{Brightness: 0.2, Contrast: 0.2},
	}})
	if err != nil {
		log.Fatal(err)
	}
	folder, err := images.Open(dir, images.FolderOptions{Pipeline: p})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()
	fmt.Println(folder.Len(), "pictures of", folder.Classes())

	l, err := dataloader.New(folder, dataloader.Options{Batch: 4, Shuffle: true, Seed: 1, Workers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	slots := []dataloader.Slot{{Fields: [][]byte{make([]byte, 4*3*32*32), make([]byte, 4*4)}}}
	run, err := l.Epoch(context.Background(), 0, slots) // a trainer does this
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	for {
		b, err := run.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("step", b.Step, "labels", dataloader.View[int32](slots[b.Slot].Fields[1])[:b.Rows])
		if err := run.Release(b.Slot, nil); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 8 pictures of [day night]
	// step 0 labels [0 0 1 1]
	// step 1 labels [0 1 1 0]
}

// A pipeline decodes the encoded pictures of any format that carries them.
func ExamplePipeline_Decode() {
	p, err := images.New(images.Options{Height: 2, Width: 2, Channels: 1})
	if err != nil {
		log.Fatal(err)
	}
	m := image.NewGray(image.Rect(0, 0, 4, 4))
	for i := range m.Pix {
		m.Pix[i] = 100
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		log.Fatal(err)
	}
	x := make([]byte, p.Field("x").Bytes())
	if err := p.Decode(dataloader.At{}, file.Bytes(), x); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Field("x").Shape, x)
	// Output: [1 2 2] [100 100 100 100]
}

// A step of one's own changes the samples of a picture.
func ExampleFunc() {
	invert := images.Func{Name: "invert", Do: func(at dataloader.At, p images.Picture) error {
		for i, v := range p.Pix {
			p.Pix[i] = 255 - v
		}
		return nil
	}}
	p, err := images.New(images.Options{Height: 1, Width: 3, Channels: 1, Steps: []images.Step{images.Resize{}, invert}})
	if err != nil {
		log.Fatal(err)
	}
	m := image.NewGray(image.Rect(0, 0, 3, 1))
	m.SetGray(1, 0, color.Gray{Y: 55})
	ds, err := images.FromImages([]image.Image{m}, []int32{0}, p)
	if err != nil {
		log.Fatal(err)
	}
	x, y := make([]byte, 3), make([]byte, 4)
	if err := ds.Fetch(context.Background(), dataloader.At{}, [][]byte{x, y}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(x)
	// Output: [255 200 255]
}

// A contact sheet shows three random changes of each of four pictures.
func ExampleContactSheet() {
	dir := writePictures()
	defer os.RemoveAll(dir)
	p, err := images.New(images.Options{Height: 32, Width: 32, Steps: []images.Step{images.RandomResizedCrop{}}})
	if err != nil {
		log.Fatal(err)
	}
	folder, err := images.Open(dir, images.FolderOptions{Pipeline: p})
	if err != nil {
		log.Fatal(err)
	}
	defer folder.Close()
	sheet, err := images.ContactSheet(context.Background(), folder, images.SheetOptions{Count: 4, Repeat: 3, Columns: 6, Classes: folder.Classes()})
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, sheet); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sheet.Bounds().Size())
	// Output: (604,234)
}
