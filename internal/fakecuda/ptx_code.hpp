// What the parts of the PTX half share: decoded instructions, the state of a running warp, and the decoder that families of
// instructions use. A family is one .cpp with the decoding and the execution of its instructions side by side.
//
// Registers: each holds 32 lanes next to each other (a predicate: one bit a lane in 32 bits), so that an instruction is one loop
// over lanes that the compiler vectorises. Constants lie in a pool of the same form. Registers never overlap partly, hence ivdep.
#pragma once
#include <cstring>
#include <functional>
#include <set>
#include <type_traits>
#include <unordered_map>

#include "ptx.hpp"

namespace ptx {

enum class Type : uint8_t { None, B8, B16, B32, B64, U8, U16, U32, U64, S8, S16, S32, S64, F16, BF16, TF32, F32, F64, F16x2, BF16x2, Pred };
enum class Space : uint8_t { Generic, Global, Shared, Local, Param };
enum class Round : uint8_t { None, Nearest, Zero, Down, Up, Away, Approx };

uint32_t bytesOf(Type t);  // 0 for a predicate
bool isFloat(Type t);
bool isSigned(Type t);

// Operand is a register or a constant of the pool, at offset bytes.
struct Operand {
  enum Kind : uint8_t { None, Register, Constant } kind = None;
  uint8_t bytes = 0;     // a lane's; 0: predicate
  bool negated = false;  // predicates only
  uint32_t offset = 0;
};

struct Warp;
struct Instr;
using Execute = void (*)(Warp &, const Instr &, uint32_t mask);

// Control says what the scheduler does with an instruction.
enum class Control : uint8_t { Plain, Branch, Exit, Barrier };

struct Instr {
  Execute execute = nullptr;
  Control control = Control::Plain;
  Type type = Type::None, from = Type::None;
  Space space = Space::Generic;
  Round round = Round::None;
  uint8_t outs = 0, ins = 0;
  uint8_t vector = 1;  // elements of a load or store
  uint8_t mode = 0;    // the family's own
  bool ftz = false, sat = false, guardNegated = false;
  int32_t guard = -1;      // offset of a predicate; -1: none
  int32_t target = -1;     // of a branch, index of an instruction
  int32_t reconverge = -1; // where the sides of a branch meet; -1: nowhere before the end
  int32_t line = 0;
  int64_t offset = 0;      // added to an address
  int64_t offset2 = 0;     // of a second address
  Operand out[8], in[12];
};

// Special registers that are filled when a block starts.
enum class Special : uint8_t { TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaX, CtaY, CtaZ, NctaX, NctaY, NctaZ, Lane, WarpId, Warps, MaskEq, MaskLt, MaskLe, MaskGt, MaskGe, DynamicShared };

struct Code {
  std::string name;
  std::vector<Instr> instructions;
  std::vector<uint8_t> constants;
  std::vector<std::pair<Special, uint32_t>> specials;  // and the register's offset
  std::vector<std::string> lines;                      // of the module's text, for messages
  uint32_t registerBytes = 0, localBytes = 0, sharedBytes = 0, paramBytes = 0;  // registers: of a warp
};

// ---- a running warp

// Split is a path that waits until the path above it on the stack reaches its reconvergence point.
struct Split {
  uint32_t pc, stop, mask;
};

struct AsyncCopy {
  uint64_t shared, global;
  uint32_t bytes, from;  // from: bytes copied, the rest is zero
};

// Shadow says who touched a byte of shared memory last: for finding races.
struct Shadow {
  uint32_t writeEpoch = 0, writeWarpEpoch = 0, readEpoch = 0, readWarpEpoch = 0;
  uint16_t writer = 0, reader = 0;              // threads
  bool readersOfWarp = false, readersOfBlock = false;  // besides reader, others of its warp, of other warps
};

// Footprint marks the granules that a worker's blocks touched, in pages that come when needed.
class Footprint {
 public:
  explicit Footprint(const std::vector<Range> &r) : ranges(r), pages(2 * r.size()) {}
  void mark(size_t range, uint64_t lo, uint64_t hi, bool write);
  void merge(const Footprint &f);
  std::vector<Touch> touch() const;

 private:
  static constexpr uint64_t kPage = 4096;  // granules
  using Page = std::unique_ptr<uint64_t[]>;
  std::vector<Interval> intervals(size_t range, bool write) const;
  const std::vector<Range> &ranges;
  std::vector<std::vector<Page>> pages;  // reads of range r at 2r, writes at 2r+1
};

struct Block;
struct Warp {
  uint8_t *registers = nullptr;
  const uint8_t *constants = nullptr;
  Block *block = nullptr;
  uint32_t id = 0, alive = 0, mask = 0, pc = 0, stop = ~0u;
  uint32_t epoch = 0;  // counts warp barriers, for races
  uint32_t carry = 0;  // of add.cc and the like, a bit a lane
  std::vector<Split> stack;
  bool waiting = false, done = false;
  uint32_t barrier = 0, barrierThreads = 0;
  std::vector<uint8_t> local;
  const Range *range = nullptr;  // of the last access
  std::vector<AsyncCopy> open;
  std::vector<std::vector<AsyncCopy>> groups;
};

// Block is a running thread block.
struct Block {
  const Code *code = nullptr;
  const uint8_t *params = nullptr;
  const std::vector<Range> *ranges = nullptr;
  const Options *options = nullptr;
  Footprint *footprint = nullptr;
  Dim grid, size, index;
  uint32_t threads = 0, dynamicShared = 0, epoch = 1;
  uint64_t random = 0, warpInstructions = 0, laneInstructions = 0, started = 0;
  std::vector<uint8_t> shared, registers;
  std::vector<Shadow> shadow;
  std::vector<Warp> warps;
};

// trap throws the Fault of an instruction of one lane.
[[noreturn]] void trap(const Warp &w, const Instr &i, uint32_t lane, int code, const std::string &what);
// random returns the next 32 bits of the block's generator.
uint32_t random(Warp &w);
int approxUlp(const Warp &w);
std::string hex(uint64_t v);

template <class T> inline T *to(Warp &w, const Operand &o) { return reinterpret_cast<T *>(w.registers + o.offset); }
template <class T> inline const T *at(const Warp &w, const Operand &o) {
  return reinterpret_cast<const T *>((o.kind == Operand::Constant ? w.constants : w.registers) + o.offset);
}
inline uint32_t predicate(const Warp &w, const Operand &o) {
  uint32_t v = *at<uint32_t>(w, o);
  return o.negated ? ~v : v;
}
inline void setPredicate(Warp &w, const Operand &o, uint32_t v, uint32_t mask) {
  if (o.kind != Operand::Register) return;
  uint32_t *p = to<uint32_t>(w, o);
  *p = (*p & ~mask) | (v & mask);
}

// get and put read and write one lane of an operand of any width.
uint64_t get(const Warp &w, const Operand &o, uint32_t lane);
void put(Warp &w, const Operand &o, uint32_t lane, uint64_t v);

// lanes calls f for each lane in mask. A full warp is the usual case and becomes vector code.
template <class F> inline __attribute__((always_inline)) void lanes(uint32_t mask, F f) {
  if (mask == ~0u) {
#pragma GCC ivdep
    for (uint32_t l = 0; l < 32; l++) f(l);
    return;
  }
  for (; mask; mask &= mask - 1) f(uint32_t(__builtin_ctz(mask)));
}

template <class To, class From> inline To bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "bits between types of one size");
  To r;
  memcpy(&r, &v, sizeof r);
  return r;
}

// bitOf[l] is lane l's bit: a table, so that loops that build or read masks become vector code.
struct LaneBits {
  uint32_t bit[32];
  constexpr LaneBits() : bit() {
    for (int l = 0; l < 32; l++) bit[l] = 1u << l;
  }
};
inline constexpr LaneBits laneBits;

float halfToFloat(uint16_t h);
uint16_t floatToHalf(double x, Round r = Round::Nearest);
inline float bfloatToFloat(uint16_t b) { return bits<float>(uint32_t(b) << 16); }
uint16_t floatToBfloat(double x, Round r = Round::Nearest);
// roundTo rounds x to digits significant bits, less below 2^least.
double roundTo(double x, int digits, int least, Round r);
uint8_t *sharedAt(Warp &w, const Instr &i, uint32_t lane, uint64_t address, uint32_t bytes, bool write, bool atomic = false);
uint8_t *globalAt(Warp &w, const Instr &i, uint32_t lane, uint64_t address, uint32_t bytes, bool write);

constexpr uint64_t kSharedWindow = 1ull << 60, kLocalWindow = 1ull << 61;  // generic addresses of the other spaces

// ---- text

// Item is one thing in a body.
struct Item {
  enum Kind : uint8_t { Open, Close, Label, Directive, Statement } kind;
  int line;
  std::string text;  // Label: the name. Directive, Statement: without the semicolon
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  uint32_t align = 1;
  uint64_t bytes = 0, address = 0;
  bool dynamic = false;  // .extern .shared: after the static part
  std::vector<uint8_t> init;
};

// Body is an .entry or a .func as parsed.
struct Body {
  std::string name;
  bool entry = false;
  int line = 0;
  uint32_t maxThreads = 0;
  std::vector<Variable> results, params;
  std::vector<Item> items;
};

[[noreturn]] void invalid(int line, const std::string &what);
Type typeOf(const std::string &name);
std::string trim(const std::string &s);
std::vector<std::string> split(const std::string &s, char at);  // outside of brackets
uint64_t number(int line, const std::string &s, Type t);
Variable declaration(int line, Space space, const std::string &text);
inline uint64_t alignUp(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }

// Program is the text of a module, before decoding.
struct Program {
  std::vector<std::string> lines;
  std::vector<Variable> variables;
  std::map<std::string, Body> bodies;
};

// ---- decoding

// Unknown is thrown by a family for an instruction that it does not know; parse gathers all of them.
struct Unknown {
  std::string why;
};

// Decoder decodes one kernel, with the functions it calls put in place. Families see the current statement through it.
class Decoder {
 public:
  Decoder(const Program &p, const Body &entry, std::vector<std::string> &unknown);
  Kernel decode();

  // The statement: op is the word before the first period; families take modifiers until none is left, and operands in order.
  std::string op;
  Instr i;
  bool take(const std::string &modifier);  // true if it was there
  Type takeType();                         // the next type; Unknown if there is none
  Type peekType() const;                   // None if there is none
  int choose(std::initializer_list<const char *> words);  // index of the one that is there, or -1
  Round takeRound();
  size_t operands() const { return args.size(); }
  const std::string &arg(size_t k) const;
  void out(size_t k, Type t, bool wider = false);  // operand k is a result. wider: a register may be wider than t
  void in(size_t k, Type t, bool wider = false);
  void outPair(size_t k, Type t, Type second);  // d|p, or d
  void outGroup(size_t k, Type t, bool wider = false);  // {a, b, c, d} or one
  void inGroup(size_t k, Type t, bool wider = false);
  void address(size_t k);        // [register + offset]
  Operand constant(uint64_t v, uint32_t bytes);
  Operand scratch(uint32_t bytes);  // a register of our own
  void emit(Execute e);             // appends i with e
  void branch(const std::string &label);
  void exit();
  void call();
  Operand operand(const std::string &s, Type t, bool wider);
  bool symbol(const std::string &name, uint64_t &address, Space &space, bool &dynamic);

 private:
  struct Register {
    Type type;
    uint32_t offset;
  };
  struct Scope {
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, Variable> variables;
    std::string labels;  // what is put before names of labels in this scope
  };
  void body(const Body &b);
  void directive(const Item &it);
  void statement(const Item &it);
  uint32_t newRegister(Type t);
  bool findRegister(const std::string &name, Register &r) const;
  uint64_t place(Variable &v);
  std::string scopedLabel(const std::string &name) const;

  const Program &program;
  const Body &entry;
  std::vector<std::string> &unknown;
  std::shared_ptr<Code> code;
  Kernel kernel;
  std::vector<Scope> scopes;
  std::vector<std::string> calls;  // functions being put in place, outermost first
  std::vector<std::string> parts, args;
  std::unordered_map<std::string, int> labels;
  std::vector<std::pair<int, std::string>> branches;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> pool;
  std::map<std::string, uint64_t> sharedVariables;
  std::map<std::string, uint32_t> specials;
  struct Dynamic { uint32_t offset, bytes; int64_t add; };
  std::vector<Dynamic> dynamic;  // constants that hold addresses of dynamic shared memory
  int inlined = 0;
};

// findReconvergence fills Instr::reconverge with immediate post-dominators.
void findReconvergence(std::vector<Instr> &code);

// The families. Each decodes the opcodes that decoders() in ptx_decode.cpp lists for it.
void decodeInteger(Decoder &d);
void decodeBits(Decoder &d);
void decodeFloat(Decoder &d);
void decodeArithmetic(Decoder &d);  // integer or float by type
void decodeCompare(Decoder &d);
void decodeMove(Decoder &d);
void decodeConvert(Decoder &d);
void decodeMemory(Decoder &d);
void decodeAtomic(Decoder &d);
void decodeAsync(Decoder &d);
void decodeWarp(Decoder &d);
void decodeMatrix(Decoder &d);
void decodeControl(Decoder &d);

}  // namespace ptx
