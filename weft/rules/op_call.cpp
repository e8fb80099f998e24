#include "weft/rules/op_call.h"

#include <c10/core/WrapDimMinimal.h>

#include <numeric>

namespace weft {

const c10::IValue* OpCall::find(std::string_view name) const {
  const auto& arguments = schema_.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) {
      return arguments_[i].isNone() ? nullptr : &arguments_[i];
    }
  }
  return nullptr;
}

std::optional<int64_t> OpCall::operand_of(std::string_view name) const {
  const auto range = operands_of(name);
  return range.count == 0 ? std::nullopt : std::optional(range.begin);
}

OpCall::Range OpCall::operands_of(std::string_view name) const {
  const auto& arguments = schema_.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) {
      return ranges_[i];
    }
  }
  return {0, 0};
}

bool OpCall::has(std::string_view name) const {
  return find(name) != nullptr;
}

int64_t OpCall::integer(std::string_view name, int64_t otherwise) const {
  const auto* value = find(name);
  return value != nullptr && value->isInt() ? value->toInt() : otherwise;
}

bool OpCall::boolean(std::string_view name, bool otherwise) const {
  const auto* value = find(name);
  return value != nullptr && value->isBool() ? value->toBool() : otherwise;
}

double OpCall::number(std::string_view name, double otherwise) const {
  const auto* value = find(name);
  return value != nullptr && value->isScalar() ? value->toScalar().toDouble() : otherwise;
}

std::vector<int64_t> OpCall::integers(std::string_view name) const {
  const auto* value = find(name);
  if (value == nullptr) {
    return {};
  }
  return value->isInt() ? std::vector<int64_t>{value->toInt()} : value->toIntVector();
}

std::vector<bool> OpCall::booleans(std::string_view name) const {
  const auto* value = find(name);
  return value == nullptr ? std::vector<bool>() : value->toBoolList().vec();
}

std::string_view OpCall::text(std::string_view name) const {
  const auto* value = find(name);
  return value == nullptr ? std::string_view() : value->toStringView();
}

c10::ScalarType OpCall::dtype(std::string_view name, c10::ScalarType otherwise) const {
  const auto* value = find(name);
  return value == nullptr ? otherwise : value->toScalarType();
}

std::vector<int64_t> OpCall::present(std::string_view name) const {
  std::vector<int64_t> places;
  if (const auto* value = find(name)) {
    const auto list = value->toListRef();
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].isTensor() && list[i].toTensor().defined()) {
        places.push_back(static_cast<int64_t>(i));
      }
    }
  }
  return places;
}

int64_t OpCall::wrapped_dim(std::string_view name, int64_t ndim) const {
  return c10::maybe_wrap_dim(integer(name), ndim);
}

std::vector<int64_t> OpCall::reduced_dims(std::string_view name, int64_t ndim) const {
  auto dims = integers(name);
  if (dims.empty()) {
    dims.resize(ndim);
    std::iota(dims.begin(), dims.end(), 0);
  }
  for (auto& dim : dims) {
    dim = c10::maybe_wrap_dim(dim, ndim);
  }
  return dims;
}

} // namespace weft
