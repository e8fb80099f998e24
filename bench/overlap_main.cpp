#include "bench/overlap_decoder.h"

#include <malloc.h>

namespace {

using namespace weft;
using bench::Pairs;
using bench::TimedCall;

constexpr const char* kUsage =
    "overlap_main: one rank of the benchmark 'overlap', started by bench/run.py.\n"
    "Needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; reads '<calls> <size> <case>' from stdin and prints the\n"
    "microseconds of each call. Cases:\n"
    "  square gather|scatter WAY    matrices of size x size\n"
    "  rows gather|scatter WAY      size rows, times 1024 x 1024\n"
    "  decoder WAY                  two layers of a decoder, forward and backward, as many tokens\n"
    "The way is unfused, fused (fused/8 in 8 chunks) or auto; compute or communication, but for the decoder, is one "
    "part of it alone.\n";

constexpr int64_t kSide = 1024;

/// A matrix of random numbers, the same for all ways of a case: its address in memory alone changes the time.
at::Tensor matrix(int64_t rows, int64_t columns) {
  static auto* made = new std::map<std::pair<int64_t, int64_t>, at::Tensor>();
  auto& found = (*made)[{rows, columns}];
  if (!found.defined()) {
    found = at::rand({rows, columns});
  }
  return found;
}

TimedCall make_gather(const Pairs& pairs, const std::string& what, int64_t rows, int64_t side) {
  const auto global = matrix(rows, side);
  const auto shard = global.narrow(0, 0, pairs.own_rows(rows));
  const std::vector<at::Tensor> others = {matrix(side, side)};
  if (what == "compute") {
    return [=] { return at::mm(global, others[0]); };
  }
  if (what == "communication") {
    return [=] { return pairs.gathered(shard, rows); };
  }
  return [=, way = bench::way_of(what)] { return pairs.gather_matmul(way, shard, rows, others)[0]; };
}

TimedCall make_scatter(const Pairs& pairs, const std::string& what, int64_t rows, int64_t side) {
  const auto input = matrix(rows, side);
  const auto other = matrix(side, side);
  if (what == "compute") {
    return [=] { return at::mm(input, other); };
  }
  if (what == "communication") {
    return [=] { return pairs.scattered(input); };
  }
  return [=, way = bench::way_of(what)] { return pairs.matmul_scatter(way, input, other); };
}

TimedCall make_call(const Pairs& pairs, bench::OverlapDecoder& decoder, const std::string& name, int64_t size) {
  std::istringstream words(name);
  std::string shape;
  std::string kind;
  std::string what;
  words >> shape >> kind >> what;
  if (shape == "decoder") {
    const auto x = at::rand({size / pairs.group().size(), bench::OverlapDecoder::kDim});
    return [=, &decoder, way = bench::way_of(kind)] { return decoder.step(way, x); };
  }
  TORCH_CHECK_VALUE(
      (shape == "square" || shape == "rows") && (kind == "gather" || kind == "scatter"), "[overlap] unknown case '",
      name, "'; see --help.");
  return (kind == "gather" ? make_gather : make_scatter)(pairs, what, size, shape == "square" ? size : kSide);
}

} // namespace

int main(int argc, char** argv) {
  // As an allocator for training would, keep what is freed for the next call instead of giving it back to the kernel.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return bench::serve(argc, argv, kUsage, [] {
    const auto world = current_world();
    const auto mesh = init_device_mesh("cpu", {world->size()}, {"tp"});
    const auto group = world->group(mesh, {0});
    const auto rates = rates_of(mesh, at::kFloat);
    if (world->rank() == 0) {
      std::cerr << "overlap: link " << to_string(rates.link({0})) << ", compute " << to_string(rates.compute) << '\n';
    }
    const auto pairs = std::make_shared<Pairs>(group, rates.link({0}), rates.compute);
    const auto decoder = std::make_shared<bench::OverlapDecoder>(mesh, pairs);
    return bench::Cases{
        .make = [=](const std::string& name, int64_t size) { return make_call(*pairs, *decoder, name, size); },
        .barrier = [=] { group->barrier().wait(); }};
  });
}
