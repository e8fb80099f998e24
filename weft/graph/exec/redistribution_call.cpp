#include "weft/graph/exec/redistribution_call.h"

#include "weft/redistribute/execute.h"

namespace weft::graph {

namespace {

class RedistributionStart final : public Instruction {
 public:
  RedistributionStart(std::shared_ptr<const CompiledPlan> plan, Source local, uint32_t transfer)
      : plan_(std::move(plan)), local_(std::move(local)), transfer_(transfer) {}

  void run(Frame& frame) const override {
    const auto local = local_.take(frame).toTensor();
    auto& transfer = frame.transfers[transfer_];
    transfer.result = plan_->run(local);
    if (local.has_storage()) {
      transfer.reads = {local.storage().unsafeGetStorageImpl()};
    }
  }

 private:
  std::shared_ptr<const CompiledPlan> plan_;
  Source local_;
  uint32_t transfer_;
};

class RedistributionWait final : public Instruction {
 public:
  RedistributionWait(uint32_t transfer, uint32_t output) : transfer_(transfer), output_(output) {}

  void run(Frame& frame) const override {
    auto& transfer = frame.transfers[transfer_];
    frame.slots[output_] = transfer.result.wait();
    transfer = {};
  }

 private:
  uint32_t transfer_;
  uint32_t output_;
};

} // namespace

std::unique_ptr<Instruction> make_redistribution_start(
    const Node& node,
    Source local,
    uint32_t transfer,
    const DeviceMesh& mesh) {
  const auto constant = [&](size_t argument) -> const c10::IValue& {
    const auto& given = node.arguments().at(argument);
    TORCH_CHECK_VALUE(
        given.is_constant(), "[Executor] sizes and layouts of ", target_name(node),
        " must be known before the program runs.");
    return given.constant();
  };
  const auto source = TensorSpec::make(
      mesh, Layout::parse(constant(2).toStringView()), constant(1).toIntVector(), node.operand(0)->tensor().dtype);
  const auto target = source->with(Layout::parse(constant(3).toStringView()));
  return std::make_unique<RedistributionStart>(
      std::make_shared<const CompiledPlan>(plan(source, target)), std::move(local), transfer);
}

std::unique_ptr<Instruction> make_redistribution_wait(uint32_t transfer, uint32_t output) {
  return std::make_unique<RedistributionWait>(transfer, output);
}

} // namespace weft::graph
