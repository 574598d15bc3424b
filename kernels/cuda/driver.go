//go:build gpu && cgo

package cuda

/*
#cgo LDFLAGS: -lcuda
#include <stdlib.h>
#include <string.h>
#include <cuda.h>

// What a step needs at run time. Arguments lie in C memory, a slot of 8 bytes each.
typedef struct {
	int kind; // stepKind
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **args;
	CUdeviceptr dst, src;
	size_t bytes;
	unsigned char value;
} ek_step;

enum { EK_KERNEL, EK_COPY, EK_FILL };

// What ek_run answers is one value: results by way of pointers would move Go variables to the heap.
typedef struct {
	CUresult code;
	int at, waited; // the step that went wrong, and whether in the wait for it
} ek_result;

// ek_run enqueues n steps, and waits for each where asked.
static ek_result ek_run(const ek_step *s, int n, CUstream stream, int wait) {
	for (int i = 0; i < n; i++, s++) {
		CUresult r = CUDA_ERROR_INVALID_VALUE;
		int waited = 0;
		switch (s->kind) {
		case EK_KERNEL:
			r = cuLaunchKernel(s->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], s->shared, stream, s->args, NULL);
			break;
		case EK_COPY:
			r = cuMemcpyAsync(s->dst, s->src, s->bytes, stream);
			break;
		case EK_FILL:
			r = cuMemsetD8Async(s->dst, s->value, s->bytes, stream);
			break;
		}
		if (r == CUDA_SUCCESS && wait) {
			waited = 1;
			r = cuStreamSynchronize(stream);
		}
		if (r != CUDA_SUCCESS) return (ek_result){r, i, waited};
	}
	return (ek_result){CUDA_SUCCESS, 0, 0};
}

// ek_load loads a module, and keeps what the driver's compiler says.
static CUresult ek_load(CUmodule *m, const char *image, char *log, size_t size) {
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)size};
	return cuModuleLoadDataEx(m, image, 2, options, values);
}

static CUresult ek_pin(void **p, size_t bytes) { return cuMemHostAlloc(p, bytes, CU_MEMHOSTALLOC_PORTABLE); }

static CUresult ek_instantiate(CUgraphExec *e, CUgraph g) { return cuGraphInstantiateWithFlags(e, g, 0); }

static CUresult ek_query(CUevent e) { return cuEventQuery(e); }
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// All that is cgo is here: the calls of the driver that cu lacks, or that would allocate in it.

// driverError is the error of a call that answered code, nil for 0.
func driverError(call string, code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return newDriverError(call, int(code))
}

func newDriverError(call string, code int) *DriverError {
	var name *C.char
	e := &DriverError{Call: call, Code: code, Name: "an error without a name"}
	if C.cuGetErrorName(C.CUresult(code), &name) == C.CUDA_SUCCESS && name != nil {
		e.Name = C.GoString(name)
	}
	return e
}

// The driver's handles within cu's types, which do not all show them.
func rawStream(s cu.Stream) C.CUstream       { return *(*C.CUstream)(unsafe.Pointer(&s)) }
func rawEvent(e cu.Event) C.CUevent          { return *(*C.CUevent)(unsafe.Pointer(&e)) }
func rawFunction(f cu.Function) C.CUfunction { return *(*C.CUfunction)(unsafe.Pointer(&f)) }

// pin makes a block of pinned memory.
func pin(bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := driverError("cuMemHostAlloc", C.ek_pin(&p, C.size_t(bytes)))
	return p, err
}

// hostBytes shows pinned memory.
func hostBytes(p unsafe.Pointer, bytes int64) []byte {
	return unsafe.Slice((*byte)(p), bytes)
}

// pinnedAt is the address of pinned memory: one space holds the host's and the device's.
func pinnedAt(p unsafe.Pointer) address { return address(uintptr(p)) }

// query reports whether an event is done. An error counts as done: waiting would return it at once.
func query(e cu.Event) bool { return C.ek_query(rawEvent(e)) != C.CUDA_ERROR_NOT_READY }

// loadModule compiles PTX. said is what the compiler had to say.
func loadModule(ptx string) (m cu.Module, said string, err error) {
	const size = 4096
	text, log := C.CString(ptx), (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(log))
	code := C.ek_load((*C.CUmodule)(unsafe.Pointer(&m)), text, log, size)
	return m, C.GoString(log), driverError("cuModuleLoadDataEx", code)
}

// allowShared lets blocks of a function have more shared memory than they may without asking.
func allowShared(f cu.Function, bytes int) error {
	return driverError("cuFuncSetAttribute", C.cuFuncSetAttribute(rawFunction(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// batch is steps in C memory, and the graph that they were captured into.
type batch struct {
	block unsafe.Pointer // holds steps, then pointers to arguments, then arguments
	steps *C.ek_step
	n     int
	exec  C.CUgraphExec // nil: launched one by one
}

// newBatch lays out steps, none of them the host's. functions are those of the kernels, nothing at other steps.
func newBatch(steps []step, functions []cu.Function) *batch {
	args := 0
	for i := range steps {
		args += len(steps[i].args)
	}
	const slot = 8
	head := uintptr(len(steps)) * unsafe.Sizeof(C.ek_step{})
	b := &batch{n: len(steps), block: C.calloc(1, C.size_t(head+uintptr(2*args*slot)+1))}
	b.steps = (*C.ek_step)(b.block)
	pointers := unsafe.Add(b.block, head)
	values := unsafe.Add(pointers, args*slot)
	for i := range steps {
		s, from := &unsafe.Slice(b.steps, len(steps))[i], &steps[i]
		s.kind = C.int(from.kind)
		s.function = rawFunction(functions[i])
		s.grid = [3]C.uint{C.uint(from.grid.x), C.uint(from.grid.y), C.uint(from.grid.z)}
		s.block = [3]C.uint{C.uint(from.block.x), C.uint(from.block.y), C.uint(from.block.z)}
		s.shared, s.dst, s.src = C.uint(from.shared), C.CUdeviceptr(from.dst), C.CUdeviceptr(from.src)
		s.bytes, s.value = C.size_t(from.bytes), C.uchar(from.value)
		s.args = (*unsafe.Pointer)(pointers)
		for _, a := range from.args {
			*(*uint64)(values) = a
			*(*unsafe.Pointer)(pointers) = values
			pointers, values = unsafe.Add(pointers, slot), unsafe.Add(values, slot)
		}
	}
	return b
}

// run enqueues the steps one by one. at is the one that went wrong.
func (b *batch) run(s cu.Stream, wait bool) (at int, err error) {
	if b.n == 0 {
		return 0, nil
	}
	var w C.int
	if wait {
		w = 1
	}
	r := C.ek_run(b.steps, C.int(b.n), rawStream(s), w)
	if r.code == C.CUDA_SUCCESS {
		return 0, nil
	}
	call := "cuStreamSynchronize"
	if r.waited == 0 {
		call = stepCalls[unsafe.Slice(b.steps, b.n)[r.at].kind]
	}
	return int(r.at), driverError(call, r.code)
}

// stepCalls are the driver's calls by kind of step.
var stepCalls = [...]string{stepKernel: "cuLaunchKernel", stepCopy: "cuMemcpyAsync", stepFill: "cuMemsetD8Async"}

// capture makes a graph of the steps, by way of a stream that does nothing else. at is the step that went wrong, -1 for none.
func (b *batch) capture(s cu.Stream) (at int, err error) {
	// Other threads may allocate and free meanwhile.
	if err := driverError("cuStreamBeginCapture", C.cuStreamBeginCapture(rawStream(s), C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); err != nil {
		return -1, err
	}
	var graph C.CUgraph
	at, err = b.run(s, false)
	if end := driverError("cuStreamEndCapture", C.cuStreamEndCapture(rawStream(s), &graph)); err == nil && end != nil {
		at, err = -1, end
	}
	if graph != nil {
		if err == nil {
			at, err = -1, driverError("cuGraphInstantiate", C.ek_instantiate(&b.exec, graph))
		}
		if end := driverError("cuGraphDestroy", C.cuGraphDestroy(graph)); err == nil {
			err = end
		}
	}
	return at, err
}

// replay launches the graph.
func (b *batch) replay(s cu.Stream) error {
	return driverError("cuGraphLaunch", C.cuGraphLaunch(b.exec, rawStream(s)))
}

// release frees all. Safe to call twice.
func (b *batch) release() error {
	var err error
	if b.exec != nil {
		err = driverError("cuGraphExecDestroy", C.cuGraphExecDestroy(b.exec))
		b.exec = nil
	}
	C.free(b.block)
	b.block, b.steps, b.n = nil, nil, 0
	return err
}
