#include "weft/tensor/dispatch/list_call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

namespace weft {

namespace {

/// Also of an empty shard, so that all ranks decide alike.
const c10::StorageImpl* storage_of(const OperandRef& ref) {
  const auto& local = ref.impl != nullptr ? ref.impl->local() : *ref.tensor;
  return local.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

} // namespace

bool reads_too_early(const OperatorSchema& schema, const PreparedCall& call, const OperandRefs& operands) {
  if (schema.written.empty() || !schema.returns.empty()) {
    return false;
  }
  const bool is_list = std::any_of(operands.begin(), operands.end(), [](const auto& ref) { return ref.position > 0; });
  if (!is_list) {
    return false;
  }
  std::unordered_map<const c10::StorageImpl*, int32_t> first_writes; // the first position that writes to a storage
  for (const auto& ref : operands) {
    if (ref.position >= 0 && schema.writes(ref.argument)) {
      auto& first = first_writes.try_emplace(storage_of(ref), ref.position).first->second;
      first = std::min(first, ref.position);
    }
  }
  first_writes.erase(nullptr);
  for (size_t i = 0; i < operands.size() && !first_writes.empty(); ++i) {
    const bool is_moved = !call.moves.empty() && call.moves[i] != nullptr;
    if (!is_moved && schema.writes(operands[i].argument)) {
      continue;
    }
    const auto found = first_writes.find(storage_of(operands[i]));
    // An operand that stands in no list is read by every element.
    if (found != first_writes.end() && (operands[i].position < 0 || found->second < operands[i].position)) {
      return true;
    }
  }
  return false;
}

bool on_several_meshes(const OperandRefs& operands) {
  const DeviceMesh* mesh = nullptr;
  bool are_several_elements = false;
  bool are_several_meshes = false;
  for (const auto& ref : operands) {
    if (ref.impl == nullptr || ref.position < 0) {
      continue;
    }
    are_several_elements |= ref.position > 0;
    are_several_meshes |= mesh != nullptr && *mesh != ref.impl->spec()->mesh();
    mesh = &ref.impl->spec()->mesh();
  }
  return are_several_elements && are_several_meshes;
}

void run_by_element(const c10::OperatorHandle& op, const OperatorSchema& schema, torch::jit::Stack& stack) {
  const auto arguments = torch::jit::pop(stack, schema.arguments.size());
  const auto first_list =
      std::find(schema.arguments.begin(), schema.arguments.end(), OperatorSchema::ArgumentKind::TensorList);
  const auto count = arguments.at(first_list - schema.arguments.begin()).toListRef().size();
  std::vector<c10::List<at::Tensor>> results(schema.returns.size());
  for (size_t element = 0; element < count; ++element) {
    torch::jit::Stack single;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& value = arguments[i];
      if (value.isList() && value.toListRef().size() == count) {
        c10::impl::GenericList one(value.toList().elementType());
        one.push_back(value.toListRef()[element]);
        single.emplace_back(std::move(one));
      } else if (value.isTensor() && op.schema().arguments()[i].name() == "scalars") {
        single.emplace_back(value.toTensor().narrow(0, static_cast<int64_t>(element), 1)); // a number per element
      } else {
        single.push_back(value);
      }
    }
    op.callBoxed(single);
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].push_back(single[i].toTensorVector().at(0));
    }
  }
  stack.insert(stack.end(), results.begin(), results.end());
}

} // namespace weft
