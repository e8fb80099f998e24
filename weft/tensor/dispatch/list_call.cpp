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

using Elements = std::vector<int64_t>; // their places

/// Per element the mesh of its distributed tensors; none for one that has plain tensors alone.
std::vector<const DeviceMesh*> meshes_of(const OperandRefs& operands, size_t count) {
  std::vector<const DeviceMesh*> meshes(count, nullptr);
  for (const auto& ref : operands) {
    if (ref.impl != nullptr && ref.position >= 0) {
      meshes.at(ref.position) = &ref.impl->spec()->mesh();
    }
  }
  return meshes;
}

bool are_same(const DeviceMesh* a, const DeviceMesh* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

/// Whether a group would read or write memory that another one writes to.
bool share_memory(const OperatorSchema& schema, const OperandRefs& operands, c10::ArrayRef<size_t> group_of_element) {
  std::unordered_map<const c10::StorageImpl*, size_t> writers;
  for (const auto& ref : operands) {
    const auto* storage = storage_of(ref);
    if (ref.position >= 0 && storage != nullptr && schema.writes(ref.argument)) {
      const auto group = group_of_element[ref.position];
      if (writers.try_emplace(storage, group).first->second != group) {
        return true;
      }
    }
  }
  return std::any_of(operands.begin(), operands.end(), [&](const OperandRef& ref) {
    const auto found = writers.find(storage_of(ref));
    return found != writers.end() && (ref.position < 0 || found->second != group_of_element[ref.position]);
  });
}

std::vector<Elements> single_elements(size_t count) {
  std::vector<Elements> groups;
  for (size_t element = 0; element < count; ++element) {
    groups.push_back({static_cast<int64_t>(element)});
  }
  return groups;
}

std::vector<Elements> groups_of(const OperatorSchema& schema, const OperandRefs& operands, size_t count) {
  const auto meshes = meshes_of(operands, count);
  std::vector<Elements> groups;
  std::vector<size_t> group_of_element;
  for (size_t element = 0; element < count; ++element) {
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const Elements& group) {
      return are_same(meshes[group.front()], meshes[element]);
    });
    group_of_element.push_back(found - groups.begin());
    if (found == groups.end()) {
      groups.emplace_back();
    }
    groups[group_of_element.back()].push_back(static_cast<int64_t>(element));
  }
  const bool are_independent = groups.size() > 1 && !share_memory(schema, operands, group_of_element);
  return are_independent ? groups : single_elements(count);
}

/// The number of elements of the lists of the call on the stack.
size_t element_count(const OperatorSchema& schema, const torch::jit::Stack& stack) {
  const auto first_list =
      std::find(schema.arguments.begin(), schema.arguments.end(), OperatorSchema::ArgumentKind::TensorList);
  const auto place = static_cast<size_t>(first_list - schema.arguments.begin());
  return torch::jit::peek(stack, place, schema.arguments.size()).toListRef().size();
}

/// What a group has of an argument: of lists and of a tensor with a number per element its own, and all of everything else.
c10::IValue elements_of(const c10::IValue& value, const std::string& name, const Elements& group, size_t count) {
  if (value.isList() && value.toListRef().size() == count) {
    c10::impl::GenericList elements(value.toList().elementType());
    for (const auto element : group) {
      elements.push_back(value.toListRef()[element]);
    }
    return elements;
  }
  return value.isTensor() && name == "scalars" ? value.toTensor().index_select(0, at::tensor(group, at::kLong)) : value;
}

/// Replaces the call on the stack by one for each group.
void run_groups(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const std::vector<Elements>& groups,
    size_t count,
    torch::jit::Stack& stack) {
  const auto arguments = torch::jit::pop(stack, schema.arguments.size());
  std::vector<std::vector<at::Tensor>> results(schema.returns.size(), std::vector<at::Tensor>(count));
  for (const auto& group : groups) {
    torch::jit::Stack call;
    for (size_t i = 0; i < arguments.size(); ++i) {
      call.push_back(elements_of(arguments[i], op.schema().arguments()[i].name(), group, count));
    }
    op.callBoxed(call);
    for (size_t i = 0; i < results.size(); ++i) {
      const auto made = call[i].toTensorVector();
      for (size_t k = 0; k < group.size(); ++k) {
        results[i][group[k]] = made.at(k);
      }
    }
  }
  stack.insert(stack.end(), results.begin(), results.end());
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
  const auto count = element_count(schema, stack);
  run_groups(op, schema, single_elements(count), count, stack);
}

void run_by_group(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const OperandRefs& operands,
    torch::jit::Stack& stack) {
  const auto count = element_count(schema, stack);
  run_groups(op, schema, groups_of(schema, operands, count), count, stack);
}

} // namespace weft
