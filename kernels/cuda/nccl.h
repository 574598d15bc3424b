// NCCL, which is loaded at run time: the functions of libnccl.so.2 that are used, as they are since version 2.14.
#pragma once
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

enum { EK_NCCL_IN_PROGRESS = 7 };

// The id of a communicator is passed by value.
typedef struct {
	char bytes[128];
} ek_nccl_id;

// ek_nccl_config is ncclConfig_t of version 2.14: later versions fill in what it does not have.
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking;
} ek_nccl_config;

typedef struct {
	int (*get_version)(int *);
	int (*unique_id)(ek_nccl_id *);
	int (*init)(void **, int, ek_nccl_id, int, ek_nccl_config *);
	int (*async_error)(void *, int *);
	int (*finalize)(void *);
	int (*destroy)(void *);
	int (*abort)(void *);
	const char *(*error_string)(int);
	const char *(*last_error)(void *);
	int (*all_reduce)(CUdeviceptr, CUdeviceptr, size_t, int, int, void *, CUstream);
	int (*reduce_scatter)(CUdeviceptr, CUdeviceptr, size_t, int, int, void *, CUstream);
	int (*all_gather)(CUdeviceptr, CUdeviceptr, size_t, int, void *, CUstream);
	int (*broadcast)(CUdeviceptr, CUdeviceptr, size_t, int, int, void *, CUstream);
	int (*group_start)(void);
	int (*group_end)(void);
} ek_nccl;

// ek_comm is a communicator. It does not block: a call that has not ended is polled for, until stop is set.
typedef struct {
	ek_nccl nccl;
	void *comm;
	int stop;
} ek_comm;

// ek_collective is one collective; kind is a group.Kind. A group of calls, from first to last, is enqueued as one.
typedef struct {
	ek_comm *comm;
	int kind, type, reduction, root, first, last;
	size_t count;
	CUdeviceptr send, recv;
} ek_collective;

enum { EK_SUM = 1, EK_MAX, EK_BROADCAST, EK_ALL_GATHER, EK_REDUCE_SCATTER };

// ek_load_nccl finds the functions. It returns null, or the message of the loader.
static inline const char *ek_load_nccl(ek_nccl *n, const char *name) {
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!lib) return dlerror();
	const struct { const char *name; void **to; } symbols[] = {
		{"ncclGetVersion", (void **)&n->get_version}, {"ncclGetUniqueId", (void **)&n->unique_id}, {"ncclCommInitRankConfig", (void **)&n->init},
		{"ncclCommGetAsyncError", (void **)&n->async_error}, {"ncclCommFinalize", (void **)&n->finalize}, {"ncclCommDestroy", (void **)&n->destroy},
		{"ncclCommAbort", (void **)&n->abort}, {"ncclGetErrorString", (void **)&n->error_string}, {"ncclGetLastError", (void **)&n->last_error},
		{"ncclAllReduce", (void **)&n->all_reduce}, {"ncclReduceScatter", (void **)&n->reduce_scatter}, {"ncclAllGather", (void **)&n->all_gather},
		{"ncclBroadcast", (void **)&n->broadcast}, {"ncclGroupStart", (void **)&n->group_start}, {"ncclGroupEnd", (void **)&n->group_end},
	};
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
		if (!(*symbols[i].to = dlsym(lib, symbols[i].name))) return dlerror();
	return NULL;
}

// ek_settle waits until the last call, which returned status, has ended, and returns how.
static inline int ek_settle(ek_comm *c, int status) {
	const struct timespec pause = {0, 20000};
	while (status == EK_NCCL_IN_PROGRESS && !__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) {
		int code = c->nccl.async_error(c->comm, &status);
		if (code) return code;
		if (status == EK_NCCL_IN_PROGRESS) nanosleep(&pause, NULL);
	}
	return status;
}

// ek_collect enqueues a collective, or a part of a group. It returns an ncclResult_t; call names what returned it.
static inline int ek_collect(const ek_collective *x, CUstream stream, const char **call) {
	ek_comm *c = x->comm;
	const ek_nccl *n = &c->nccl;
	int status = 0;
	*call = "ncclGroupStart";
	if (x->first && (status = n->group_start())) return status;
	switch (x->kind) {
	case EK_SUM:
	case EK_MAX:
		*call = "ncclAllReduce";
		status = n->all_reduce(x->send, x->recv, x->count, x->type, x->reduction, c->comm, stream);
		break;
	case EK_BROADCAST:
		*call = "ncclBroadcast";
		status = n->broadcast(x->send, x->recv, x->count, x->type, x->root, c->comm, stream);
		break;
	case EK_ALL_GATHER:
		*call = "ncclAllGather";
		status = n->all_gather(x->send, x->recv, x->count, x->type, c->comm, stream);
		break;
	case EK_REDUCE_SCATTER:
		*call = "ncclReduceScatter";
		status = n->reduce_scatter(x->send, x->recv, x->count, x->type, x->reduction, c->comm, stream);
		break;
	}
	if (status && status != EK_NCCL_IN_PROGRESS) {
		n->group_end();
		return status;
	}
	if (!x->last) return 0;
	*call = "ncclGroupEnd";
	return ek_settle(c, n->group_end());
}
