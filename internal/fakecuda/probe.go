//go:build gpu

package fakecuda

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// All arguments are integers or pointers, so that one type of function serves all calls: a callee
// ignores further arguments.
typedef int (*any)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
static void *lookup(const char *name) { return dlsym(RTLD_DEFAULT, name); }
static int invoke(void *f, uintptr_t *a) { return ((any)f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]); }
static uint64_t count(void *f, const char *name) { return ((uint64_t (*)(const char *))f)(name); }
static int fail(void *f, const char *name, uint64_t n, int code) { return ((int (*)(const char *, uint64_t, int))f)(name, n, code); }
static int set(void *f, const char *name, int64_t v) { return ((int (*)(const char *, int64_t))f)(name, v); }
static int ledger(void *f, uint64_t *out) { return ((int (*)(uint64_t *, int))f)(out, 12); }
static int touch(void *f, void *p, size_t bytes, int write) { return ((int (*)(void *, size_t, int))f)(p, bytes, write); }
static int text(void *f, int i, char *text, int bytes) { return ((int (*)(int, char *, int))f)(i, text, bytes); }
static int forget(void *f) { return ((int (*)(void))f)(); }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

var symbols = struct {
	sync.Mutex
	found map[string]unsafe.Pointer
}{found: make(map[string]unsafe.Pointer)}

// symbol returns a function of the loaded driver, or nil. Only the first call for a name allocates.
func symbol(name string) unsafe.Pointer {
	symbols.Lock()
	defer symbols.Unlock()
	if p := symbols.found[name]; p != nil {
		return p
	}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	p := C.lookup(s)
	if p != nil {
		symbols.found[name] = p
	}
	return p
}

// Loaded reports whether the driver of this process is the emulated one.
func Loaded() bool { return symbol("fakecuda_ledger") != nil }

// Ledger counts the live objects.
func Ledger() (Objects, error) {
	f := symbol("fakecuda_ledger")
	if f == nil {
		return Objects{}, ErrNotLoaded
	}
	var n [12]uint64
	if code := C.ledger(f, (*C.uint64_t)(&n[0])); code != 0 {
		return Objects{}, fmt.Errorf("fakecuda_ledger: CUDA error %d", code)
	}
	return objects(n), nil
}

// Calls returns the number of calls of a driver function since the last Forget; name "": of all
// functions. Names have no suffix _v2.
func Calls(name string) uint64 {
	f := symbol("fakecuda_calls")
	if f == nil {
		return 0
	}
	if name == "" {
		return uint64(C.count(f, nil))
	}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return uint64(C.count(f, s))
}

// Called returns the number of calls of each driver function since the last Forget.
func Called() map[string]uint64 {
	all := make(map[string]uint64)
	for _, name := range texts("fakecuda_called") {
		all[name] = Calls(name)
	}
	return all
}

// Copied returns the bytes that a driver function has copied since the last Forget, without the
// copies in graphs.
func Copied(name string) uint64 {
	f := symbol("fakecuda_copied")
	if f == nil {
		return 0
	}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return uint64(C.count(f, s))
}

// Fail makes the n-th call of a function from now on return code, a CUresult; 1 is the next call. n
// 0 removes the faults of the function, or of all functions for name "".
func Fail(name string, n uint64, code int) error {
	f := symbol("fakecuda_fail")
	if f == nil {
		return ErrNotLoaded
	}
	var s *C.char
	if name != "" {
		s = C.CString(name)
		defer C.free(unsafe.Pointer(s))
	}
	if got := C.fail(f, s, C.uint64_t(n), C.int(code)); got != 0 {
		return fmt.Errorf("fakecuda: fail call %d of %q: CUDA error %d", n, name, got)
	}
	return nil
}

// Omit makes the n-th call of a function from now on do nothing and return success; 1 is the next
// call. The function must only order work: cuEventRecord, cuStreamWaitEvent, cuEventSynchronize or
// cuStreamSynchronize. Fail with n 0 removes the fault.
func Omit(name string, n uint64) error { return Fail(name, n, omitted) }

const omitted = -1 // kOmitted in driver.hpp

// Set changes a setting, such as delay_us or hold: see Config in driver.hpp.
func Set(name string, value int64) error {
	f := symbol("fakecuda_set")
	if f == nil {
		return ErrNotLoaded
	}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	if code := C.set(f, s, C.int64_t(value)); code != 0 {
		return fmt.Errorf("fakecuda: there is no setting %q", name)
	}
	return nil
}

// Touch records that the host now reads or writes pinned memory, which the race checker cannot observe.
func Touch(p unsafe.Pointer, bytes int64, write bool) error {
	f := symbol("fakecuda_touch")
	if f == nil {
		return ErrNotLoaded
	}
	w := C.int(0)
	if write {
		w = 1
	}
	if code := C.touch(f, p, C.size_t(bytes), w); code != 0 {
		return fmt.Errorf("fakecuda: touch of %d bytes at %p: they are not all pinned", bytes, p)
	}
	return nil
}

// Reports returns the mistakes that the driver has detected since the last Forget. Each begins with
// its kind: race, pageable, fault, launch, module, nccl, unsupported or setting.
func Reports() []string { return texts("fakecuda_report") }

// texts calls a function of the driver with 0, 1, … until it returns -1, and returns the texts.
func texts(name string) []string {
	f := symbol(name)
	if f == nil {
		return nil
	}
	var all []string
	for i := 0; ; i++ {
		n := C.text(f, C.int(i), nil, 0)
		if n < 0 {
			return all
		}
		text := (*C.char)(C.malloc(C.size_t(n) + 1))
		C.text(f, C.int(i), text, n+1)
		all = append(all, C.GoString(text))
		C.free(unsafe.Pointer(text))
	}
}

// Forget clears reports and the counts of calls and bytes. The counts of objects stay.
func Forget() {
	if f := symbol("fakecuda_forget"); f != nil {
		C.forget(f)
	}
}

// Invoke calls any function of the driver whose arguments are integers and pointers, at most 11,
// and returns its CUresult.
func Invoke(name string, args ...uintptr) (int, error) {
	f := symbol(name)
	if f == nil {
		return 0, fmt.Errorf("%s: %w", name, ErrNotLoaded)
	}
	var a [11]C.uintptr_t
	if len(args) > len(a) {
		return 0, fmt.Errorf("%s: %d arguments, at most %d can be passed", name, len(args), len(a))
	}
	for i, v := range args {
		a[i] = C.uintptr_t(v)
	}
	return int(C.invoke(f, &a[0])), nil
}
