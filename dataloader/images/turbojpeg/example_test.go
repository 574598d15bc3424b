package turbojpeg_test

import (
	"log"

	"github.com/evenkeel/evenkeel/dataloader/images"
	"github.com/evenkeel/evenkeel/dataloader/images/turbojpeg"
)

// JPEG is decoded by libturbojpeg if it is installed, else by image/jpeg.
func ExampleIfFound() {
	decoder, err := turbojpeg.IfFound(turbojpeg.Options{})
	if err != nil {
		log.Fatal(err)
	}
	p, err := images.New(images.Options{Height: 224, Width: 224, JPEG: decoder})
	if err != nil {
		log.Fatal(err)
	}
	log.Println("JPEG is decoded by", p.Decoder())
	// Output:
}
