#include "weft/comm/functional_collective.h"

#include <ATen/ops/empty.h>

#include <numeric>

namespace weft {

namespace {

using CollectiveArguments = c10::ArrayRef<c10::IValue>;

at::Tensor empty_of_length(const at::Tensor& like, int64_t length) {
  auto sizes = like.sizes().vec();
  sizes[0] = length;
  return at::empty(sizes, like.options());
}

std::vector<at::Tensor> split_dim0(const at::Tensor& tensor, c10::IntArrayRef lengths) {
  std::vector<at::Tensor> views;
  int64_t begin = 0;
  for (const auto length : lengths) {
    views.push_back(tensor.narrow(0, begin, length));
    begin += length;
  }
  return views;
}

int64_t total_of(c10::IntArrayRef numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

void check_has_dim(const char* where, const at::Tensor& input) {
  TORCH_CHECK_VALUE(input.dim() > 0, "[", where, "] a tensor of at least one dim is required, but got one of none.");
}

StartedCollective all_reduce(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  const auto output = at::empty(input.sizes(), input.options());
  return {output, group.all_reduce(input, output, parse_reduce_op(arguments[1].toStringView()))};
}

StartedCollective all_gather(Group& group, const at::Tensor& input, CollectiveArguments /*arguments*/) {
  check_has_dim("all_gather_into_tensor", input);
  const auto output = empty_of_length(input, input.size(0) * group.size());
  const std::vector<int64_t> lengths(group.size(), input.size(0));
  return {output, group.all_gather(input, output, /*dim=*/0, lengths)};
}

StartedCollective reduce_scatter(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  check_has_dim("reduce_scatter_tensor", input);
  TORCH_CHECK_VALUE(
      input.size(0) % group.size() == 0, "[reduce_scatter_tensor] dim 0 must be a multiple of the ", group.size(),
      " members of ", group.to_string(), ", but got ", input.sizes(), ".");
  const auto length = input.size(0) / group.size();
  const auto output = empty_of_length(input, length);
  const auto op = parse_reduce_op(arguments[1].toStringView());
  return {output, group.reduce_scatter(split_dim0(input, std::vector<int64_t>(group.size(), length)), output, op)};
}

StartedCollective all_to_all(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  check_has_dim("all_to_all_single", input);
  const auto comes = arguments[1].toIntVector();
  const auto goes = arguments[2].toIntVector();
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(goes.size()) == group.size() && comes.size() == goes.size() &&
          total_of(goes) == input.size(0),
      "[all_to_all_single] split sizes for the ", group.size(), " members of ", group.to_string(),
      " are required, those of the input adding up to its dim 0, but got ", c10::IntArrayRef(comes), " and ",
      c10::IntArrayRef(goes), " for ", input.sizes(), ".");
  const auto output = empty_of_length(input, total_of(comes));
  return {output, group.all_to_all(split_dim0(input, goes), split_dim0(output, comes))};
}

StartedCollective broadcast(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  const auto source = arguments[1].toInt();
  TORCH_CHECK_INDEX(
      source >= 0 && source < group.size(), "[broadcast] a member of ", group.to_string(), " is required, in [0, ",
      group.size(), "), but got ", source, ".");
  const auto output = at::empty(input.sizes(), input.options());
  if (group.rank() == source) {
    output.copy_(input);
  }
  return {output, group.broadcast(output, source)};
}

// The coalesced collectives do the same for each tensor of a list.
constexpr FunctionalCollective kCollectives[] = {
    {"all_reduce", all_reduce},
    {"all_reduce_coalesced", all_reduce},
    {"all_gather_into_tensor", all_gather},
    {"all_gather_into_tensor_coalesced", all_gather},
    {"reduce_scatter_tensor", reduce_scatter},
    {"reduce_scatter_tensor_coalesced", reduce_scatter},
    {"all_to_all_single", all_to_all},
    {"broadcast", broadcast},
};

constexpr std::string_view kNamespace = "_c10d_functional::";

} // namespace

const FunctionalCollective* find_functional_collective(std::string_view op) {
  if (!op.starts_with(kNamespace)) {
    return nullptr;
  }
  const auto name = op.substr(kNamespace.size());
  const auto* found = std::find_if(std::begin(kCollectives), std::end(kCollectives), [&](const auto& collective) {
    return name == collective.name;
  });
  return found == std::end(kCollectives) ? nullptr : found;
}

std::string functional_collective_names() {
  std::string names;
  for (const auto& each : kCollectives) {
    names += c10::str(names.empty() ? "" : ", ", each.name);
  }
  return names;
}

} // namespace weft
