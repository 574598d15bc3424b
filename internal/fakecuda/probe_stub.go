//go:build !gpu

package fakecuda

import (
	"fmt"
	"unsafe"
)

// Loaded reports whether the driver of this process is the emulated one.
func Loaded() bool { return false }

// Ledger counts the live objects.
func Ledger() (Objects, error) { return objects([12]uint64{}), ErrNotLoaded }

// Calls returns the number of calls of a driver function since the last Forget; name "": of all
// functions.
func Calls(string) uint64 { return 0 }

// Called returns the number of calls of each driver function since the last Forget.
func Called() map[string]uint64 { return nil }

// Copied returns the bytes that a driver function has copied since the last Forget.
func Copied(string) uint64 { return 0 }

// Fail makes the n-th call of a function from now on return code.
func Fail(string, uint64, int) error { return ErrNotLoaded }

// Omit makes the n-th call of a function from now on do nothing and return success.
func Omit(string, uint64) error { return ErrNotLoaded }

// Set changes a setting.
func Set(string, int64) error { return ErrNotLoaded }

// Touch records that the host now reads or writes pinned memory.
func Touch(unsafe.Pointer, int64, bool) error { return ErrNotLoaded }

// Reports returns the mistakes that the driver has detected since the last Forget.
func Reports() []string { return nil }

// Forget clears reports and the counts of calls and bytes.
func Forget() {}

// Invoke calls any function of the driver whose arguments are integers and pointers.
func Invoke(name string, _ ...uintptr) (int, error) {
	return 0, fmt.Errorf("%s: %w", name, ErrNotLoaded)
}
