//go:build gpu && cgo

package cuda

// fatal reports whether all later calls of the context fail after this error.
func (e *DriverError) fatal() bool {
	switch e.Code {
	case 4, 201, 214, 220, 226, 709, 710, 700, 702, 714, 715, 716, 717, 718, 719, 999:
		return true
	}
	return false
}

// poisonedError is the error of every call after a fatal error.
type poisonedError struct{ first error }

func (e *poisonedError) Error() string   { return ErrPoisoned.Error() + ": " + e.first.Error() }
func (e *poisonedError) Unwrap() []error { return []error{ErrPoisoned, e.first} }

// unsupported reports whether the driver or the GPU lacks the feature that the call needs.
func (e *DriverError) unsupported() bool { return e.Code == 801 || e.Code == 900 }
