#include "tests/support/sharded_programs.h"
#include "tests/support/error_text.h"
#include <iostream>
#include <fstream>
#include <sstream>
#include <ATen/ATen.h>
namespace weft::graph { namespace {
using namespace weft::testing;
// file: cases separated by "=== mesh | plan json | in:name=layout;... | out:0=layout | s0=5,s1=3"
TEST(Explore, Cases) {
  std::ifstream file("/work/main/build/cases.txt");
  std::string line, text, header;
  const auto run = [&] {
    if (header.empty()) { return; }
    std::vector<std::string> f; std::stringstream hs(header); std::string part;
    while (std::getline(hs, part, '|')) { auto b = part.find_first_not_of(' '); auto e = part.find_last_not_of(' '); f.push_back(b == std::string::npos ? "" : part.substr(b, e - b + 1)); }
    f.resize(5);
    TensorParallelOptions options;
    const auto each = [](const std::string& list, char sep, auto fn) { std::stringstream s(list); std::string item; while (std::getline(s, item, sep)) { auto q = item.find('='); if (q != std::string::npos) { fn(item.substr(0, q), item.substr(q + 1)); } } };
    each(f[2], ';', [&](auto a, auto b) { options.inputs[a] = Layout::parse(b); });
    each(f[3], ';', [&](auto a, auto b) { options.outputs[std::stoul(a)] = Layout::parse(b); });
    RunCase rc;
    each(f[4], ',', [&](auto a, auto b) { if (a == "end") { rc.index_end = std::stol(b); } else { rc.symbols[a] = std::stol(b); } });
    std::cout << "=================== " << header << "\n";
    try {
      auto plan = f[1].empty() ? nn::ParallelPlan() : nn::ParallelPlan::parse(f[1]);
      std::cout << text_after(tensor_parallel_over(f[0], plan, options), text);
      expect_same_on_ranks(tensor_parallel_over(f[0], plan, options), text, rc);
    } catch (const std::exception& e) { std::cout << "ERROR " << std::string(e.what()).substr(0, 600) << "\n"; }
  };
  while (std::getline(file, line)) {
    if (line.rfind("===", 0) == 0) { run(); header = line.substr(3); text.clear(); } else { text += line + "\n"; }
  }
  run();
}
} }
