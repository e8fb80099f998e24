#include "weft/graph/exec/collective_call.h"

#include "weft/comm/communicator.h"
#include "weft/comm/world/named_groups.h"
#include "weft/graph/analysis/memory_sharing.h"

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <numeric>

namespace weft::graph {

namespace {

/// A collective that was started, and its result tensors.
struct Started {
  at::Tensor output;
  Pending pending;
};

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

int64_t sum(c10::IntArrayRef numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

void check_has_dim(const char* where, const at::Tensor& input) {
  TORCH_CHECK_VALUE(input.dim() > 0, "[", where, "] a tensor of at least one dim is required, but got one of none.");
}

Started all_reduce(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  const auto output = at::empty(input.sizes(), input.options());
  return {output, group.all_reduce(input, output, parse_reduce_op(arguments[1].toStringView()))};
}

Started all_gather(Group& group, const at::Tensor& input, CollectiveArguments /*arguments*/) {
  check_has_dim("all_gather_into_tensor", input);
  const auto output = empty_of_length(input, input.size(0) * group.size());
  const std::vector<int64_t> lengths(group.size(), input.size(0));
  return {output, group.all_gather(input, output, /*dim=*/0, lengths)};
}

Started reduce_scatter(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  check_has_dim("reduce_scatter_tensor", input);
  TORCH_CHECK_VALUE(
      input.size(0) % group.size() == 0, "[reduce_scatter_tensor] dim 0 must be a multiple of the ", group.size(),
      " members of ", group.to_string(), ", but got ", input.sizes(), ".");
  const auto length = input.size(0) / group.size();
  const auto output = empty_of_length(input, length);
  const auto op = parse_reduce_op(arguments[1].toStringView());
  return {output, group.reduce_scatter(split_dim0(input, std::vector<int64_t>(group.size(), length)), output, op)};
}

Started all_to_all(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
  check_has_dim("all_to_all_single", input);
  const auto comes = arguments[1].toIntVector();
  const auto goes = arguments[2].toIntVector();
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(goes.size()) == group.size() && comes.size() == goes.size() && sum(goes) == input.size(0),
      "[all_to_all_single] split sizes for the ", group.size(), " members of ", group.to_string(),
      " are required, those of the input adding up to its dim 0, but got ", c10::IntArrayRef(comes), " and ",
      c10::IntArrayRef(goes), " for ", input.sizes(), ".");
  const auto output = empty_of_length(input, sum(comes));
  return {output, group.all_to_all(split_dim0(input, goes), split_dim0(output, comes))};
}

Started broadcast(Group& group, const at::Tensor& input, CollectiveArguments arguments) {
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

struct Implementation {
  const char* name;
  Started (*start)(Group& group, const at::Tensor& input, CollectiveArguments arguments);
};

// The coalesced collectives do the same for each tensor of a list.
constexpr Implementation kImplementations[] = {
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

const Implementation* find_implementation(const c10::OperatorHandle& op) {
  const auto& name = op.schema().name();
  for (const auto& implementation : kImplementations) {
    if (name.starts_with(kNamespace) && std::string_view(name).substr(kNamespace.size()) == implementation.name) {
      return &implementation;
    }
  }
  return nullptr;
}

const c10::IValue& constant_argument(const Node& node, const char* name) {
  const auto position = node.op()->schema().argumentIndexWithName(name);
  TORCH_INTERNAL_ASSERT(position.has_value());
  const auto& argument = node.arguments()[*position];
  TORCH_CHECK_VALUE(
      argument.is_constant(), "[Executor] ", name, " of ", target_name(node),
      " must be known before the program runs.");
  return argument.constant();
}

std::shared_ptr<Group> group_of(const Node& node, const char* argument, const DeviceMesh& mesh) {
  const auto& group_name = constant_argument(node, argument);
  TORCH_CHECK_TYPE(
      group_name.isString(), "[Executor] ", argument, " of ", target_name(node),
      " must be the names of mesh dims, but got ", group_name, ".");
  const auto names = c10::split(group_name.toStringView(), ',');
  auto group = Communicator::of(mesh).group(mesh, mesh.dims(std::vector<std::string>(names.begin(), names.end())));
  if (node.op()->schema().argumentIndexWithName("group_size")) {
    const auto size = constant_argument(node, "group_size").toInt();
    TORCH_CHECK_VALUE(
        size == group->size(), "[Executor] ", target_name(node), " is for ", size, " ranks along '",
        group_name.toStringView(), "', but ", mesh, " has ", group->size(), ".");
  }
  return group;
}

class CollectiveStart final : public Instruction {
 public:
  CollectiveStart(
      const Implementation& implementation,
      std::shared_ptr<Group> group,
      std::vector<Source> arguments,
      std::vector<uint32_t> outputs,
      uint32_t first_transfer)
      : implementation_(implementation),
        group_(std::move(group)),
        arguments_(std::move(arguments)),
        outputs_(std::move(outputs)),
        first_transfer_(first_transfer) {}

  void run(Frame& frame) const override {
    c10::SmallVector<c10::IValue, 4> arguments;
    for (const auto& argument : arguments_) {
      arguments.push_back(argument.take(frame));
    }
    if (arguments[0].isTensor()) {
      start(frame, 0, arguments[0].toTensor(), arguments);
      return;
    }
    const auto inputs = arguments[0].toTensorVector();
    TORCH_CHECK_VALUE(
        inputs.size() == outputs_.size(), "[", implementation_.name, "] ", outputs_.size(),
        " tensors are required, but got ", inputs.size(), ".");
    for (size_t i = 0; i < inputs.size(); ++i) {
      start(frame, i, inputs[i], arguments);
    }
  }

 private:
  void start(Frame& frame, size_t number, const at::Tensor& tensor, CollectiveArguments arguments) const {
    // Resolves conjugate and negative views, because a collective sends the memory as it is.
    const auto input = tensor.resolve_conj().resolve_neg();
    auto started = implementation_.start(*group_, input, arguments);
    auto& transfer = frame.transfers[first_transfer_ + number];
    transfer.pending = std::move(started.pending);
    transfer.reads = {input.storage().unsafeGetStorageImpl()};
    if (outputs_[number] != OutputSlots::kUnused) {
      frame.slots[outputs_[number]] = std::move(started.output);
    }
  }

  const Implementation& implementation_;
  std::shared_ptr<Group> group_;
  std::vector<Source> arguments_;
  std::vector<uint32_t> outputs_;
  uint32_t first_transfer_;
};

class GroupCall final : public Instruction {
 public:
  GroupCall(std::unique_ptr<Instruction> call, DeviceMesh mesh) : call_(std::move(call)), mesh_(std::move(mesh)) {}

  void run(Frame& frame) const override {
    const NamedGroupScope scope(groups_of(mesh_));
    call_->run(frame);
  }

 private:
  std::unique_ptr<Instruction> call_;
  DeviceMesh mesh_;
};

class TransferWait final : public Instruction {
 public:
  explicit TransferWait(uint32_t transfer) : transfer_(transfer) {}

  void run(Frame& frame) const override {
    frame.transfers[transfer_].pending.wait();
    frame.transfers[transfer_] = {};
  }

 private:
  uint32_t transfer_;
};

class Forward final : public Instruction {
 public:
  Forward(Source source, uint32_t output) : source_(std::move(source)), output_(output) {}

  void run(Frame& frame) const override {
    auto value = source_.take(frame);
    if (output_ != OutputSlots::kUnused) {
      frame.slots[output_] = std::move(value);
    }
  }

 private:
  Source source_;
  uint32_t output_;
};

} // namespace

bool is_collective(const c10::OperatorHandle& op) {
  const auto& name = op.schema().name();
  return name.starts_with(kNamespace) || name.starts_with("c10d_functional::") || name.starts_with("c10d::") ||
      name.starts_with("_c10d_functional_autograd::");
}

bool is_wait(const c10::OperatorHandle& op) {
  return op.schema().name() == "_c10d_functional::wait_tensor";
}

std::unique_ptr<Instruction> make_collective_start(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    uint32_t first_transfer,
    const DeviceMesh& mesh) {
  const auto* implementation = find_implementation(*node.op());
  if (implementation == nullptr) {
    std::string known;
    for (const auto& each : kImplementations) {
      known += c10::str(known.empty() ? "" : ", ", each.name);
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[Executor] a collective must be one of ", kNamespace, " ", known, ", but got ", target_name(node), ".");
  }
  return std::make_unique<CollectiveStart>(
      *implementation, group_of(node, "group_name", mesh), std::move(arguments), std::move(outputs.slots),
      first_transfer);
}

bool names_group(const c10::OperatorHandle& op) {
  return op.schema().name().starts_with("weft::") && op.schema().argumentIndexWithName("group").has_value();
}

std::unique_ptr<Instruction> make_group_call(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    const DeviceMesh& mesh) {
  group_of(node, "group", mesh);
  auto call = make_operator_call(*node.op(), written_arguments(node), std::move(arguments), std::move(outputs));
  return std::make_unique<GroupCall>(std::move(call), mesh);
}

std::unique_ptr<Instruction> make_transfer_wait(uint32_t transfer) {
  return std::make_unique<TransferWait>(transfer);
}

std::unique_ptr<Instruction> make_forward(Source source, uint32_t output) {
  return std::make_unique<Forward>(std::move(source), output);
}

} // namespace weft::graph
