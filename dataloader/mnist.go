package dataloader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
)

// mnistClasses is the number of classes, in MNIST and in Fashion-MNIST.
const mnistClasses = 10

// MNIST reads the four files of MNIST, or of a data set with the same files such as Fashion-MNIST,
// from a directory: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and
// t10k-labels-idx1-ubyte, each plain or with .gz. Names with ".idx" for "-idx" are accepted, too. A
// missing or damaged file is a *FormatError; for a missing file it wraps fs.ErrNotExist.
//
// A sample has the fields "x", uint8 with scale 1/255, and "y", uint8 in [0, 10). The shape of x is
// [28, 28], or the one given, such as 784 or 1, 28, 28. A sample needs 785 bytes of memory.
func MNIST(dir string, shape ...int) (train, test Dataset, err error) {
	return openBoth("mnist", "train", "t10k", func(part string) (Dataset, error) { return mnistPart(dir, part, shape) })
}

// mnistPart reads the images and labels of one part.
func mnistPart(dir, part string, shape []int) (Dataset, error) {
	images, imagesErr := openPart(dir, part+"-images-idx3-ubyte")
	if imagesErr != nil { // say as well what is wrong with the labels
		_, labelsErr := openPart(dir, part+"-labels-idx1-ubyte")
		return nil, errors.Join(imagesErr, labelsErr)
	}
	labels, err := mnistLabels(dir, part, images)
	if err != nil {
		return nil, err
	}
	ds, err := FromSlices(images.Len(), images.Array("x", shape...).Scaled(1.0/255, 0), labels.Array("y"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", images.File, err)
	}
	return ds, nil
}

// mnistLabels reads the labels of one part, and checks that they are those of the images.
func mnistLabels(dir, part string, images *IDX) (*IDX, error) {
	labels, err := openPart(dir, part+"-labels-idx1-ubyte")
	if err != nil {
		return nil, err
	}
	if images.Type != arena.Uint8 {
		return nil, &FormatError{File: images.File, Offset: 2, What: "type", Want: "uint8", Got: images.Type.String()}
	}
	if d := images.Dims; len(d) != 3 || d[1] != 28 || d[2] != 28 {
		return nil, &FormatError{File: images.File, Offset: 3, What: "dimensions", Want: "[N 28 28]", Got: fmt.Sprint(d)}
	}
	if labels.Type != arena.Uint8 {
		return nil, &FormatError{File: labels.File, Offset: 2, What: "type", Want: "uint8", Got: labels.Type.String()}
	}
	if err := labels.CheckLabels(mnistClasses); err != nil {
		return nil, err
	}
	if images.Len() != labels.Len() {
		return nil, &FormatError{File: labels.File, Offset: 4, What: "number of labels",
			Want: fmt.Sprintf("%d, as many as images in %s", images.Len(), images.File), Got: fmt.Sprint(labels.Len())}
	}
	if images.Len() == 0 {
		return nil, fmt.Errorf("%s: %w", images.File, ErrEmpty)
	}
	return labels, nil
}

// openPart reads the file called name.
func openPart(dir, name string) (*IDX, error) {
	path, err := partPath(dir, name)
	if err != nil {
		return nil, err
	}
	return OpenIDX(path, 0)
}

// partPath returns the path of the file called name, under any of the names with which it is published.
func partPath(dir, name string) (string, error) {
	dotted := strings.Replace(name, "-idx", ".idx", 1)
	for _, n := range []string{name, name + ".gz", dotted, dotted + ".gz"} {
		path := filepath.Join(dir, n)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return path, nil
	}
	return "", missingFile(filepath.Join(dir, name), "a file, plain or .gz")
}
