#include "weft/comm/world/fake_world.h"

#include "weft/comm/world/c10d_world.h"

#include <c10/util/Exception.h>

namespace weft {

namespace {

class FakeGroup : public Group {
 public:
  using Group::Group;

 protected:
  // Data of other ranks is received as zeros, so that runs are repeatable.
  Pending do_exchange(const Call& /*call*/, Tensors /*sends*/, Tensors recvs) override {
    for (int64_t i = 0; i < size(); ++i) {
      if (i != rank() && recvs[i].defined()) {
        recvs[i].zero_();
      }
    }
    return {};
  }
  Pending do_all_gather_into(
      const Call& /*call*/,
      const at::Tensor& /*input*/,
      const at::Tensor& output,
      int64_t /*dim*/,
      c10::IntArrayRef /*lengths*/) override {
    output.zero_();
    return {};
  }
  Pending do_reduce_scatter(const Call& /*call*/, Tensors inputs, const at::Tensor& output) override {
    output.copy_(inputs[rank()]);
    return {};
  }
  Pending do_all_reduce(const Call& /*call*/, const at::Tensor& input, const at::Tensor& output) override {
    output.copy_(input);
    return {};
  }
  uint64_t next_sequence() override {
    return calls_++;
  }
  uint64_t next_message(Collective /*direction*/, int64_t /*peer*/) override {
    return calls_++;
  }

 private:
  uint64_t calls_ = 0;
};

class FakeCommunicator : public Communicator {
 public:
  FakeCommunicator(int64_t rank, int64_t size) : Communicator(rank, size, default_timeout()) {}

 protected:
  std::shared_ptr<Group> make_group(GroupDescription description) override {
    return std::make_shared<FakeGroup>(*this, std::move(description));
  }
};

} // namespace

c10::intrusive_ptr<Communicator> make_fake_world(int64_t size, int64_t rank) {
  TORCH_CHECK_VALUE(
      size > 0 && rank >= 0 && rank < size, "[make_fake_world] a rank in [0, size) is required, but got rank ", rank,
      " of ", size, ".");
  return c10::make_intrusive<FakeCommunicator>(rank, size);
}

bool is_fake(const World& world) {
  return dynamic_cast<const FakeCommunicator*>(&world) != nullptr || has_fake_groups(world);
}

DeviceMesh analysis_mesh(const std::string& text) {
  const auto shape = DeviceMesh::parse("mesh(" + text + ")");
  return DeviceMesh::parse("mesh(" + text + ")", make_fake_world(shape.size()));
}

} // namespace weft
