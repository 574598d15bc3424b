// Package numeric holds the number formats and random bits that an operation defines exactly, for
// the references in package kernels and for the devices: the 8-bit codes of Adam8 ([EncodeRoot],
// [EncodeMean]) and their dither ([Dither]), and the random generators of dropout ([Philox]) and
// Adam16 ([Noise]). All devices give the same bits. Floats of 16 bits are in package float16.
package numeric

// Philox is the counter-based random generator Philox4x32-10: it returns four random words, which
// depend on counter and key only. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
// as easy as 1, 2, 3", SC 2011, section 3.3.
func Philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range PhiloxRounds {
		a, b := uint64(counter[0])*PhiloxM0, uint64(counter[2])*PhiloxM1
		counter = [4]uint32{uint32(b>>32) ^ counter[1] ^ key[0], uint32(b), uint32(a>>32) ^ counter[3] ^ key[1], uint32(a)}
		key[0] += PhiloxW0
		key[1] += PhiloxW1
	}
	return counter
}

// The constants of Philox4x32-10: the multipliers, the increments of the key in each round, and the
// number of rounds.
const (
	PhiloxM0     = 0xD2511F53
	PhiloxM1     = 0xCD9E8D57
	PhiloxW0     = 0x9E3779B9
	PhiloxW1     = 0xBB67AE85
	PhiloxRounds = 10
)
