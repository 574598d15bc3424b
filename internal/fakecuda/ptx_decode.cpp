//go:build ignore

// The decoder: registers, constants, labels, calls put in place, and the table from opcodes to families.
#include "ptx_code.hpp"

namespace ptx {

namespace {

// decoders maps each opcode to its family.
const std::unordered_map<std::string, void (*)(Decoder &)> &decoders() {
  static const std::unordered_map<std::string, void (*)(Decoder &)> table = [] {
    std::unordered_map<std::string, void (*)(Decoder &)> t;
    auto add = [&](void (*f)(Decoder &), std::initializer_list<const char *> ops) {
      for (auto op : ops) t[op] = f;
    };
    add(decodeArithmetic, {"add", "sub", "mul", "mad", "div", "min", "max", "neg", "abs"});
    add(decodeInteger, {"addc", "subc", "rem", "popc", "clz", "brev", "bfind", "dp4a"});
    add(decodeBits, {"and", "or", "xor", "not", "shl", "shr", "shf", "lop3", "prmt", "bfe", "bfi"});
    add(decodeFloat, {"fma", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign"});
    add(decodeCompare, {"setp", "selp"});
    add(decodeMove, {"mov", "cvta"});
    add(decodeConvert, {"cvt"});
    add(decodeMemory, {"ld", "ldu", "st", "prefetch", "membar", "fence"});
    add(decodeAtomic, {"atom", "red"});
    add(decodeAsync, {"cp"});
    add(decodeWarp, {"shfl", "vote", "match", "redux", "activemask"});
    add(decodeMatrix, {"mma", "ldmatrix"});
    add(decodeControl, {"bra", "ret", "exit", "call", "bar", "barrier", "trap", "brkpt", "nanosleep"});
    return t;
  }();
  return table;
}

const std::map<std::string, Special> &specialNames() {
  static const std::map<std::string, Special> t = {
      {"%tid.x", Special::TidX}, {"%tid.y", Special::TidY}, {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX}, {"%ntid.y", Special::NtidY}, {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaX}, {"%ctaid.y", Special::CtaY}, {"%ctaid.z", Special::CtaZ},
      {"%nctaid.x", Special::NctaX}, {"%nctaid.y", Special::NctaY}, {"%nctaid.z", Special::NctaZ},
      {"%laneid", Special::Lane}, {"%warpid", Special::WarpId}, {"%nwarpid", Special::Warps},
      {"%lanemask_eq", Special::MaskEq}, {"%lanemask_lt", Special::MaskLt}, {"%lanemask_le", Special::MaskLe},
      {"%lanemask_gt", Special::MaskGt}, {"%lanemask_ge", Special::MaskGe}, {"%dynamic_smem_size", Special::DynamicShared}};
  return t;
}

}  // namespace

Decoder::Decoder(const Program &p, const Body &e, std::vector<std::string> &u) : program(p), entry(e), unknown(u), code(std::make_shared<Code>()) {}

Kernel Decoder::decode() {
  code->name = kernel.name = entry.name;
  code->lines = program.lines;
  kernel.maxThreads = entry.maxThreads;
  scopes.emplace_back();
  for (auto v : entry.params) {
    v.address = alignUp(kernel.paramBytes, v.align);
    kernel.params.push_back({v.name, uint32_t(v.address), uint32_t(v.bytes), v.align});
    kernel.paramBytes = uint32_t(v.address + v.bytes);
    scopes.back().variables[v.name] = v;
  }
  body(entry);
  i = Instr{};
  i.line = entry.line;
  exit();
  for (auto &b : branches) {
    auto it = labels.find(b.second);
    if (it == labels.end()) invalid(code->instructions[b.first].line, "unknown label " + b.second.substr(b.second.rfind('\'') + 1));
    code->instructions[b.first].target = it->second;
  }
  findReconvergence(code->instructions);
  code->sharedBytes = uint32_t(alignUp(code->sharedBytes, 16));
  for (auto &d : dynamic) {
    uint64_t v = code->sharedBytes + d.add;
    for (uint32_t l = 0; l < 32; l++) memcpy(&code->constants[d.offset + l * d.bytes], &v, d.bytes);
  }
  code->localBytes = uint32_t(alignUp(code->localBytes, 16));
  code->paramBytes = kernel.paramBytes;
  kernel.sharedBytes = code->sharedBytes;
  kernel.localBytes = code->localBytes;
  kernel.registerBytes = code->registerBytes / 32;
  kernel.code = code;
  return std::move(kernel);
}

void Decoder::body(const Body &b) {
  calls.push_back(b.name);
  for (auto &it : b.items) {
    switch (it.kind) {
      case Item::Open: {
        scopes.emplace_back();
        scopes.back().labels = scopes[scopes.size() - 2].labels;
        break;
      }
      case Item::Close: scopes.pop_back(); break;
      case Item::Label: labels[scopedLabel(it.text)] = int(code->instructions.size()); break;
      case Item::Directive: directive(it); break;
      case Item::Statement: statement(it); break;
    }
  }
  calls.pop_back();
}

std::string Decoder::scopedLabel(const std::string &name) const { return scopes.back().labels + name; }

void Decoder::directive(const Item &it) {
  size_t e = it.text.find_first_of(" \t");
  std::string w = it.text.substr(0, e), rest = e == std::string::npos ? "" : trim(it.text.substr(e));
  if (w == ".pragma") return;
  if (w == ".shared" || w == ".local" || w == ".param") {
    // A .param inside a body carries arguments of calls: memory of the thread.
    Variable v = declaration(it.line, w == ".shared" ? Space::Shared : Space::Local, rest);
    uint32_t &base = w == ".shared" ? code->sharedBytes : code->localBytes;
    v.address = alignUp(base, v.align);
    base = uint32_t(v.address + v.bytes);
    scopes.back().variables[v.name] = v;
    return;
  }
  if (w != ".reg") invalid(it.line, "unknown directive " + it.text);
  e = rest.find_first_of(" \t");
  Type t = typeOf(rest.substr(1, e - 1));
  if (t == Type::None || bytesOf(t) == 1 || e == std::string::npos) invalid(it.line, "registers of unknown type: " + it.text);
  for (auto &n : split(rest.substr(e), ',')) {
    size_t lt = n.find('<');
    if (lt == std::string::npos) {
      scopes.back().registers[n] = {t, newRegister(t)};
      continue;
    }
    uint64_t count = number(it.line, n.substr(lt + 1, n.find('>') - lt - 1), Type::U32);
    std::string prefix = trim(n.substr(0, lt));
    for (uint64_t k = 0; k < count; k++) scopes.back().registers[prefix + std::to_string(k)] = {t, newRegister(t)};
  }
}

uint32_t Decoder::newRegister(Type t) {
  uint32_t at = code->registerBytes;
  code->registerBytes = at + std::max(64u, 32 * bytesOf(t));
  return at;
}

Operand Decoder::scratch(uint32_t bytes) {
  Operand o;
  o.kind = Operand::Register;
  o.bytes = uint8_t(bytes);
  o.offset = newRegister(bytes == 8 ? Type::B64 : Type::B32);
  return o;
}

bool Decoder::findRegister(const std::string &name, Register &r) const {
  for (size_t s = scopes.size(); s-- > 0;) {
    auto it = scopes[s].registers.find(name);
    if (it == scopes[s].registers.end()) continue;
    r = it->second;
    return true;
  }
  return false;
}

bool Decoder::symbol(const std::string &name, uint64_t &address, Space &space, bool &isDynamic) {
  for (size_t s = scopes.size(); s-- > 0;) {
    auto it = scopes[s].variables.find(name);
    if (it == scopes[s].variables.end()) continue;
    address = it->second.address;
    space = it->second.space;
    isDynamic = false;
    return true;
  }
  for (auto &v : program.variables) {
    if (v.name != name) continue;
    space = v.space;
    isDynamic = v.dynamic;
    address = v.address;
    if (space == Space::Shared && !v.dynamic) {
      auto placed = sharedVariables.emplace(name, alignUp(code->sharedBytes, v.align));
      address = placed.first->second;
      if (placed.second) code->sharedBytes = uint32_t(address + v.bytes);
    }
    return true;
  }
  return false;
}

Operand Decoder::constant(uint64_t v, uint32_t bytes) {
  if (bytes && bytes < 8) v &= (1ull << (8 * bytes)) - 1;
  Operand o;
  o.kind = Operand::Constant;
  o.bytes = uint8_t(bytes);
  auto found = pool.find({v, bytes});
  if (found != pool.end()) {
    o.offset = found->second;
    return o;
  }
  o.offset = uint32_t(alignUp(code->constants.size(), 64));
  code->constants.resize(o.offset + std::max(64u, 32 * bytes));
  uint32_t all = v ? ~0u : 0;
  if (!bytes) memcpy(&code->constants[o.offset], &all, 4);
  for (uint32_t l = 0; bytes && l < 32; l++) memcpy(&code->constants[o.offset + l * bytes], &v, bytes);
  pool[{v, bytes}] = o.offset;
  return o;
}

Operand Decoder::operand(const std::string &text, Type t, bool wider) {
  Operand o;
  std::string s = text;
  if (s == "_") return o;
  if (s[0] == '!') {
    if (t != Type::Pred) throw Unknown{"! before " + s};
    o.negated = true;
    s = trim(s.substr(1));
  }
  uint32_t bytes = t == Type::Pred ? 0 : std::max(2u, bytesOf(t));
  Register r;
  if (findRegister(s, r)) {
    o.kind = Operand::Register;
    o.bytes = uint8_t(bytesOf(r.type));
    o.offset = r.offset;
    if (o.bytes != bytes && !(wider && o.bytes > bytes)) throw Unknown{"register " + s + " has " + std::to_string(8 * o.bytes) + " bits"};
    return o;
  }
  auto special = specialNames().find(s);
  if (special != specialNames().end()) {
    if (bytes != 4) throw Unknown{s + " has 32 bits"};
    auto placed = specials.emplace(s, 0);
    if (placed.second) code->specials.push_back({special->second, placed.first->second = newRegister(Type::B32)});
    o.kind = Operand::Register;
    o.bytes = 4;
    o.offset = placed.first->second;
    return o;
  }
  if (s[0] == '%') throw Unknown{"unknown register " + s};
  if (s == "WARP_SZ") return constant(32, bytes);
  if (isdigit(static_cast<unsigned char>(s[0])) || s[0] == '-' || s[0] == '+') return constant(number(i.line, s, t), bytes);
  size_t plus = s.find('+');
  int64_t add = plus == std::string::npos ? 0 : int64_t(number(i.line, trim(s.substr(plus + 1)), Type::S64));
  uint64_t at;
  Space space;
  bool isDynamic;
  if (!symbol(trim(s.substr(0, plus)), at, space, isDynamic)) throw Unknown{"unknown operand " + s};
  if (!isDynamic) return constant(at + uint64_t(add), bytes);
  o.kind = Operand::Constant;
  o.bytes = uint8_t(bytes);
  o.offset = uint32_t(alignUp(code->constants.size(), 64));
  code->constants.resize(o.offset + 32 * bytes);
  dynamic.push_back({o.offset, bytes, add});
  return o;
}

const std::string &Decoder::arg(size_t k) const {
  if (k >= args.size()) throw Unknown{"an operand is missing"};
  return args[k];
}

void Decoder::out(size_t k, Type t, bool wider) {
  Operand o = operand(arg(k), t, wider);
  if (o.kind == Operand::Constant) throw Unknown{"the result is a constant"};
  i.out[i.outs++] = o;
}

void Decoder::outPair(size_t k, Type t, Type second) {
  const std::string &s = arg(k);
  size_t bar = s.find('|');
  i.out[i.outs++] = operand(trim(s.substr(0, bar)), t, false);
  if (bar != std::string::npos) i.out[i.outs++] = operand(trim(s.substr(bar + 1)), second, false);
}

void Decoder::in(size_t k, Type t, bool wider) {
  Operand o = operand(arg(k), t, wider);
  if (o.kind == Operand::None) throw Unknown{"_ is not a value"};
  i.in[i.ins++] = o;
}

static std::vector<std::string> group(const std::string &s) {
  if (s.empty() || s[0] != '{') return {s};
  return split(s.substr(1, s.size() - 2), ',');
}

void Decoder::outGroup(size_t k, Type t, bool wider) {
  for (auto &s : group(arg(k))) {
    if (i.outs == 8) throw Unknown{"more than 8 results"};
    i.out[i.outs++] = operand(s, t, wider);
  }
}

void Decoder::inGroup(size_t k, Type t, bool wider) {
  for (auto &s : group(arg(k))) {
    if (i.ins == 12) throw Unknown{"more than 12 operands"};
    i.in[i.ins++] = operand(s, t, wider);
  }
}

void Decoder::address(size_t k) {
  std::string s = arg(k);
  if (s.size() < 3 || s.front() != '[' || s.back() != ']') throw Unknown{"not an address: " + s};
  s = trim(s.substr(1, s.size() - 2));
  size_t plus = s.find('+', 1);
  std::string base = trim(s.substr(0, plus));
  i.offset = plus == std::string::npos ? 0 : int64_t(number(i.line, trim(s.substr(plus + 1)), Type::S64));
  Register r;
  if (findRegister(base, r)) {
    if (r.type == Type::Pred || bytesOf(r.type) < 4) throw Unknown{"not an address: " + s};
    i.in[i.ins++] = operand(base, r.type, false);
  } else {
    i.in[i.ins++] = operand(base, Type::U64, false);
  }
}

bool Decoder::take(const std::string &m) {
  for (auto p = parts.begin(); p != parts.end(); ++p) {
    if (*p != m) continue;
    parts.erase(p);
    return true;
  }
  return false;
}

Type Decoder::peekType() const {
  for (auto &p : parts) if (typeOf(p) != Type::None) return typeOf(p);
  return Type::None;
}

Type Decoder::takeType() {
  for (auto p = parts.begin(); p != parts.end(); ++p) {
    Type t = typeOf(*p);
    if (t == Type::None) continue;
    parts.erase(p);
    return t;
  }
  throw Unknown{"a type is missing"};
}

int Decoder::choose(std::initializer_list<const char *> words) {
  int k = 0;
  for (auto w : words) {
    if (take(w)) return k;
    k++;
  }
  return -1;
}

Round Decoder::takeRound() {
  switch (choose({"rn", "rz", "rm", "rp", "approx"})) {
    case 0: return Round::Nearest;
    case 1: return Round::Zero;
    case 2: return Round::Down;
    case 3: return Round::Up;
    case 4: return Round::Approx;
    default: return Round::None;
  }
}

void Decoder::emit(Execute e) {
  i.execute = e;
  code->instructions.push_back(i);
}

void Decoder::branch(const std::string &label) {
  branches.push_back({int(code->instructions.size()), scopedLabel(label)});
  i.control = Control::Branch;
  emit(nullptr);
}

// exit ends the thread, or the function that is put in place.
void Decoder::exit() {
  if (calls.size() > 1 && op == "ret") return branch("$return");
  i.control = Control::Exit;
  emit(nullptr);
}

// call puts the body of a function in place: "call (result), f, (argument, argument)". Results and arguments are variables of the
// caller, which the function sees under the names of its own.
void Decoder::call() {
  size_t k = 0;
  auto names = [&](const std::string &s) { return s.size() > 2 ? split(s.substr(1, s.size() - 2), ',') : std::vector<std::string>{}; };
  std::vector<std::string> results, given;
  if (arg(0)[0] == '(') results = names(arg(k++));
  std::string name = arg(k++);
  if (k < operands() && arg(k)[0] == '(') given = names(arg(k++));
  if (k != operands()) throw Unknown{"calls through pointers are not emulated"};
  auto f = program.bodies.find(name);
  if (f == program.bodies.end() || f->second.entry || (f->second.items.empty())) throw Unknown{"function " + name + " has no body here"};
  for (auto &c : calls) if (c == name) throw Unknown{"function " + name + " calls itself"};
  if (results.size() != f->second.results.size() || given.size() != f->second.params.size()) throw Unknown{"function " + name + " takes other arguments"};
  if (i.guard >= 0) throw Unknown{"a call under a guard"};
  Scope scope;
  auto bind = [&](const Variable &v, const std::string &to) {
    Variable x = v;
    bool isDynamic;
    if (!symbol(to, x.address, x.space, isDynamic)) throw Unknown{"unknown operand " + to};
    scope.variables[v.name] = x;
  };
  for (size_t r = 0; r < results.size(); r++) bind(f->second.results[r], results[r]);
  for (size_t a = 0; a < given.size(); a++) bind(f->second.params[a], given[a]);
  scope.labels = std::to_string(++inlined) + "'";
  // The function sees its own scope only; the caller's registers have names of their own, so leaving them visible does no harm
  // to a valid text.
  scopes.push_back(scope);
  parts.clear();
  body(f->second);
  labels[scopedLabel("$return")] = int(code->instructions.size());
  scopes.pop_back();
}

void Decoder::statement(const Item &it) {
  i = Instr{};
  i.line = it.line;
  std::string s = it.text;
  try {
    if (s[0] == '@') {
      size_t e = s.find_first_of(" \t\n");
      std::string g = s.substr(1, e - 1);
      i.guardNegated = g[0] == '!';
      Register r;
      if (!findRegister(g.substr(i.guardNegated), r) || r.type != Type::Pred) throw Unknown{"unknown guard " + g};
      i.guard = int32_t(r.offset);
      s = trim(s.substr(e));
    }
    size_t e = s.find_first_of(" \t\n");
    parts = split(s.substr(0, e), '.');
    args = e == std::string::npos ? std::vector<std::string>{} : split(s.substr(e), ',');
    op = parts[0];
    parts.erase(parts.begin());
    auto d = decoders().find(op);
    if (d == decoders().end()) throw Unknown{"unknown instruction " + op};
    d->second(*this);
    if (!parts.empty()) throw Unknown{"unknown modifier ." + parts[0]};
  } catch (Unknown &u) {
    unknown.push_back("line " + std::to_string(it.line) + ": " + it.text + ": " + u.why);
  }
}

}  // namespace ptx
