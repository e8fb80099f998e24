#pragma once

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <vector>

namespace weft {

/// Properties of an operator that follow from its schema, computed once per operator.
struct OperatorSchema {
  enum class ArgumentKind : uint8_t {
    Tensor, // also optional
    TensorList,
    OptionalTensorList, // a list in which tensors may be absent
    Static,             // its value may change the rule: the cache key contains it
    Value, // numbers, generators: the key contains only the type, so that a changing learning rate does not fill the cache
    Fill, // a number: the key contains its type and whether it is zero, since the operator is then linear
  };
  struct Return {
    bool is_tensor = false; // a tensor or a list of tensors
    int64_t stored_in = -1; // the argument it is written to (in-place, out=)
    int64_t view_of = -1;   // the argument whose memory it shares
  };

  explicit OperatorSchema(const c10::FunctionSchema& schema);

  bool writes(int64_t argument) const {
    return std::find(written.begin(), written.end(), argument) != written.end();
  }

  std::vector<ArgumentKind> arguments;
  std::vector<bool> is_out;     // out= arguments: written, never read
  std::vector<int64_t> written; // arguments that are written to, in order
  std::vector<Return> returns;
  bool is_view = false;
};

} // namespace weft
