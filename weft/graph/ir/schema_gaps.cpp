#include "weft/graph/ir/schema_gaps.h"

#include <algorithm>

namespace weft::graph {

namespace {

std::optional<size_t> position_of(const c10::FunctionSchema& schema, const std::string& name) {
  const auto found = schema.argumentIndexWithName(name);
  return found ? std::optional<size_t>(*found) : std::nullopt;
}

/// Whether the argument is true, or not known before the program runs.
bool may_be_true(const Node& node, const std::string& name) {
  const auto position = position_of(node.op()->schema(), name);
  return position &&
      !(node.arguments()[*position].is_constant() && node.arguments()[*position].constant().isBool() &&
        !node.arguments()[*position].constant().toBool());
}

} // namespace

std::vector<size_t> silently_written_arguments(const Node& node) {
  static const std::unordered_set<std::string> norms = {
      "aten::batch_norm",    "aten::native_batch_norm", "aten::_batch_norm_impl_index",
      "aten::instance_norm", "aten::cudnn_batch_norm",  "aten::miopen_batch_norm"};
  std::vector<size_t> written;
  // Compares the end of the name first because that is cheaper than hashing it.
  if (node.op() == nullptr || node.op()->schema().name().find("_norm") == std::string::npos ||
      norms.count(node.op()->schema().name()) == 0 ||
      !(may_be_true(node, "training") || may_be_true(node, "use_input_stats"))) {
    return written;
  }
  for (const auto* name : {"running_mean", "running_var"}) {
    if (const auto position = position_of(node.op()->schema(), name)) {
      written.push_back(*position);
    }
  }
  return written;
}

bool may_give_back_operand(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names = {"aten::dropout",         "aten::alpha_dropout",
                                                        "aten::feature_dropout", "aten::feature_alpha_dropout",
                                                        "aten::atleast_1d",      "aten::atleast_2d",
                                                        "aten::atleast_3d",      "aten::broadcast_tensors",
                                                        "aten::cartesian_prod",  "aten::chain_matmul",
                                                        "aten::conj_physical",   "aten::einsum",
                                                        "aten::meshgrid",        "aten::sum_to_size",
                                                        "aten::type_as",         "aten::unsafe_chunk",
                                                        "aten::unsafe_split",    "aten::unsafe_split_with_sizes"};
  return names.count(op.schema().name()) > 0;
}

} // namespace weft::graph
