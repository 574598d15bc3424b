// PTX 7.0 for the emulated driver: parse loads a module's text, run executes one grid of it, 32 lanes of a warp at a time.
//
// Everything that can be found while loading is an error there: an instruction, a modifier or an operand that is not known is never
// skipped. What a device would do wrong silently (a race in shared memory, a barrier that half a warp misses) is an error as well.
//
// Build all ptx*.cpp with: g++ -std=c++17 -O3 -march=native -ffp-contract=off -fno-strict-aliasing -fPIC.
// -ffp-contract=off is needed: mul and add must round twice. -fno-strict-aliasing: a register holds values of any type.
// The .cpp files begin with the build constraint "ignore", so that the go command does not take them for cgo's.
//
// parse and run may be called from several threads at once; a Module is not changed after parse, except by its owner's destructor.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ptx {

// Fault is an error of the device or of a module. code is the CUresult that a driver answers; msg names the culprit: the line and text
// of the instruction, and for a running kernel its name, block and thread.
struct Fault {
  int code;
  std::string msg;
};

// The CUresults that Fault carries.
enum : int {
  kInvalidPtx = 218,          // CUDA_ERROR_INVALID_PTX: bad or unknown text
  kIllegalAddress = 700,      // CUDA_ERROR_ILLEGAL_ADDRESS
  kLaunchTimeout = 702,       // CUDA_ERROR_LAUNCH_TIMEOUT: Options::maxInstructions reached, or all threads wait for a barrier
  kIllegalInstruction = 715,  // CUDA_ERROR_ILLEGAL_INSTRUCTION: trap, or a warp-wide instruction that lanes miss
  kMisalignedAddress = 716,   // CUDA_ERROR_MISALIGNED_ADDRESS
  kLaunchFailed = 719,        // CUDA_ERROR_LAUNCH_FAILED: divergence at a barrier, a race in shared memory
};

// Range is device-accessible memory [lo, hi): the byte at device address a lies at host address a + delta. id is the caller's name of it.
// A kernel may touch no other memory.
struct Range {
  uint64_t lo, hi;
  int64_t delta;
  int id;
};

// Interval is [lo, hi), device addresses.
struct Interval {
  uint64_t lo, hi;
};

// kGranule is the resolution of Touch in bytes. The arena's buffers start at multiples of 256, so no two share a granule.
constexpr uint64_t kGranule = 64;

// Touch is what one launch read and wrote of the Range with the same index: sorted intervals that do not touch each other, in whole
// granules clipped to the range. Atomics count as writes. It is not one hull, because all of a training step lives in one allocation.
struct Touch {
  std::vector<Interval> reads, writes;
};

// Param is a kernel's parameter: where it lies in the block of parameters, in bytes.
struct Param {
  std::string name;
  uint32_t offset, size, align;
};

// Global is a variable of a module in device memory (.global or .const).
struct Global {
  std::string name;
  uint64_t address, size;     // as parse's allocate answered; bytes
  std::vector<uint8_t> init;  // empty: zeros. The caller writes it to device memory after parse.
};

struct Code;  // a decoded kernel, see ptx_code.hpp

// Kernel is an .entry.
struct Kernel {
  std::string name;
  std::vector<Param> params;
  uint32_t paramBytes = 0;
  uint32_t sharedBytes = 0;    // static; dynamic shared memory comes after it
  uint32_t localBytes = 0;     // a thread
  uint32_t registerBytes = 0;  // a thread, as declared (not as NVIDIA's ptxas would allocate)
  uint32_t maxThreads = 0;     // .maxntid or .reqntid of a block; 0: not given
  std::shared_ptr<const Code> code;
};

struct Module {
  int major = 0, minor = 0;  // .version
  int target = 0;            // 70 for sm_70
  std::vector<Global> globals;
  std::map<std::string, Kernel> kernels;
};

// Allocate reserves device memory for a variable of a module and returns its address.
using Allocate = std::function<uint64_t(uint64_t bytes, uint64_t align)>;

// parse loads a module. It throws a Fault that lists every instruction it does not know.
std::unique_ptr<Module> parse(const std::string &text, const Allocate &allocate);

struct Dim {
  uint32_t x = 1, y = 1, z = 1;
};

struct Options {
  bool sharedRace = false;       // find races in shared memory: about three times as slow
  uint64_t seed = 0;             // 0: warps run in order to the next barrier; else they are shuffled and pre-empted, from this seed
  int approxUlp = 0;             // change results of .approx instructions by up to this many units in the last place, from seed
  uint64_t maxInstructions = 0;  // of warps, in a block; 0: no limit
  int threads = 1;               // host threads that run blocks
  bool touch = true;             // report what was read and written
};

struct Result {
  uint64_t warpInstructions = 0, laneInstructions = 0;
  std::vector<Touch> touch;  // as long as ranges; empty without Options::touch
};

// run executes one grid. params is kernel.paramBytes long; ranges are sorted by lo and do not overlap. It throws a Fault; what the
// grid wrote until then stays written.
Result run(const Kernel &kernel, Dim grid, Dim block, uint32_t dynamicSharedBytes, const uint8_t *params,
           const std::vector<Range> &ranges, const Options &options);

}  // namespace ptx
