#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <string_view>
#include <vector>

namespace weft {

class TensorSpec;

/// A tensor argument as a rule sees it: only global metadata.
struct Operand {
  c10::IntArrayRef sizes;
  c10::ScalarType dtype;
  /// For registered rules in Python, which get it in the place of the tensor; nullptr if no layout is known.
  const TensorSpec* spec = nullptr;

  int64_t dim() const {
    return static_cast<int64_t>(sizes.size());
  }
};

/// One call of an operator as a rule sees it. Tensors, also those in lists, are numbered in the order of the arguments;
/// absent optional tensors are not counted.
class OpCall {
 public:
  /// The operands that belong to one argument.
  struct Range {
    int64_t begin;
    int64_t count;
  };

  OpCall(
      const c10::FunctionSchema& schema,
      c10::ArrayRef<c10::IValue> arguments,
      c10::ArrayRef<Operand> operands,
      c10::ArrayRef<Range> ranges)
      : schema_(schema), arguments_(arguments), operands_(operands), ranges_(ranges) {}

  const c10::FunctionSchema& schema() const {
    return schema_;
  }
  c10::ArrayRef<c10::IValue> arguments() const {
    return arguments_;
  }
  /// The operands of the argument at a position.
  Range operands_at(size_t argument) const {
    return ranges_[argument];
  }
  /// A call with the same arguments and other tensors.
  OpCall with(c10::ArrayRef<Operand> operands) const {
    return {schema_, arguments_, operands, ranges_};
  }
  c10::ArrayRef<Operand> operands() const {
    return operands_;
  }
  const Operand& operand(int64_t index) const {
    return operands_[index];
  }
  /// The operand of a tensor argument; empty if the tensor is absent or there is no such argument.
  std::optional<int64_t> operand_of(std::string_view name) const;
  /// The operands of a tensor list.
  Range operands_of(std::string_view name) const;

  bool has(std::string_view name) const;
  /// The value of a non-tensor argument; a default if the schema has no such argument or it is None.
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  bool boolean(std::string_view name, bool otherwise = false) const;
  double number(std::string_view name, double otherwise = 0) const;
  /// The integers of a list, or a single integer as a list; empty for None.
  std::vector<int64_t> integers(std::string_view name) const;
  /// The bools of a list; empty for None.
  std::vector<bool> booleans(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  c10::ScalarType dtype(std::string_view name, c10::ScalarType otherwise) const;
  /// The positions in a list of optional tensors that hold a tensor.
  std::vector<int64_t> present(std::string_view name) const;

  /// A dim argument counted from the front, for a tensor of `ndim` dims.
  int64_t wrapped_dim(std::string_view name, int64_t ndim) const;
  /// The dims of a reduction; all dims if none is named.
  std::vector<int64_t> reduced_dims(std::string_view name, int64_t ndim) const;

 private:
  const c10::IValue* find(std::string_view name) const;

  const c10::FunctionSchema& schema_;
  c10::ArrayRef<c10::IValue> arguments_;
  c10::ArrayRef<Operand> operands_;
  c10::ArrayRef<Range> ranges_;
};

} // namespace weft
