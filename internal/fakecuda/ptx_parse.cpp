//go:build ignore

// The text of a module: comments, declarations, headers of kernels and functions, bodies as lists of items.
#include <cstdlib>

#include "ptx_code.hpp"

namespace ptx {

void invalid(int line, const std::string &what) { throw Fault{kInvalidPtx, "PTX line " + std::to_string(line) + ": " + what}; }

Type typeOf(const std::string &name) {
  static const std::unordered_map<std::string, Type> types = {
      {"b8", Type::B8},   {"b16", Type::B16}, {"b32", Type::B32}, {"b64", Type::B64},     {"u8", Type::U8},         {"u16", Type::U16},   {"u32", Type::U32},
      {"u64", Type::U64}, {"s8", Type::S8},   {"s16", Type::S16}, {"s32", Type::S32},     {"s64", Type::S64},       {"f16", Type::F16},   {"bf16", Type::BF16},
      {"f32", Type::F32}, {"f64", Type::F64}, {"tf32", Type::TF32}, {"f16x2", Type::F16x2}, {"bf16x2", Type::BF16x2}, {"pred", Type::Pred}};
  auto it = types.find(name);
  return it == types.end() ? Type::None : it->second;
}

uint32_t bytesOf(Type t) {
  switch (t) {
    case Type::None: case Type::Pred: return 0;
    case Type::B8: case Type::U8: case Type::S8: return 1;
    case Type::B16: case Type::U16: case Type::S16: case Type::F16: case Type::BF16: return 2;
    case Type::B64: case Type::U64: case Type::S64: case Type::F64: return 8;
    default: return 4;
  }
}

bool isFloat(Type t) { return t >= Type::F16 && t <= Type::BF16x2; }
bool isSigned(Type t) { return t >= Type::S8 && t <= Type::S64; }

std::string trim(const std::string &s) {
  size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> split(const std::string &s, char at) {
  std::vector<std::string> r;
  std::string word;
  int depth = 0;
  for (char c : s) {
    if (strchr("{[(", c)) depth++;
    if (strchr("}])", c)) depth--;
    if (c == at && depth == 0) {
      r.push_back(trim(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!trim(word).empty() || !r.empty()) r.push_back(trim(word));
  return r;
}

// number reads a literal as the bits of type t: 12, -3, 0x1F, 0b101, 017, 1U, 0f3F800000, 0d3FF0000000000000, 1.5.
uint64_t number(int line, const std::string &s, Type t) {
  char *end = nullptr;
  if (s.size() > 2 && s[0] == '0' && strchr("fFdD", s[1])) {
    bool single = s[1] == 'f' || s[1] == 'F';
    uint64_t u = strtoull(s.c_str() + 2, &end, 16);
    if (*end || s.size() != (single ? 10u : 18u)) invalid(line, "bad number " + s);
    double v = single ? bits<float>(uint32_t(u)) : bits<double>(u);
    if (t == Type::F64 || t == Type::B64) return single ? bits<uint64_t>(v) : u;
    return single ? u : bits<uint32_t>(float(v));
  }
  if (s.find('.') != std::string::npos) {
    double v = strtod(s.c_str(), &end);
    if (*end || !isFloat(t)) invalid(line, "bad number " + s);
    return t == Type::F64 ? bits<uint64_t>(v) : bits<uint32_t>(float(v));
  }
  bool minus = s[0] == '-';
  std::string u = minus || s[0] == '+' ? s.substr(1) : s;
  if (!u.empty() && (u.back() == 'U' || u.back() == 'u')) u.pop_back();
  int base = u.size() > 2 && u[0] == '0' && (u[1] == 'b' || u[1] == 'B') ? 2 : 0;
  uint64_t v = strtoull(u.c_str() + base, &end, base);
  if (u.empty() || *end) invalid(line, "bad number " + s);
  return minus ? 0 - v : v;
}

// declaration reads ".align 8 .b8 name[4][2] = {1, 2}" (after the state space).
Variable declaration(int line, Space space, const std::string &text) {
  Variable v;
  v.space = space;
  v.align = 0;
  std::string s = text, init;
  if (size_t eq = s.find('='); eq != std::string::npos) {
    init = trim(s.substr(eq + 1));
    s = s.substr(0, eq);
  }
  Type t = Type::None;
  uint64_t count = 1, vector = 1;
  bool unsized = false;
  for (size_t p = 0; p < s.size();) {
    if (isspace(static_cast<unsigned char>(s[p]))) {
      p++;
      continue;
    }
    size_t e = s.find_first_of(s[p] == '[' ? "]" : " \t\n[", p + 1);
    if (e == std::string::npos) e = s.size();
    std::string w = s.substr(p, e - p);
    p = e;
    if (w[0] == '[') {
      p++;
      std::string n = trim(w.substr(1));
      if (n.empty()) unsized = true; else count *= number(line, n, Type::U64);
    } else if (w == ".align") {
      while (p < s.size() && isspace(static_cast<unsigned char>(s[p]))) p++;
      size_t q = s.find_first_not_of("0123456789", p);
      v.align = uint32_t(number(line, s.substr(p, q - p), Type::U32));
      p = q;
    } else if (w == ".ptr" || w == ".global" || w == ".const" || w == ".shared" || w == ".local") {
      if (w != ".ptr") continue;  // ".ptr .global .align 4": what a pointer points to. Its alignment is not the variable's
      if (size_t a = s.find(".align", p); a != std::string::npos) {
        p = s.find_first_not_of(" \t0123456789", a + 6);
        if (p == std::string::npos) invalid(line, "parameter without a name: " + text);
      }
    } else if (w == ".v2" || w == ".v4") {
      vector = w[2] - '0';
    } else if (w[0] == '.') {
      t = typeOf(w.substr(1));
      if (t == Type::None) invalid(line, "unknown " + w + " in " + text);
    } else {
      v.name = w;
    }
  }
  if (t == Type::None || v.name.empty()) invalid(line, "declaration without a type or a name: " + text);
  uint64_t each = std::max(1u, bytesOf(t));
  v.bytes = unsized ? 0 : each * vector * count;
  if (!v.align) v.align = uint32_t(each * vector);
  if (init.empty()) return v;
  for (char &c : init) if (c == '{' || c == '}') c = ' ';
  std::vector<std::string> values = split(init, ',');
  if (unsized) v.bytes = each * values.size();
  if (values.size() * each > v.bytes) invalid(line, "more values than " + v.name + " holds");
  v.init.assign(v.bytes, 0);
  for (size_t k = 0; k < values.size(); k++) {
    uint64_t x = number(line, values[k], t);
    memcpy(&v.init[k * each], &x, each);
  }
  return v;
}

namespace {

class Parser {
 public:
  Parser(const std::string &text, const Allocate &a) : src(text), allocate(a) {}

  std::unique_ptr<Module> run() {
    lines();
    blankComments();
    while (more()) topLevel();
    std::vector<std::string> unknown;
    for (auto &b : program.bodies)
      if (b.second.entry) module->kernels[b.first] = Decoder(program, b.second, unknown).decode();
    if (unknown.empty()) return std::move(module);
    std::string all = "PTX that the emulated device does not know:";
    for (auto &u : unknown) all += "\n  " + u;
    throw Fault{kInvalidPtx, all};
  }

 private:
  void lines() {
    for (size_t a = 0; a <= src.size();) {
      size_t b = std::min(src.find('\n', a), src.size());
      program.lines.push_back(trim(src.substr(a, b - a)));
      a = b + 1;
    }
  }

  // blankComments puts spaces over comments, so that lines keep their numbers.
  void blankComments() {
    for (size_t a = 0; a + 1 < src.size(); a++) {
      if (src[a] != '/' || (src[a + 1] != '/' && src[a + 1] != '*')) continue;
      bool block = src[a + 1] == '*';
      size_t e = src.find(block ? "*/" : "\n", a + 2);
      e = e == std::string::npos ? src.size() : e + (block ? 2 : 0);
      for (; a < e; a++) if (src[a] != '\n') src[a] = ' ';
    }
  }

  bool more() {
    for (; p < src.size() && (isspace(static_cast<unsigned char>(src[p])) || src[p] == 0); p++) line += src[p] == '\n';
    return p < src.size();
  }

  std::string word() {
    more();
    size_t s = p;
    while (p < src.size() && (isalnum(static_cast<unsigned char>(src[p])) || strchr("_$%.", src[p]))) p++;
    return src.substr(s, p - s);
  }

  // until returns the text before the first of stops outside of braces, and leaves p on it.
  std::string until(const char *stops) {
    int start = line, depth = 0;
    size_t s = p;
    for (; p < src.size(); p++) {
      if (depth == 0 && strchr(stops, src[p])) return trim(src.substr(s, p - s));
      if (src[p] == '{') depth++;
      if (src[p] == '}') depth--;
      line += src[p] == '\n';
    }
    invalid(start, "the text ends in the middle of a statement");
  }

  void expect(char c) {
    if (!more() || src[p] != c) invalid(line, std::string("expected ") + c);
    p++;
  }

  void topLevel() {
    int at = line;
    std::string w = word();
    if (w == ".version") {
      std::string v = word();
      size_t dot = v.find('.');
      if (dot == std::string::npos) invalid(at, "bad .version " + v);
      module->major = int(number(at, v.substr(0, dot), Type::U32));
      module->minor = int(number(at, v.substr(dot + 1), Type::U32));
    } else if (w == ".target") {
      std::string t = until("\n");
      if (t.compare(0, 3, "sm_")) invalid(at, "unknown .target " + t);
      module->target = atoi(t.c_str() + 3);
    } else if (w == ".address_size") {
      if (word() != "64") invalid(at, "only .address_size 64 is emulated");
    } else if (w == ".visible" || w == ".weak" || w == ".common" || w == ".extern") {
      external = w == ".extern";
    } else if (w == ".shared" || w == ".global" || w == ".const") {
      variable(at, w);
    } else if (w == ".entry" || w == ".func") {
      function(at, w == ".entry");
    } else if (w == ".file" || w == ".loc") {
      until("\n");
    } else {
      invalid(at, "unexpected " + (w.empty() ? std::string(1, src[p]) : w));
    }
  }

  void variable(int at, const std::string &space) {
    Variable v = declaration(at, space == ".shared" ? Space::Shared : Space::Global, until(";"));
    expect(';');
    if (v.space == Space::Shared) {
      v.dynamic = external || v.bytes == 0;
    } else {
      if (external) invalid(at, "variable " + v.name + " of another module: there is no linking");
      v.address = allocate(v.bytes, v.align);
      module->globals.push_back({v.name, v.address, v.bytes, v.init});
    }
    external = false;
    program.variables.push_back(v);
  }

  std::vector<Variable> parameters() {
    std::vector<Variable> r;
    expect('(');
    int at = line;
    std::string all = until(")");
    p++;
    for (auto &d : split(all, ',')) {
      bool param = d.compare(0, 6, ".param") == 0;
      if (!param && d.compare(0, 4, ".reg")) invalid(at, "bad parameter " + d);
      if (!param) invalid(at, "parameters in registers are not emulated: " + d);
      r.push_back(declaration(at, Space::Param, d.substr(6)));
    }
    return r;
  }

  void function(int at, bool entry) {
    Body b;
    b.entry = entry;
    b.line = at;
    if (!entry && more() && src[p] == '(') b.results = parameters();
    b.name = word();
    if (more() && src[p] == '(') b.params = parameters();
    external = false;
    while (more() && src[p] != '{' && src[p] != ';') {
      std::string d = word();
      if (d == ".maxntid" || d == ".reqntid") {
        uint64_t n = 1;
        do {
          if (src[p] == ',') p++;
          n *= number(line, word(), Type::U32);
          more();
        } while (src[p] == ',');
        b.maxThreads = uint32_t(n);
      } else if (d == ".minnctapersm" || d == ".maxnctapersm" || d == ".maxnreg") {
        word();
      } else if (d != ".noreturn") {
        invalid(line, "unknown directive " + (d.empty() ? std::string(1, src[p]) : d) + " of " + b.name);
      }
    }
    bool declared = src[p++] == ';';
    if (!declared) items(b);
    if (declared && program.bodies.count(b.name)) return;
    if (!declared || !entry) program.bodies[b.name] = b;
  }

  void items(Body &b) {
    for (int depth = 1; depth > 0;) {
      if (!more()) invalid(line, "the text ends inside " + b.name);
      if (src[p] == '{' || src[p] == '}') {
        bool open = src[p++] == '{';
        depth += open ? 1 : -1;
        if (depth) b.items.push_back({open ? Item::Open : Item::Close, line, ""});
        continue;
      }
      if (src[p] == ';') {
        p++;
        continue;
      }
      int at = line;
      size_t start = p;
      std::string w = word();
      if (w == ".loc" || w == ".file") {
        until("\n");
      } else if (more() && src[p] == ':' && !w.empty() && w[0] != '.') {
        p++;
        b.items.push_back({Item::Label, at, w});
      } else {
        p = start;
        line = at;
        std::string text = until(";");
        p++;
        b.items.push_back({w[0] == '.' ? Item::Directive : Item::Statement, at, text});
      }
    }
  }

  std::string src;
  const Allocate &allocate;
  size_t p = 0;
  int line = 1;
  bool external = false;
  Program program;
  std::unique_ptr<Module> module = std::make_unique<Module>();
};

}  // namespace

std::unique_ptr<Module> parse(const std::string &text, const Allocate &allocate) { return Parser(text, allocate).run(); }

}  // namespace ptx
