// Package images turns encoded pictures into fields of samples: it decodes, crops, resizes and
// augments them in the workers of a loader, straight into the slots of the trainer.
//
// A [Pipeline] has the size of the field and a list of steps ([RandomResizedCrop], [Flip],
// [ColourJitter] and others). It is a [dataloader.Decoder], which archives and tables take for a
// column of encoded pictures. [Open] makes a dataset of a folder with a subfolder for each class,
// [FromImages] one of pictures in memory. [ContactSheet] draws samples to look at.
//
//	JPEG ─► planes Y Cb Cr ──┐ view: crop, scale, flip    later steps, in place
//	PNG … ─► planes R G B ───┴───── one pass ───────────► [C, H, W] ─► slot, uint8
//
// Crops, scaling and flips that follow one another are one pass over the decoded planes, chroma at
// its own resolution, with a triangle filter that widens where it shrinks (antialiasing), as
// BILINEAR of Pillow. Pixels are within 1 of 255 of Pillow's for lossless files. For JPEG they are
// within 4, on average 0.5, and up to 12 at edges of saturated colours.
//
// A picture depends only on its bytes and on the seed, epoch and index of its sample, each step
// with draws of its own; the same sample in two fields has the same draws. The field is stored in 8
// bits and decoded to numbers on the device, unless float32 is asked for.
//
// # Formats
//
// The format is found from the first bytes, never from a name. JPEG (baseline and progressive; grey,
// YCbCr, RGB, CMYK), PNG (all kinds; of 16 bits a uint8 field takes the high byte, a float32 field
// all), GIF (the rectangle of the first frame), WebP (still) and BMP are converted to the channels
// of the field. Refused, as *dataloader.FormatError: damaged files, JPEG without a height or with
// arithmetic coding, animated WebP, and pictures that are larger than MaxPixels or than their file
// can hold, before memory is allocated for them.
//
// # Memory
//
// Steps and resampling allocate nothing in the steady state: each worker keeps its scratch memory,
// about the size of the largest picture. The decoders allocate for each picture, for 256 × 256
// pixels about: JPEG 6 objects, 110 KB (progressive 12, 500 KB); PNG 70, 320 KB; WebP 13, 250 KB.
// Package turbojpeg reuses its memory. Decoding needs at most 8 bytes a pixel beyond the scratch,
// so MaxPixels bounds it. A decoder that panics is an error of its sample.
package images
