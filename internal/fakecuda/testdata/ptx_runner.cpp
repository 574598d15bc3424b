//go:build ignore

// A program that runs one kernel for the tests in ptx_test.go. Standard input has one command a line:
//   buffer HEX | arg buffer INDEX | arg 4|8 HEX-VALUE | option NAME VALUE | launch KERNEL GX GY GZ BX BY BZ DYNAMIC
// and after the launch the PTX. It prints "fault CODE MESSAGE", or "buffer HEX" for each and "touch INDEX read|write LO HI" relative
// to the buffer, then "instructions WARPS LANES SECONDS".
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <sstream>

#include "../ptx.hpp"

namespace {

constexpr uint64_t kBase = 0x7f0000000000, kStep = 1ull << 32;  // device addresses of the buffers

std::vector<uint8_t> fromHex(const std::string &s) {
  std::vector<uint8_t> r;
  for (size_t k = 0; k + 1 < s.size(); k += 2) r.push_back(uint8_t(strtoul(s.substr(k, 2).c_str(), nullptr, 16)));
  return r;
}

struct Launch {
  std::vector<std::vector<uint8_t>> buffers, globals;
  std::vector<uint8_t> params;
  std::vector<ptx::Range> ranges;
  ptx::Options options;
  std::string kernel, text;
  ptx::Dim grid, block;
  uint32_t dynamic = 0;

  void param(uint64_t v, size_t bytes) {
    params.resize((params.size() + bytes - 1) / bytes * bytes);
    for (size_t k = 0; k < bytes; k++) params.push_back(uint8_t(v >> (8 * k)));
  }

  void option(const std::string &name, uint64_t v) {
    if (name == "race") options.sharedRace = v;
    else if (name == "seed") options.seed = v;
    else if (name == "ulp") options.approxUlp = int(v);
    else if (name == "limit") options.maxInstructions = v;
    else if (name == "threads") options.threads = int(v);
    else throw std::runtime_error("unknown option " + name);
  }

  void read() {
    std::string line, w;
    while (std::getline(std::cin, line)) {
      std::istringstream in(line);
      in >> w;
      if (w == "buffer") {
        in >> w;
        buffers.push_back(fromHex(w));
      } else if (w == "arg") {
        std::string v;
        in >> w >> v;
        if (w == "buffer") param(kBase + kStep * strtoull(v.c_str(), nullptr, 10), 8);
        else param(strtoull(v.c_str(), nullptr, 16), size_t(atoi(w.c_str())));
      } else if (w == "option") {
        uint64_t v = 0;
        in >> w >> v;
        option(w, v);
      } else if (w == "launch") {
        in >> kernel >> grid.x >> grid.y >> grid.z >> block.x >> block.y >> block.z >> dynamic;
        text.assign(std::istreambuf_iterator<char>(std::cin), {});
        return;
      }
    }
  }

  void run() {
    auto module = ptx::parse(text, [&](uint64_t bytes, uint64_t) {
      globals.emplace_back(bytes);
      return kBase + kStep * (1000 + globals.size());
    });
    auto add = [&](uint64_t at, std::vector<uint8_t> &b) {
      ranges.push_back({at, at + b.size(), int64_t(uint64_t(reinterpret_cast<uintptr_t>(b.data())) - at), int(ranges.size())});
    };
    for (size_t k = 0; k < buffers.size(); k++) add(kBase + kStep * k, buffers[k]);
    for (size_t k = 0; k < globals.size(); k++) {
      if (!module->globals[k].init.empty()) globals[k] = module->globals[k].init;
      add(module->globals[k].address, globals[k]);
    }
    auto k = module->kernels.find(kernel);
    if (k == module->kernels.end()) throw ptx::Fault{500, "no kernel " + kernel};
    if (params.size() != k->second.paramBytes) throw ptx::Fault{1, "kernel takes " + std::to_string(k->second.paramBytes) + " bytes of parameters"};
    auto start = std::chrono::steady_clock::now();
    ptx::Result r = ptx::run(k->second, grid, block, dynamic, params.data(), ranges, options);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (auto &b : buffers) {
      printf("buffer ");
      for (uint8_t v : b) printf("%02x", v);
      printf("\n");
    }
    for (size_t q = 0; q < buffers.size(); q++) {
      auto show = [&](const char *verb, const std::vector<ptx::Interval> &v) {
        for (auto &i : v) printf("touch %zu %s %llu %llu\n", q, verb, static_cast<unsigned long long>(i.lo - ranges[q].lo), static_cast<unsigned long long>(i.hi - ranges[q].lo));
      };
      show("read", r.touch[q].reads);
      show("write", r.touch[q].writes);
    }
    printf("instructions %llu %llu %g\n", static_cast<unsigned long long>(r.warpInstructions), static_cast<unsigned long long>(r.laneInstructions), seconds);
  }
};

}  // namespace

int main() {
  Launch l;
  try {
    l.read();
    l.run();
  } catch (ptx::Fault &f) {
    printf("fault %d %s\n", f.code, f.msg.c_str());
  }
}
