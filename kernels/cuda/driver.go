//go:build gpu && cgo

package cuda

/*
#cgo LDFLAGS: -lcuda -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <cuda.h>
#include "nccl.h"

// ek_blas is cuBLAS: its handle, and the functions of the library that are used. They are the same
// since version 11.
typedef struct {
	void *handle;
	int (*create)(void **);
	int (*destroy)(void *);
	int (*set_stream)(void *, CUstream);
	int (*set_workspace)(void *, void *, size_t);
	int (*gemm)(void *, int, int, int, int, int, const void *, const void *, int, int, long long, const void *, int, int, long long,
		const void *, void *, int, int, long long, int, int, int);
} ek_blas;

// ek_gemm is struct gemm in cuBLAS's types.
typedef struct {
	const ek_blas *blas;
	int op_a, op_b, m, n, k, lead_a, lead_b, lead_c, batch, type, compute, add;
	long long step_a, step_b, step_c;
	CUdeviceptr a, b, c, work;
	size_t work_bytes;
} ek_gemm;

// ek_step is a step at run time. Arguments are in C memory, in slots of 8 bytes.
typedef struct {
	int kind; // stepKind
	CUfunction function;
	unsigned grid[3], block[3], shared;
	void **args;
	CUdeviceptr dst, src;
	size_t bytes;
	unsigned char value;
	ek_gemm gemm;
	ek_collective collective;
	int stream; // streamIndex
	CUevent event;
} ek_step;

enum { EK_KERNEL, EK_COPY, EK_FILL, EK_GEMM, EK_RECORD, EK_WAIT, EK_COLLECTIVE };

// ek_streams are the streams of a program, by streamIndex.
typedef struct {
	CUstream at[3];
} ek_streams;

// ek_result is the result of ek_run. It is returned by value: pointers to results would move Go
// variables to the heap.
typedef struct {
	CUresult code;
	int at, waited; // the step that went wrong, and whether in the wait for it
	int status;     // of cuBLAS or NCCL, 0: it is the driver's code
	const char *call; // of theirs
} ek_result;

// ek_product enqueues a product. The workspace must be set after the stream, which resets it.
static int ek_product(const ek_gemm *g, CUstream stream, const char **call) {
	static const float ones[] = {0, 1};
	static const double doubles[] = {0, 1};
	const void *one = g->type == 1 ? (const void *)&doubles[1] : &ones[1], *beta = g->type == 1 ? (const void *)&doubles[g->add] : &ones[g->add];
	const ek_blas *l = g->blas;
	int status;
	*call = "cublasSetStream";
	if ((status = l->set_stream(l->handle, stream))) return status;
	*call = "cublasSetWorkspace";
	if ((status = l->set_workspace(l->handle, (void *)g->work, g->work_bytes))) return status;
	*call = "cublasGemmStridedBatchedEx";
	return l->gemm(l->handle, g->op_a, g->op_b, g->m, g->n, g->k, one, (const void *)g->a, g->type, g->lead_a, g->step_a, (const void *)g->b, g->type, g->lead_b,
		g->step_b, beta, (void *)g->c, g->type, g->lead_c, g->step_c, g->batch, g->compute, -1);
}

// ek_open_blas loads a library and makes its handle. It returns null, or the message of dlopen;
// status is that of making the handle.
static const char *ek_open_blas(ek_blas *l, const char *name, int *status) {
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!lib) return dlerror();
	const struct { const char *name; void **to; } symbols[] = {
		{"cublasCreate_v2", (void **)&l->create}, {"cublasDestroy_v2", (void **)&l->destroy},
		{"cublasSetStream_v2", (void **)&l->set_stream},
		{"cublasSetWorkspace_v2", (void **)&l->set_workspace}, {"cublasGemmStridedBatchedEx", (void **)&l->gemm},
	};
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		if (!(*symbols[i].to = dlsym(lib, symbols[i].name))) return dlerror();
	*status = l->create(&l->handle);
	return NULL;
}

static int ek_close_blas(ek_blas *l) { return l->destroy(l->handle); }

// ek_run enqueues n steps, each on its stream, and with wait waits for each.
static ek_result ek_run(const ek_step *s, int n, ek_streams on, int wait) {
	for (int i = 0; i < n; i++, s++) {
		CUstream stream = on.at[s->stream];
		CUresult r = CUDA_ERROR_INVALID_VALUE;
		int waited = 0, status = 0;
		const char *call = NULL;
		switch (s->kind) {
		case EK_KERNEL:
			r = cuLaunchKernel(s->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
				s->shared, stream, s->args, NULL);
			break;
		case EK_COPY:
			r = cuMemcpyAsync(s->dst, s->src, s->bytes, stream);
			break;
		case EK_FILL:
			r = cuMemsetD8Async(s->dst, s->value, s->bytes, stream);
			break;
		case EK_GEMM:
			r = (status = ek_product(&s->gemm, stream, &call)) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
			break;
		case EK_RECORD:
			r = cuEventRecord(s->event, stream);
			break;
		case EK_WAIT:
			r = cuStreamWaitEvent(stream, s->event, 0);
			break;
		case EK_COLLECTIVE:
			r = (status = ek_collect(&s->collective, stream, &call)) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
			break;
		}
		if (r == CUDA_SUCCESS && wait) {
			waited = 1;
			r = cuStreamSynchronize(stream);
		}
		if (r != CUDA_SUCCESS) return (ek_result){r, i, waited, status, call};
	}
	return (ek_result){CUDA_SUCCESS, 0, 0, 0, NULL};
}

// ek_load loads a module, and keeps the log of the driver's compiler.
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
	"sync"
	"unsafe"

	"gorgonia.org/cu"
)

// All cgo code is here: the calls of the driver that cu lacks, and those that would allocate in it.

// driverError is the error of a call that returned code, nil for 0.
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

// query reports whether an event is done. An error counts as done.
func query(e cu.Event) (bool, error) {
	code := C.ek_query(rawEvent(e))
	if code == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return true, driverError("cuEventQuery", code)
}

// loadModule compiles PTX. compilerLog is its log.
func loadModule(ptx string) (m cu.Module, compilerLog string, err error) {
	const size = 4096
	text, log := C.CString(ptx), (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(log))
	code := C.ek_load((*C.CUmodule)(unsafe.Pointer(&m)), text, log, size)
	return m, C.GoString(log), driverError("cuModuleLoadDataEx", code)
}

// allowShared raises the limit of dynamic shared memory for blocks of a function.
func allowShared(f cu.Function, bytes int) error {
	return driverError("cuFuncSetAttribute",
		C.cuFuncSetAttribute(rawFunction(f), C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(bytes)))
}

// batch holds steps in C memory, and the graph that they were captured into.
type batch struct {
	block     unsafe.Pointer // holds steps, then pointers to arguments, then arguments
	steps     *C.ek_step
	n         int
	blas      *blas         // where a step is a product by it
	comm      *Comm         // where a step is a collective of it
	transfers cu.Stream     // NoStream: there are none
	exec      C.CUgraphExec // nil: launched one by one
}

// newBatch lays out steps, none of which is a function of the host. functions holds the function of
// each kernel step.
func newBatch(steps []step, functions []cu.Function, l *blas, side *sideStream) *batch {
	args := 0
	for i := range steps {
		args += len(steps[i].args)
	}
	const slot = 8
	head := uintptr(len(steps)) * unsafe.Sizeof(C.ek_step{})
	b := &batch{n: len(steps), transfers: side.stream, block: C.calloc(1, C.size_t(head+uintptr(2*args*slot)+1))}
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
		s.bytes, s.value, s.stream = C.size_t(from.bytes), C.uchar(from.value), C.int(from.stream)
		if from.kind == stepRecord || from.kind == stepWait {
			s.event = rawEvent(side.events[from.event])
		}
		if from.gemm != nil {
			b.blas, s.gemm = l, l.layOut(from.gemm)
		}
		if from.collective != nil {
			b.comm, s.collective = from.collective.comm, from.collective.layOut()
		}
		s.args = (*unsafe.Pointer)(pointers)
		for _, a := range from.args {
			*(*uint64)(values) = a
			*(*unsafe.Pointer)(pointers) = values
			pointers, values = unsafe.Add(pointers, slot), unsafe.Add(values, slot)
		}
	}
	return b
}

// lock keeps others from the libraries that steps call, until the batch is enqueued or captured.
func (b *batch) lock() error {
	if b.comm != nil {
		if err := b.comm.lock(); err != nil {
			return err
		}
	}
	if b.blas != nil {
		b.blas.mu.Lock()
	}
	return nil
}

func (b *batch) unlock() {
	if b.blas != nil {
		b.blas.mu.Unlock()
	}
	if b.comm != nil {
		b.comm.mu.Unlock()
	}
}

// run enqueues the steps one by one. at is the one that failed.
func (b *batch) run(s cu.Stream, wait bool) (at int, err error) { return b.runSteps(0, b.n, s, wait) }

// runSteps is run, for the steps from to before to.
func (b *batch) runSteps(from, to int, s cu.Stream, wait bool) (at int, err error) {
	if err := b.lock(); err != nil {
		return from, err
	}
	defer b.unlock()
	return b.enqueue(from, to, s, wait)
}

// enqueue is runSteps with the libraries locked.
func (b *batch) enqueue(from, to int, s cu.Stream, wait bool) (at int, err error) {
	if from == to {
		return from, nil
	}
	on := C.ek_streams{}
	on.at[onProgram], on.at[onTransfers] = rawStream(s), rawStream(b.transfers)
	if b.comm != nil {
		on.at[onSums] = rawStream(b.comm.stream)
	}
	steps := unsafe.Slice(b.steps, b.n)[from:to]
	r := C.ek_run(&steps[0], C.int(len(steps)), on, C.int(truth(wait)))
	if r.code == C.CUDA_SUCCESS {
		return 0, nil
	}
	at = from + int(r.at)
	if r.status != 0 {
		call := C.GoString(r.call)
		if steps[r.at].kind == C.int(stepCollective) {
			return at, b.comm.failed(call, int(r.status))
		}
		return at, newBLASError(call, int(r.status))
	}
	call := "cuStreamSynchronize"
	if r.waited == 0 {
		call = stepCalls[steps[r.at].kind]
	}
	return at, driverError(call, r.code)
}

// stepCalls are the driver's calls by kind of step, where cuBLAS has none.
var stepCalls = [...]string{stepKernel: "cuLaunchKernel", stepCopy: "cuMemcpyAsync", stepFill: "cuMemsetD8Async",
	stepRecord: "cuEventRecord", stepWait: "cuStreamWaitEvent"}

// capture makes a graph of the steps, on a stream that is used for nothing else. at is the step
// that failed, -1 for none.
func (b *batch) capture(s cu.Stream) (at int, err error) {
	if err := b.lock(); err != nil {
		return -1, err
	}
	defer b.unlock()
	// Meanwhile other threads may allocate and free. This thread may, too, if it uses cuBLAS or NCCL,
	// which load kernels at their first use.
	var mode C.CUstreamCaptureMode = C.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	if b.blas != nil || b.comm != nil {
		mode = C.CU_STREAM_CAPTURE_MODE_RELAXED
	}
	if err := driverError("cuStreamBeginCapture", C.cuStreamBeginCapture(rawStream(s), mode)); err != nil {
		return -1, err
	}
	var graph C.CUgraph
	at, err = b.enqueue(0, b.n, s, false)
	if end := driverError("cuStreamEndCapture", C.cuStreamEndCapture(rawStream(s), &graph)); err == nil && end != nil {
		at, err = -1, end
	}
	if graph != nil {
		if err == nil {
			at, err = -1, driverError("cuGraphInstantiateWithFlags", C.ek_instantiate(&b.exec, graph))
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

// blas is cuBLAS with a handle for the context that was set when it was opened.
type blas struct {
	mu   sync.Mutex // held while the handle is used: it has one stream and one workspace at a time
	c    *C.ek_blas
	name string // of the library
}

// openBLAS loads the first library of blasNames that exists.
func openBLAS() (*blas, error) {
	l := &blas{c: (*C.ek_blas)(C.calloc(1, C.size_t(unsafe.Sizeof(C.ek_blas{}))))}
	missing := &NoLibraryError{Library: "cuBLAS"}
	for _, l.name = range blasNames {
		name := C.CString(l.name)
		var status C.int
		log := C.ek_open_blas(l.c, name, &status)
		C.free(unsafe.Pointer(name))
		switch {
		case log != nil:
			missing.Names, missing.Reasons = append(missing.Names, l.name), append(missing.Reasons, C.GoString(log))
		case status != 0:
			C.free(unsafe.Pointer(l.c))
			return nil, newBLASError("cublasCreate of "+l.name, int(status))
		default:
			return l, nil
		}
	}
	C.free(unsafe.Pointer(l.c))
	return nil, missing
}

// close releases the handle; the context is set. The library stays loaded, since its threads may
// still run.
func (l *blas) close() error {
	status := int(C.ek_close_blas(l.c))
	C.free(unsafe.Pointer(l.c))
	if status != 0 {
		return newBLASError("cublasDestroy", status)
	}
	return nil
}

// layOut translates a product to the enumerations of cuBLAS: cudaDataType and cublasComputeType_t.
func (l *blas) layOut(g *gemm) C.ek_gemm {
	const double, float = 1, 0 // CUDA_R_64F, CUDA_R_32F
	x := C.ek_gemm{blas: l.c, op_a: C.int(truth(g.transA)), op_b: C.int(truth(g.transB)), m: C.int(g.m), n: C.int(g.n), k: C.int(g.k), lead_a: C.int(g.leadA),
		lead_b: C.int(g.leadB), lead_c: C.int(g.leadC), batch: C.int(g.batch), add: C.int(truth(g.add)),
		step_a: C.longlong(g.stepA), step_b: C.longlong(g.stepB),
		step_c: C.longlong(g.stepC), a: C.CUdeviceptr(g.a), b: C.CUdeviceptr(g.b), c: C.CUdeviceptr(g.c), work: C.CUdeviceptr(g.work), work_bytes: C.size_t(g.workBytes)}
	x._type, x.compute = float, [...]C.int{Full: 68, TF32: 77, BFloat16: 75, Float16: 74}[g.precision]
	if g.double {
		x._type, x.compute = double, 70
	}
	return x
}
