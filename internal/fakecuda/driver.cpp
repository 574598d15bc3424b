//go:build ignore

// Initialisation, the device and what it has, and names of errors.
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

namespace fake {

State &state() {
  static State *s = new State;  // never destroyed: streams may run until the process ends
  return *s;
}

std::string plainName(const std::string &name) {
  std::string n = name;
  for (const char *suffix : {"_ptsz", "_ptds", "_v2", "_v3"}) {
    size_t k = strlen(suffix);
    if (n.size() > k && n.compare(n.size() - k, k, suffix) == 0) n.resize(n.size() - k);
  }
  return n;
}

Call::Call(const char *name, Needs needs) : lock(state().mu) {
  State &g = state();
  std::string plain = plainName(name);
  g.calls[plain]++;
  context = current();
  if (needs != kNothing && !g.initialized)
    code = kNotInitialized;
  else if (needs >= kContext && !context)
    code = kInvalidContext;
  else if (needs == kContext)
    code = context->sticky;
  if (code) return;
  code = injected(plain);
  if (context && poisons(code)) context->sticky = code;
}

struct Setting {
  const char *name;
  int64_t Config::*field;
};
static const Setting settings[] = {
    {"memory", &Config::memory}, {"context", &Config::context}, {"devices", &Config::devices}, {"capability", &Config::capability},
    {"processors", &Config::processors}, {"delay_us", &Config::delay_us}, {"seed", &Config::seed}, {"check", &Config::check},
    {"poison", &Config::poison}, {"shared_race", &Config::shared_race}, {"shuffle", &Config::shuffle},
    {"approx_ulp", &Config::approx_ulp}, {"threads", &Config::threads}, {"skip_kernels", &Config::skip_kernels},
    {"hold", &Config::hold}, {"at_once", &Config::at_once}, {"verbose", &Config::verbose},
    {"nccl_version", &Config::nccl_version}, {"nccl_polls", &Config::nccl_polls}, {"nccl_hang_ms", &Config::nccl_hang_ms},
};

// readEnvironment answers false where a value is no number: a typing mistake must not switch a check off.
static bool readEnvironment() {
  for (const Setting &s : settings) {
    std::string name = "FAKECUDA_";
    for (const char *c = s.name; *c; c++) name += (char)toupper(*c);
    const char *text = getenv(name.c_str());
    if (!text || !*text) continue;
    char *end;
    int64_t value = strtoll(text, &end, 0);
    if (*end || value < 0) {
      report("setting: " + name + "=" + text + " is no number");
      return false;
    }
    state().config.*s.field = value;
  }
  if (const char *faults = getenv("FAKECUDA_FAIL")) readFaults(faults);
  return true;
}

int badDevice(int device) { return device < 0 || device >= state().config.devices ? kInvalidDevice : kOk; }

int64_t attribute(int a) {
  const Config &c = state().config;
  switch (a) {
    case 1: return 1024;                    // threads a block
    case 2: case 3: return 1024;            // x and y of a block
    case 4: return 64;                      // z of a block
    case 5: return 0x7fffffff;              // x of a grid
    case 6: case 7: return 65535;           // y and z of a grid
    case 8: return 48 << 10;                // bytes of shared memory a block, unless asked for
    case 9: return 64 << 10;                // bytes of constant memory
    case 10: return 32;                     // threads a warp
    case 11: return 0x7fffffff;             // bytes a row of a pitched copy
    case 12: case 82: return 65536;         // registers a block, a multiprocessor
    case 13: return 1000000;                // kHz
    case 14: return 512;                    // alignment of textures, bytes
    case 15: return 1;                      // copies beside kernels
    case 16: return c.processors;
    case 17: case 18: case 20: case 32: return 0;  // time limit, integrated, compute mode, ECC
    case 19: return 1;                      // device reads pinned memory
    case 31: return 1;                      // kernels side by side
    case 33: case 34: case 50: return 0;    // PCI bus, device, domain
    case 36: return 1000000;                // kHz of memory
    case 37: return 256;                    // bits of the memory bus
    case 38: return 4 << 20;                // bytes of L2
    case 39: return 2048;                   // threads a multiprocessor
    case 40: return 2;                      // copy engines
    case 41: return 1;                      // one address space
    case 75: return c.capability / 10;
    case 76: return c.capability % 10;
    case 78: return 1;                      // priorities
    case 81: return c.capability >= 80 ? 164 << 10 : 96 << 10;  // bytes of shared memory a multiprocessor
    case 83: return 0;                      // managed memory
    case 97: return c.capability >= 80 ? 163 << 10 : 96 << 10;  // bytes of shared memory a block that asks
    case 106: return 32;                    // blocks a multiprocessor
    case 115: return 0;                     // memory pools
  }
  return -1;
}

}  // namespace fake

using namespace fake;

API fakecuda_set(const char *name, int64_t value) {
  Lock lock(state().mu);
  for (const Setting &s : settings)
    if (!strcmp(s.name, name)) {
      state().config.*s.field = value;
      state().changed.notify_all();  // of hold
      return kOk;
    }
  return kInvalidValue;
}

// fakecuda_setting answers a setting, -1 where there is none of the name.
EXPORT int64_t fakecuda_setting(const char *name) {
  Lock lock(state().mu);
  for (const Setting &s : settings)
    if (!strcmp(s.name, name)) return state().config.*s.field;
  return -1;
}

API cuInit(unsigned flags) {
  ENTER_WITH(kNothing);
  if (flags) return kInvalidValue;
  if (state().initialized) return kOk;
  if (!readEnvironment()) return kInvalidValue;
  if (int code = injected("cuInit")) return code;  // by the environment just read
  if (!state().config.devices) return kNoDevice;
  if (int code = reserveMemory()) return code;
  state().initialized = true;
  return kOk;
}

API cuDriverGetVersion(int *version) {
  ENTER_WITH(kNothing);
  if (!version) return kInvalidValue;
  *version = 12040;
  return kOk;
}

API cuDeviceGetCount(int *n) {
  ENTER_WITH(kInit);
  if (!n) return kInvalidValue;
  *n = (int)state().config.devices;
  return kOk;
}

API cuDeviceGet(int *device, int ordinal) {
  ENTER_WITH(kInit);
  if (!device) return kInvalidValue;
  if (int code = badDevice(ordinal)) return code;
  *device = ordinal;
  return kOk;
}

API cuDeviceGetName(char *name, int bytes, int device) {
  ENTER_WITH(kInit);
  if (!name || bytes <= 0) return kInvalidValue;
  if (int code = badDevice(device)) return code;
  strncpy(name, "fakecuda", bytes);
  name[bytes - 1] = 0;
  return kOk;
}

API cuDeviceGetUuid(unsigned char *uuid, int device) {
  ENTER_WITH(kInit);
  if (!uuid) return kInvalidValue;
  if (int code = badDevice(device)) return code;
  memcpy(uuid, "fakecuda\0\0\0\0\0\0\0", 16);
  uuid[15] = (unsigned char)device;
  return kOk;
}
API cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

API cuDeviceTotalMem_v2(size_t *bytes, int device) {
  ENTER_WITH(kInit);
  if (!bytes) return kInvalidValue;
  if (int code = badDevice(device)) return code;
  *bytes = state().config.memory;
  return kOk;
}

API cuDeviceGetAttribute(int *value, int a, int device) {
  ENTER_WITH(kInit);
  if (int code = badDevice(device)) return code;
  int64_t v = attribute(a);
  if (!value || v < 0) return kInvalidValue;
  *value = (int)v;
  return kOk;
}

static const std::map<int, std::pair<const char *, const char *>> names = {
    {0, {"CUDA_SUCCESS", "no error"}},
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {4, {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {209, {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
    {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {222, {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain"}},
    {301, {"CUDA_ERROR_FILE_NOT_FOUND", "file not found"}},
    {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
    {701, {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
    {702, {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
    {708, {"CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process"}},
    {709, {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"}},
    {714, {"CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"}},
    {715, {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"}},
    {716, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
    {717, {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"}},
    {718, {"CUDA_ERROR_INVALID_PC", "invalid program counter"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
    {900, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
    {901, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
    {902, {"CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"}},
    {903, {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"}},
    {904, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
    {905, {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"}},
    {906, {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation would make the legacy stream depend on a capturing blocking stream"}},
    {907, {"CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

API cuGetErrorName(int code, const char **text) {
  auto it = names.find(code);
  if (text) *text = it == names.end() ? nullptr : it->second.first;
  return text && it != names.end() ? kOk : kInvalidValue;
}

API cuGetErrorString(int code, const char **text) {
  auto it = names.find(code);
  if (text) *text = it == names.end() ? nullptr : it->second.second;
  return text && it != names.end() ? kOk : kInvalidValue;
}
