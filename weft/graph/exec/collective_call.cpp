#include "weft/graph/exec/collective_call.h"

#include "weft/comm/communicator.h"
#include "weft/comm/functional_collective.h"
#include "weft/comm/world/named_groups.h"
#include "weft/graph/analysis/memory_sharing.h"

#include <c10/util/StringUtil.h>

namespace weft::graph {

namespace {

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
      const FunctionalCollective& collective,
      std::shared_ptr<Group> group,
      std::vector<Source> arguments,
      std::vector<uint32_t> outputs,
      uint32_t first_transfer)
      : collective_(collective),
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
        inputs.size() == outputs_.size(), "[", collective_.name, "] ", outputs_.size(),
        " tensors are required, but got ", inputs.size(), ".");
    for (size_t i = 0; i < inputs.size(); ++i) {
      start(frame, i, inputs[i], arguments);
    }
  }

 private:
  void start(Frame& frame, size_t number, const at::Tensor& tensor, c10::ArrayRef<c10::IValue> arguments) const {
    // Resolves conjugate and negative views, because a collective sends the memory as it is.
    const auto input = tensor.resolve_conj().resolve_neg();
    auto started = collective_.start(*group_, input, arguments);
    auto& transfer = frame.transfers[first_transfer_ + number];
    transfer.pending = std::move(started.pending);
    transfer.reads = {input.storage().unsafeGetStorageImpl()};
    if (outputs_[number] != OutputSlots::kUnused) {
      frame.slots[outputs_[number]] = std::move(started.output);
    }
  }

  const FunctionalCollective& collective_;
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
  return name.starts_with("_c10d_functional::") || name.starts_with("c10d_functional::") ||
      name.starts_with("c10d::") || name.starts_with("_c10d_functional_autograd::");
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
  const auto* collective = find_functional_collective(node.op()->schema().name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      collective != nullptr,
      "[Executor] a collective must be one of _c10d_functional:: ", functional_collective_names(), ", but got ",
      target_name(node), ".");
  return std::make_unique<CollectiveStart>(
      *collective, group_of(node, "group_name", mesh), std::move(arguments), std::move(outputs.slots), first_transfer);
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
