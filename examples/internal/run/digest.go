package run

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/evenkeel/evenkeel/trainer"
)

// digest returns the SHA-256, in hexadecimal, of the bytes of all parameters and running statistics,
// in the order of [trainer.Trainer.Params]. Two runs with equal digests learned equal bits.
func digest(t *trainer.Trainer) (string, error) {
	params, err := t.Params()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, p := range params {
		b := make([]byte, p.Spec.Bytes())
		if err := p.Read(b); err != nil {
			return "", err
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
