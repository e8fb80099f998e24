#pragma once

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <vector>

namespace weft {

/// What is known of an operator from its schema alone, worked out once.
struct OperatorSchema {
  enum class ArgumentKind : uint8_t {
    Tensor, // also optional
    TensorList,
    OptionalTensorList, // a list in which tensors may be absent
    Static,             // its value may change what the rule says: part of the cache key
    Value, // numbers, generators: only the type is part of the key, so that a changing learning rate does not fill the cache
    Fill, // a number of which it counts, beside the type, whether it is zero: then the operator is linear
  };
  struct Return {
    bool is_tensor = false; // or a list of tensors
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
