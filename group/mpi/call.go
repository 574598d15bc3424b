//go:build mpi && unix && cgo

package mpi

/*
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// MPI is one a process, and so are its communicator and the request in flight. One thread uses them.
static MPI_Comm ek_comm;
static MPI_Request ek_request;
static MPI_Op ek_max64;
static uint64_t ek_check[2];

// The numbers of arena.DType that are summed or compared.
static MPI_Datatype ek_type(int t) { return t == 1 ? MPI_FLOAT : t == 2 ? MPI_DOUBLE : t == 4 ? MPI_INT32_T : MPI_INT64_T; }

// NaN is the greatest and becomes one NaN, and 0 is greater than -0, as in math.Max.
static void ek_max64_of(void *from, void *to, int *n, MPI_Datatype *t) {
	uint64_t nan = 0x7FF8000000000001u;
	double *a = from, *b = to;
	(void)t;
	for (int i = 0; i < *n; i++) {
		if (a[i] != a[i] || b[i] != b[i]) memcpy(&b[i], &nan, 8);
		else if (a[i] > b[i]) b[i] = a[i];
		else if (a[i] == 0 && b[i] == 0) b[i] = a[i] + b[i]; // -0 only if both are
	}
}

static int ek_init(int *level, int *rank, int *size) {
	int rc = MPI_Init_thread(0, 0, MPI_THREAD_SERIALIZED, level);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_dup(MPI_COMM_WORLD, &ek_comm);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_set_errhandler(ek_comm, MPI_ERRORS_RETURN);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_rank(ek_comm, rank);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_size(ek_comm, size);
	if (rc == MPI_SUCCESS) rc = MPI_Op_create(ek_max64_of, 1, &ek_max64);
	return rc;
}
static int ek_finalize(void) {
	int rc = MPI_Op_free(&ek_max64);
	if (rc == MPI_SUCCESS) rc = MPI_Comm_free(&ek_comm);
	int end = MPI_Finalize();
	return rc == MPI_SUCCESS ? end : rc;
}
static int ek_initialized(void) { int yes = 0; MPI_Initialized(&yes); return yes; }
static int ek_funneled(void) { return MPI_THREAD_FUNNELED; }

// ek_poll drives the request for at most us microseconds, and sleeps nap microseconds between tests.
// It returns EK_PENDING if the request is not complete then. (A result by pointer would be a Go object.)
#define EK_PENDING (-1)
static int ek_poll(int us, int nap) {
	struct timespec from, now, sleep = {0, nap * 1000L};
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 1, done = 0;; i++) {
		int rc = MPI_Test(&ek_request, &done, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || done) return rc;
		if (nap) nanosleep(&sleep, 0);
		else if (i % 16) continue;
		else sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - from.tv_sec) * 1000000L + (now.tv_nsec - from.tv_nsec) / 1000 >= us) return EK_PENDING;
	}
}

// ek_compare starts the comparison of a hash; it is the same on all ranks if ek_same.
static int ek_compare(uint64_t hash) {
	ek_check[0] = hash;
	ek_check[1] = ~hash;
	return MPI_Iallreduce(MPI_IN_PLACE, ek_check, 2, MPI_UINT64_T, MPI_MAX, ek_comm, &ek_request);
}
static int ek_same(void) { return ek_check[0] == ~ek_check[1]; }

static int ek_sum(void *x, int n, int t) {
	return MPI_Iallreduce(MPI_IN_PLACE, x, n, ek_type(t), MPI_SUM, ek_comm, &ek_request);
}
static int ek_max(void *x, int n, int t) {
	return MPI_Iallreduce(MPI_IN_PLACE, x, n, ek_type(t), t == 2 ? ek_max64 : MPI_MAX, ek_comm, &ek_request);
}
static int ek_broadcast(void *x, int n, int root) { return MPI_Ibcast(x, n, MPI_BYTE, root, ek_comm, &ek_request); }
static int ek_gather(void *x, int each) {
	return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, x, each, MPI_BYTE, ek_comm, &ek_request);
}
static int ek_collect(void *from, void *to, int n) {
	return MPI_Iallgather(from, n, MPI_BYTE, to, n, MPI_BYTE, ek_comm, &ek_request);
}
static int ek_exchange(void *from, void *to, int each) {
	return MPI_Ialltoall(from, each, MPI_BYTE, to, each, MPI_BYTE, ek_comm, &ek_request);
}
static int ek_scatter(void *from, void *to, int each, int t) {
	return MPI_Ireduce_scatter_block(from, to, each, ek_type(t), MPI_SUM, ek_comm, &ek_request);
}

static int ek_error(int rc, char *text) { int n = 0; MPI_Error_string(rc, text, &n); return n; }
static int ek_version(char *text) { int n = 0; MPI_Get_library_version(text, &n); return n; }
*/
import "C"

import (
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
)

// mpiError returns the error of a call's return code, nil for success.
func mpiError(rc C.int) error {
	if rc == C.MPI_SUCCESS {
		return nil
	}
	text := (*C.char)(C.calloc(1, C.MPI_MAX_ERROR_STRING+1))
	defer C.free(unsafe.Pointer(text))
	n := C.ek_error(rc, text)
	return fmt.Errorf("mpi: error %d: %s", int(rc), C.GoStringN(text, n))
}

// initialize starts MPI on this thread.
func initialize() (rank, size int, err error) {
	var level, r, n C.int
	if err := mpiError(C.ek_init(&level, &r, &n)); err != nil {
		return 0, 0, err
	}
	if level < C.ek_funneled() {
		return 0, 0, fmt.Errorf("mpi: the library was built without threads (level %d): use one with MPI_THREAD_FUNNELED", int(level))
	}
	return int(r), int(n), nil
}

func initialized() bool { return C.ek_initialized() != 0 }
func finalize() error   { return mpiError(C.ek_finalize()) }

// library returns the name and version of the library, such as "Open MPI 4.1.4".
func library() string {
	text := (*C.char)(C.calloc(1, C.MPI_MAX_LIBRARY_VERSION_STRING+1))
	defer C.free(unsafe.Pointer(text))
	return shortVersion(C.GoStringN(text, C.ek_version(text)))
}

// shortVersion shortens the texts of libraries:
//
//	Open MPI v4.1.4, package: …    → Open MPI 4.1.4
//	MPICH Version:	4.0.2⏎ …       → MPICH 4.0.2
func shortVersion(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, ",")
	text = strings.ReplaceAll(text, " Version:", "")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "MPI v", "MPI ")), " ")
}

// poll drives the request for at most limit, and sleeps nap between tests. It reports whether it is
// complete.
func poll(limit, nap time.Duration) (bool, error) {
	rc := C.ek_poll(C.int(limit.Microseconds()), C.int(nap.Microseconds()))
	if rc == C.EK_PENDING {
		return false, nil
	}
	return true, mpiError(rc)
}

// The functions below start the one request.

func compare(hash uint64) error { return mpiError(C.ek_compare(C.uint64_t(hash))) }
func same() bool                { return C.ek_same() != 0 }

func startSum(x unsafe.Pointer, n int, t arena.DType) error {
	return mpiError(C.ek_sum(x, C.int(n), C.int(t)))
}
func startMax(x unsafe.Pointer, n int, t arena.DType) error {
	return mpiError(C.ek_max(x, C.int(n), C.int(t)))
}
func startBroadcast(x unsafe.Pointer, bytes, root int) error {
	return mpiError(C.ek_broadcast(x, C.int(bytes), C.int(root)))
}
func startGather(x unsafe.Pointer, each int) error { return mpiError(C.ek_gather(x, C.int(each))) }
func startCollect(from, to unsafe.Pointer, n int) error {
	return mpiError(C.ek_collect(from, to, C.int(n)))
}
func startExchange(from, to unsafe.Pointer, each int) error {
	return mpiError(C.ek_exchange(from, to, C.int(each)))
}
func startScatter(from, to unsafe.Pointer, each int, t arena.DType) error {
	return mpiError(C.ek_scatter(from, to, C.int(each), C.int(t)))
}

// allocate returns zeroed memory outside the Go heap.
func allocate(bytes int) []byte {
	if bytes == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(C.calloc(1, C.size_t(bytes))), bytes)
}

func release(b []byte) {
	if len(b) > 0 {
		C.free(unsafe.Pointer(&b[0]))
	}
}
