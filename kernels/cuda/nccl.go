//go:build gpu && cgo

package cuda

/*
#include <stdlib.h>
#include "nccl.h"

static int ek_comm_init(ek_comm *c, int ranks, const void *id, int rank) {
	ek_nccl_config config = {sizeof config, 0xcafebeef, 21400, 0};
	return c->nccl.init(&c->comm, ranks, *(const ek_nccl_id *)id, rank, &config);
}
static int ek_comm_id(ek_comm *c, void *id) { return c->nccl.unique_id((ek_nccl_id *)id); }
static int ek_comm_version(ek_comm *c, int *v) { return c->nccl.get_version(v); }
static int ek_comm_state(ek_comm *c) {
	int state, code = c->nccl.async_error(c->comm, &state);
	return code ? code : state;
}
static int ek_comm_finalize(ek_comm *c) { return c->nccl.finalize(c->comm); }
static int ek_comm_destroy(ek_comm *c) { return c->nccl.destroy(c->comm); }
static int ek_comm_abort(ek_comm *c) { return c->comm ? c->nccl.abort(c->comm) : 0; }
static void ek_comm_stop(ek_comm *c) { __atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE); }
static const char *ek_comm_text(ek_comm *c, int code) { return c->nccl.error_string(code); }
static const char *ek_comm_last(ek_comm *c) { return c->comm ? c->nccl.last_error(c->comm) : ""; }
static CUresult ek_uuid(CUdevice d, void *id) { return cuDeviceGetUuid((CUuuid *)id, d); }
*/
import "C"

import (
	"unsafe"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/group"
	"gorgonia.org/cu"
)

// ncclNames are the libraries that Join looks for.
var ncclNames = []string{"libnccl.so.2"}

// ncclTypes are ncclDataType_t.
var ncclTypes = map[arena.DType]int{arena.Uint8: 1, arena.Int32: 2, arena.Int64: 4, arena.Float16: 6, arena.Float32: 7, arena.Float64: 8, arena.BFloat16: 9}

// communicator is NCCL's part of a Comm: the functions of the library, and a handle once init has
// been called.
type communicator struct{ c *C.ek_comm }

// ncclInProgress is the code of a call that has not ended.
const ncclInProgress = C.EK_NCCL_IN_PROGRESS

// openNCCL loads the first library of ncclNames that exists.
func openNCCL() (communicator, error) {
	n := communicator{(*C.ek_comm)(C.calloc(1, C.size_t(unsafe.Sizeof(C.ek_comm{}))))}
	missing := &NoLibraryError{Library: "NCCL"}
	for _, name := range ncclNames {
		text := C.CString(name)
		log := C.ek_load_nccl(&n.c.nccl, text)
		C.free(unsafe.Pointer(text))
		if log == nil {
			return n, nil
		}
		missing.Names, missing.Reasons = append(missing.Names, name), append(missing.Reasons, C.GoString(log))
	}
	n.free()
	return communicator{}, missing
}

// free releases the memory of a communicator that does not exist any more. The library stays loaded.
func (n *communicator) free() {
	C.free(unsafe.Pointer(n.c))
	n.c = nil
}

// error returns the error of a call that returned code, nil for 0.
func (n *communicator) error(call string, code int) error {
	if code == 0 {
		return nil
	}
	text := C.GoString(C.ek_comm_text(n.c, C.int(code)))
	if last := C.GoString(C.ek_comm_last(n.c)); last != "" {
		text += ": " + last
	}
	return &NCCLError{Call: call, Code: code, Text: text}
}

// version is that of the library, as ncclGetVersion codes it.
func (n *communicator) version() (int, error) {
	var v C.int
	code := C.ek_comm_version(n.c, &v)
	return int(v), n.error("ncclGetVersion", int(code))
}

// id makes the id of a new communicator.
func (n *communicator) id() ([]byte, error) {
	id := make([]byte, unsafe.Sizeof(C.ek_nccl_id{}))
	code := C.ek_comm_id(n.c, unsafe.Pointer(&id[0]))
	return id, n.error("ncclGetUniqueId", int(code))
}

// init begins to make the communicator. It has ended when state is not ncclInProgress any more.
func (n *communicator) init(ranks, rank int, id []byte) error {
	code := C.ek_comm_init(n.c, C.int(ranks), unsafe.Pointer(&id[0]), C.int(rank))
	if code == ncclInProgress {
		return nil
	}
	return n.error("ncclCommInitRankConfig", int(code))
}

// state is the code of the last call, or of a collective that failed later.
func (n *communicator) state() int { return int(C.ek_comm_state(n.c)) }

// stop lets all waits for the end of a call return.
func (n *communicator) stop() { C.ek_comm_stop(n.c) }

// finalize begins to end the communicator, and destroy ends it.
func (n *communicator) finalize() error {
	if code := int(C.ek_comm_finalize(n.c)); code != ncclInProgress {
		return n.error("ncclCommFinalize", code)
	}
	return nil
}

func (n *communicator) destroy() error {
	return n.error("ncclCommDestroy", int(C.ek_comm_destroy(n.c)))
}

// abort ends what runs on the device at once, and returns when the graphs of the communicator are
// released.
func (n *communicator) abort() { C.ek_comm_abort(n.c) }

// layOut translates a collective to NCCL's enumerations and addresses.
func (c *collective) layOut() C.ek_collective {
	const ncclSum, ncclMax = 0, 2
	x := C.ek_collective{comm: c.comm.nccl.c, kind: C.int(c.kind), _type: C.int(ncclTypes[c.elem]), reduction: ncclSum, root: C.int(c.root),
		first: C.int(truth(c.first)), last: C.int(truth(c.last)), count: C.size_t(c.count), send: C.CUdeviceptr(c.data), recv: C.CUdeviceptr(c.data)}
	if c.kind == group.Max {
		x.reduction = ncclMax
	}
	if c.kind == group.AllGather || c.kind == group.ReduceScatter {
		part := c.count / int64(c.comm.Size())
		own := C.CUdeviceptr(int64(c.comm.Rank()) * part * c.elem.Size())
		x.count = C.size_t(part)
		if c.kind == group.AllGather {
			x.send += own
		} else {
			x.recv += own
		}
	}
	return x
}

// enqueue enqueues a collective on a stream.
func (c *collective) enqueue(s cu.Stream) (call string, code int) {
	x := c.layOut()
	var name *C.char
	status := C.ek_collect(&x, rawStream(s), &name)
	return C.GoString(name), int(status)
}

// uuid identifies a GPU, or a part of one, in the world.
func uuid(d cu.Device) ([16]byte, error) {
	var id [16]byte
	code := C.ek_uuid(C.CUdevice(d), unsafe.Pointer(&id[0]))
	return id, driverError("cuDeviceGetUuid", code)
}
