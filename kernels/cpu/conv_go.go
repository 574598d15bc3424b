//go:build !amd64 || purego

package cpu

// packerFor returns the packing functions for the tiles of s.
func packerFor(s *isa) *packer { return goPacker(s) }
