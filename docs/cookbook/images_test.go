package cookbook_test

// The program of images.md begins here.
import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"gorgonia.org/gorgonia"

	_ "image/jpeg" // image.Decode then reads JPEG files, too

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/kernels/cpu"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/layers"
	"github.com/evenkeel/evenkeel/trainer/optim"
)

const side = 16 // width and height of the images in pixels

// images is a dataset of the files in the folders of a file system: a folder is a class.
type images struct {
	files   fs.FS
	classes []string
	names   []string // of the files
	labels  []uint8  // by file: the index of its class
}

// openImages lists the files. Folders and files are in alphabetical order.
func openImages(files fs.FS) (images, error) {
	d := images{files: files}
	folders, err := fs.ReadDir(files, ".")
	if err != nil {
		return d, err
	}
	for _, folder := range folders {
		names, err := fs.Glob(files, path.Join(folder.Name(), "*.[pj][np]*g")) // .png, .jpg, .jpeg
		if err != nil {
			return d, err
		}
		for _, name := range names {
			d.names, d.labels = append(d.names, name), append(d.labels, uint8(len(d.classes)))
		}
		d.classes = append(d.classes, folder.Name())
	}
	return d, nil
}

// part returns every fifth file, or with others set all others: each class is split alike.
func (d images) part(others bool) images {
	p := images{files: d.files, classes: d.classes}
	for i, name := range d.names {
		if (i%5 != 0) == others {
			p.names, p.labels = append(p.names, name), append(p.labels, d.labels[i])
		}
	}
	return p
}

func (d images) Len() int { return len(d.names) }

// Fields returns the pixels, which stay bytes until the device scales them to 0..1, and the label.
func (images) Fields() []dataloader.Field {
	return []dataloader.Field{
		{Name: "x", Type: arena.Uint8, Shape: []int{3, side, side}, Scale: 1.0 / 255},
		{Name: "y", Type: arena.Uint8},
	}
}

// Fetch decodes a file. Several workers of the trainer call it at once.
func (d images) Fetch(_ context.Context, at dataloader.At, dst [][]byte) error {
	name := d.names[at.Index]
	f, err := d.files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	picture, _, err := image.Decode(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if size := picture.Bounds().Size(); size != image.Pt(side, side) {
		return fmt.Errorf("%s: %v pixels, must be %d x %d", name, size, side, side)
	}
	for i := range side * side {
		r, g, b, _ := picture.At(picture.Bounds().Min.X+i%side, picture.Bounds().Min.Y+i/side).RGBA()
		for channel, v := range []uint32{r, g, b} {
			dst[0][channel*side*side+i] = uint8(v >> 8)
		}
	}
	dst[1][0] = d.labels[at.Index]
	return nil
}

// stripes is a small convolutional network for that many classes.
func stripes(classes int) trainer.ModelFunc {
	return func(g *gorgonia.ExprGraph, batch int) (trainer.Model, error) {
		net := layers.New(g)
		x := net.Input("x", batch, 3, side, side)
		h := net.Conv(x, "conv", layers.Conv2D{Out: 8, Kernel: layers.Square(3), Pad: layers.Square(1)}, layers.ReLU)
		h = net.MaxPool(h, "pool", layers.Pool{Kernel: layers.Square(2)})
		h = net.Dense(net.Flatten(h, "flat"), "hidden", 32, layers.ReLU)
		return net.Classifier(x, net.Dense(h, "out", classes, nil))
	}
}

func Example_images() {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := draw(dir, 100); err != nil {
		log.Fatal(err)
	}
	all, err := openImages(os.DirFS(dir))
	if err != nil {
		log.Fatal(err)
	}
	train, val := all.part(true), all.part(false)
	ctx := context.Background()
	dev, err := cpu.Open(cpu.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	t, err := trainer.New(ctx, stripes(len(all.classes)), trainer.Options{Device: dev, Batch: 20,
		Optimizer: optim.Adam{Rate: 3e-3}, Resident: []dataloader.Dataset{&train, &val}})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	for range 8 {
		if _, err := t.Fit(ctx, &train); err != nil {
			log.Fatal(err)
		}
	}
	result, err := t.Evaluate(ctx, &val)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(all.classes, train.Len(), val.Len())
	fmt.Printf("accuracy above 0.9: %t\n", result.Accuracy > 0.9)
	// Output:
	// [horizontal vertical] 160 40
	// accuracy above 0.9: true
}

// draw writes n images of stripes to the folder of each class.
func draw(dir string, n int) error {
	r := rand.New(rand.NewPCG(1, 2))
	for _, class := range []string{"horizontal", "vertical"} {
		if err := os.Mkdir(filepath.Join(dir, class), 0o700); err != nil {
			return err
		}
		for i := range n {
			picture, at, wide := image.NewRGBA(image.Rect(0, 0, side, side)), r.IntN(8), 2+r.IntN(3)
			for p := range side * side {
				place := p % side
				if class == "horizontal" {
					place = p / side
				}
				c := color.RGBA{uint8(r.IntN(128)), uint8(r.IntN(128)), uint8(r.IntN(128)), 255}
				if (place+at)/wide%2 == 0 {
					c.R, c.G, c.B = c.R+100, c.G+100, c.B+100
				}
				picture.Set(p%side, p/side, c)
			}
			f, err := os.Create(filepath.Join(dir, class, fmt.Sprintf("%03d.png", i)))
			if err != nil {
				return err
			}
			if err := png.Encode(f, picture); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// The program of images.md ends here.
