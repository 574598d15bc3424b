//go:build !gpu

package fakecuda

import (
	"fmt"
	"unsafe"
)

// Loaded reports whether the driver of this process is the emulated one.
func Loaded() bool { return false }

// Ledger counts living objects.
func Ledger() (Objects, error) { return objects([12]uint64{}), ErrNotLoaded }

// Calls returns how often a function of the driver was called since the last Forget; name "": any function.
func Calls(string) uint64 { return 0 }

// Called returns how often each function of the driver was called since the last Forget.
func Called() map[string]uint64 { return nil }

// Copied returns how many bytes a function of the driver was asked to copy since the last Forget.
func Copied(string) uint64 { return 0 }

// Fail makes the n-th call from now on of a function answer code.
func Fail(string, uint64, int) error { return ErrNotLoaded }

// Omit makes the n-th call from now on of a function do nothing and answer success.
func Omit(string, uint64) error { return ErrNotLoaded }

// Set changes a setting.
func Set(string, int64) error { return ErrNotLoaded }

// Touch says that the host reads or writes pinned memory now.
func Touch(unsafe.Pointer, int64, bool) error { return ErrNotLoaded }

// Reports returns what the driver complained about since the last Forget.
func Reports() []string { return nil }

// Forget takes reports, counts of calls and counts of bytes back.
func Forget() {}

// Invoke calls any function of the driver whose arguments are integers and pointers.
func Invoke(name string, _ ...uintptr) (int, error) {
	return 0, fmt.Errorf("%s: %w", name, ErrNotLoaded)
}
