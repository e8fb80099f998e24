#include "weft/tensor/impl/collectives_of_torch.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace collectives_of_torch_test {
using namespace weft::testing;

/// Calls the operator with `first` as the first argument and None for the others.
void call(const char* name, const c10::IValue& first) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  torch::jit::Stack stack(op.schema().arguments().size());
  stack[0] = first;
  op.callBoxed(&stack);
}

TEST(CollectivesOfTorch, RaiseForDistributedTensorsAndSayWhatToUse) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto text = error_text<c10::NotImplementedError>([&] { call("c10d::allreduce_", at::TensorList({x})); });
    expect_contains(
        text,
        "[c10d::allreduce_] collectives of torch.distributed take plain tensors, but got f32[4,2] @ mesh(a=2) {S(0)}. "
        "Use redistribute or full_tensor, or call it on to_local(t).");
    EXPECT_THROW(call("c10d::broadcast_", at::TensorList({x.set_requires_grad(true)})), c10::NotImplementedError);
  });
}

} // namespace collectives_of_torch_test

} // namespace weft
