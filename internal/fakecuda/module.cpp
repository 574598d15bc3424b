//go:build ignore

// Modules, functions and launches.
#include <cstring>
#include <fstream>
#include <iterator>

#include "driver.hpp"

namespace fake {

// load makes a module of a text. said is what is wrong with it, as a compiler would say.
static int load(Call &call, Module **out, const char *text, std::string &said) {
  if (!out || !text) return kInvalidValue;
  auto say = [&](const std::string &what) { report("module: " + (said = what)); };
  if (!memcmp(text, "\177ELF", 4) || !memcmp(text, "\x50\xed\x55\xba", 4)) {
    say("a cubin or fat binary: only PTX text is emulated");
    return kInvalidImage;
  }
  auto m = std::make_unique<Module>();
  m->context = call.context;
  auto allocate = [&](uint64_t bytes, uint64_t) {
    uint64_t address = 0;
    if (allocateDevice(bytes, call.context, m.get(), &address)) throw ptx::Fault{kOutOfMemory, "no memory for variables"};
    return address;
  };
  int code = kOk;
  try {
    m->code = ptx::parse(text, allocate);
  } catch (const ptx::Fault &f) {
    code = f.code;
    say(f.msg);
  }
  const Config &c = state().config;
  if (!code && m->code->target > c.capability) {
    say("it is for sm_" + std::to_string(m->code->target) + ", the device is sm_" + std::to_string(c.capability));
    code = kNoBinary;
  }
  if (code) {
    destroyModule(m.release());
    return code;
  }
  for (const ptx::Global &v : m->code->globals) {
    uint8_t *p = reach(v.address, v.size, "a variable");
    memset(p, 0, v.size);
    memcpy(p, v.init.data(), std::min<size_t>(v.size, v.init.size()));
  }
  *out = m.release();
  born(*out, kModules);
  return kOk;
}

// destroyModule frees a module, its functions and its variables.
void destroyModule(Module *m) {
  std::vector<Allocation> variables;
  for (auto &[_, a] : state().allocations)
    if (a.module == m) variables.push_back(a);
  for (auto &a : variables) release(a);
  for (auto &[_, f] : m->functions) state().functions.erase(f.get());
  dead(m);
  delete m;
}

static Function *functionOf(Context *c, Function *f) { return state().functions.count(f) && f->module->context == c ? f : nullptr; }

// arguments copies a launch's parameters, given one by one or as one block of bytes.
static int arguments(const ptx::Kernel &k, void **params, void **extra, std::vector<uint8_t> &out) {
  out.resize(k.paramBytes);
  if (params && extra) return kInvalidValue;
  if (params) {
    for (size_t i = 0; i < k.params.size(); i++) {
      if (!params[i]) return kInvalidValue;
      memcpy(out.data() + k.params[i].offset, params[i], k.params[i].size);
    }
    return kOk;
  }
  if (!extra) return k.params.empty() ? kOk : kInvalidValue;
  void *buffer = nullptr;
  size_t bytes = 0;
  for (; *extra; extra += 2) {
    if (*extra == (void *)1)  // CU_LAUNCH_PARAM_BUFFER_POINTER
      buffer = extra[1];
    else if (*extra == (void *)2)  // CU_LAUNCH_PARAM_BUFFER_SIZE
      bytes = *(size_t *)extra[1];
    else
      return kInvalidValue;
  }
  // The driver lets a block be padded to the alignment of its largest member, no more.
  if (!buffer || bytes < k.paramBytes || bytes > (k.paramBytes + 7u) / 8 * 8) {
    report("launch: kernel " + k.name + " takes " + std::to_string(k.paramBytes) + " bytes of arguments, got " + std::to_string(bytes));
    return kInvalidValue;
  }
  memcpy(out.data(), buffer, k.paramBytes);
  return kOk;
}

static int limits(const Function &f, ptx::Dim grid, ptx::Dim block, uint32_t shared) {
  const ptx::Kernel &k = *f.kernel;
  uint64_t threads = (uint64_t)block.x * block.y * block.z;
  std::string why;
  int code = kInvalidValue;
  if (!grid.x || !grid.y || !grid.z || grid.x > attribute(5) || grid.y > attribute(6) || grid.z > attribute(7))
    why = "a grid of " + std::to_string(grid.x) + "x" + std::to_string(grid.y) + "x" + std::to_string(grid.z);
  else if (!threads || block.x > attribute(2) || block.y > attribute(3) || block.z > attribute(4) || threads > (uint64_t)attribute(1))
    why = "a block of " + std::to_string(block.x) + "x" + std::to_string(block.y) + "x" + std::to_string(block.z);
  else if (k.maxThreads && threads > k.maxThreads) {
    why = std::to_string(threads) + " threads a block where the kernel allows " + std::to_string(k.maxThreads);
    code = kOutOfResources;
  } else if (shared > f.dynamicShared)
    why = std::to_string(shared) + " bytes of shared memory where the function may use " + std::to_string(f.dynamicShared);
  if (why.empty()) return kOk;
  report("launch: kernel " + k.name + ": " + why);
  return code;
}

struct Launch {
  const ptx::Kernel *kernel;
  ptx::Dim grid, block;
  uint32_t shared;
  std::vector<uint8_t> args;
};

static void perform(const Launch &l, Accesses &accesses) {
  ptx::Options options;
  std::shared_ptr<const std::vector<ptx::Range>> memory;
  {
    Lock lock(state().mu);
    const Config &c = state().config;
    if (c.skip_kernels) return;
    memory = ranges();
    options.sharedRace = c.shared_race;
    options.seed = c.shuffle ? c.seed + 1 : 0;
    options.approxUlp = (int)c.approx_ulp;
    options.threads = (int)c.threads;
    options.touch = c.check;
  }
  ptx::Result r = ptx::run(*l.kernel, l.grid, l.block, l.shared, l.args.data(), *memory, options);
  for (const ptx::Touch &t : r.touch) {
    for (const ptx::Interval &i : t.reads) accesses.push_back({i.lo, i.hi, false, nullptr});
    for (const ptx::Interval &i : t.writes) accesses.push_back({i.lo, i.hi, true, nullptr});
  }
}

}  // namespace fake

using namespace fake;

API cuModuleLoadData(Module **out, const void *image) {
  ENTER();
  std::string said;
  return load(call, out, (const char *)image, said);
}
API cuModuleLoadDataEx(Module **out, const void *image, unsigned n, int *options, void **values) {
  ENTER();
  if (n && (!options || !values)) return kInvalidValue;
  std::string said;
  int code = load(call, out, (const char *)image, said);
  char *log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < n; i++) {  // other options are about the compiler, which there is none of
    if (options[i] == 5) log = (char *)values[i];   // CU_JIT_ERROR_LOG_BUFFER
    if (options[i] == 6) size = (size_t)values[i];  // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
  }
  if (log && size) log[said.copy(log, size - 1)] = 0;
  return code;
}

API cuModuleLoad(Module **out, const char *path) {
  ENTER();
  if (!path) return kInvalidValue;
  std::ifstream file(path, std::ios::binary);
  if (!file) return kFileNotFound;
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::string said;
  return load(call, out, text.c_str(), said);
}

API cuModuleUnload(Module *m) {
  ENTER();
  Context *c = call.context;
  if (!alive(m, kModules) || m->context != c) return kInvalidHandle;
  synchronize(c, call.lock);
  destroyModule(m);
  return c->sticky;
}

API cuModuleGetFunction(Function **out, Module *m, const char *name) {
  ENTER();
  if (!out || !name) return kInvalidValue;
  if (!alive(m, kModules)) return kInvalidHandle;
  auto k = m->code->kernels.find(name);
  if (k == m->code->kernels.end()) return kNotFound;
  auto &f = m->functions[name];
  if (!f) {
    int64_t most = attribute(8) - k->second.sharedBytes;
    f.reset(new Function{m, &k->second, most > 0 ? (uint32_t)most : 0});
    state().functions.insert(f.get());
  }
  *out = f.get();
  return kOk;
}

API cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, Module *m, const char *name) {
  ENTER();
  if (!name) return kInvalidValue;
  if (!alive(m, kModules)) return kInvalidHandle;
  for (const ptx::Global &v : m->code->globals)
    if (v.name == name) {
      if (address) *address = v.address;
      if (bytes) *bytes = v.size;
      return kOk;
    }
  return kNotFound;
}

API cuFuncGetAttribute(int *value, int a, Function *f) {
  ENTER();
  if (!value) return kInvalidValue;
  if (!functionOf(call.context, f)) return kInvalidHandle;
  switch (a) {
    case 0: *value = f->kernel->maxThreads ? f->kernel->maxThreads : (int)attribute(1); return kOk;
    case 1: *value = f->kernel->sharedBytes; return kOk;
    case 3: *value = f->kernel->localBytes; return kOk;
    case 5: *value = f->module->code->target; return kOk;   // PTX version
    case 6: *value = (int)state().config.capability; return kOk;  // binary version
    case 8: *value = f->dynamicShared; return kOk;
  }
  return kNotSupported;
}

API cuFuncSetAttribute(Function *f, int a, int value) {
  ENTER();
  constexpr int kMaxDynamicShared = 8;
  if (!functionOf(call.context, f)) return kInvalidHandle;
  if (a != kMaxDynamicShared) return kNotSupported;
  if (value < 0 || value + (int64_t)f->kernel->sharedBytes > attribute(97)) return kInvalidValue;
  f->dynamicShared = value;
  return kOk;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Function *f, int block, size_t shared) {
  ENTER();
  if (!n || block <= 0) return kInvalidValue;
  if (!functionOf(call.context, f)) return kInvalidHandle;
  int64_t warps = (block + 31) / 32;
  int64_t byThreads = attribute(39) / (warps * 32), byShared = attribute(81) / (int64_t)(f->kernel->sharedBytes + shared + 1024);
  *n = (int)std::min({byThreads, byShared, attribute(106)});
  return kOk;
}

API cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *handle, void **params, void **extra) {
  ENTER();
  Stream *s = streamOf(call.context, handle);
  if (!s || !functionOf(call.context, f)) return kInvalidHandle;
  Launch l{f->kernel, {gx, gy, gz}, {bx, by, bz}, shared, {}};
  if (int code = limits(*f, l.grid, l.block, shared)) return code;
  if (int code = arguments(*f->kernel, params, extra, l.args)) return code;
  Operation op;
  op.what = "kernel " + f->kernel->name;
  op.computes = true;
  op.work = [l = std::move(l)](Accesses &a) { perform(l, a); };
  return enqueue(s, std::move(op));
}
