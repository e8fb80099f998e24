#include "bench/serve.h"

#include "weft/weft.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

namespace {

using weft::ReduceOp;
using weft::bench::TimedCall;

constexpr const char* kUsage =
    "collectives_main: one rank of the benchmark 'collectives', started by bench/run.py.\n"
    "Needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; reads '<calls> <rows> <case>' from stdin, where the case is\n"
    "one of all_gather, all_to_all, reduce_scatter, all_reduce, all_reduce/one, all_reduce/two, broadcast, and prints\n"
    "the microseconds of each call. A rank's input has that many rows of 4 KB.\n";

constexpr int64_t kColumns = 1024;

/// The chunks of a flat tensor, one per member.
std::vector<at::Tensor> chunks_of(const at::Tensor& tensor, int64_t count) {
  return tensor.view({-1}).chunk(count);
}

/// The two ways of Group::all_reduce, whichever it would choose.
TimedCall all_reduce_in_one_round(const std::shared_ptr<weft::Group>& group, const at::Tensor& input) {
  const auto output = at::empty_like(input);
  const std::vector<at::Tensor> everything(group->size(), input);
  return [=] {
    group->reduce_scatter(everything, output, ReduceOp::Sum).wait();
    return output;
  };
}

TimedCall all_reduce_in_two_rounds(const std::shared_ptr<weft::Group>& group, const at::Tensor& input) {
  const auto output = at::empty_like(input);
  const auto sends = chunks_of(input, group->size());
  const auto chunks = chunks_of(output, group->size());
  return [=] {
    const auto& own = chunks[group->rank()];
    group->reduce_scatter(sends, own, ReduceOp::Sum).wait();
    group->all_gather(own, chunks).wait();
    return output;
  };
}

TimedCall make_call(const std::shared_ptr<weft::Group>& group, const std::string& name, int64_t rows) {
  const auto size = group->size();
  const auto input = at::ones({rows, kColumns});
  if (name == "all_gather") {
    const auto output = at::empty({size * rows, kColumns});
    return [=, outputs = chunks_of(output, size), flat = input.view({-1})] {
      group->all_gather(flat, outputs).wait();
      return output;
    };
  }
  if (name == "all_to_all") {
    const auto output = at::empty_like(input);
    return [=, sends = chunks_of(input, size), recvs = chunks_of(output, size)] {
      group->all_to_all(sends, recvs).wait();
      return output;
    };
  }
  if (name == "reduce_scatter") {
    const auto sends = chunks_of(input, size);
    const auto output = at::empty_like(sends[0]);
    return [=] {
      group->reduce_scatter(sends, output, ReduceOp::Sum).wait();
      return output;
    };
  }
  if (name == "all_reduce") {
    const auto output = at::empty_like(input);
    return [=] {
      group->all_reduce(input, output, ReduceOp::Sum).wait();
      return output;
    };
  }
  if (name == "all_reduce/one") {
    return all_reduce_in_one_round(group, input);
  }
  if (name == "all_reduce/two") {
    return all_reduce_in_two_rounds(group, input);
  }
  TORCH_CHECK_VALUE(name == "broadcast", "[collectives] unknown case '", name, "'; see --help.");
  return [=] {
    group->broadcast(input, 0).wait();
    return input;
  };
}

} // namespace

int main(int argc, char** argv) {
  return weft::bench::serve(argc, argv, kUsage, [] {
    const auto world = weft::current_world();
    const auto mesh = weft::init_device_mesh("cpu", {world->size()});
    const auto group = world->group(mesh, {0});
    return weft::bench::Cases{
        .make = [=](const std::string& name, int64_t rows) { return make_call(group, name, rows); },
        .barrier = [=] { group->barrier().wait(); }};
  });
}
