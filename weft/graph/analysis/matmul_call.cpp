#include "weft/graph/analysis/matmul_call.h"

#include "weft/graph/analysis/look_through.h"

namespace weft::graph {

namespace {

bool is_none(const Argument& argument) {
  return argument.is_absent() || (argument.is_constant() && argument.constant().isNone());
}

bool is_one(const Argument& argument) {
  return argument.is_absent() ||
      (argument.is_constant() &&
       ((argument.constant().isInt() && argument.constant().toInt() == 1) ||
        (argument.constant().isDouble() && argument.constant().toDouble() == 1)));
}

/// Finds the one matrix that is repeated along the batch, and the dims it has there.
void take_repeated(MatmulCall& call) {
  const auto& sizes = call.other->tensor().sizes;
  const auto take_first = [&](Value* batch) {
    call.other = batch;
    call.form = MatmulCall::Form::BatchOfOne;
    if (batch->layout && !batch->layout->shard_order(0).empty()) {
      call.refused = "the batch of its right-hand side is sharded";
    }
  };
  if (sizes[0] == Size(1)) {
    take_first(call.other);
    return;
  }
  const auto* expand = call.other->producer();
  if (expand == nullptr || expand->op() == nullptr || expand->op()->schema().name() != "aten::expand") {
    call.refused = "its right-hand side is another matrix for every one of a batch";
    return;
  }
  auto* repeated = expand->operand(0);
  const auto& known = repeated->tensor().sizes;
  const Sizes matrix(sizes.begin() + 1, sizes.end());
  if (known == matrix) {
    call.other = repeated;
  } else if (known.size() == 3 && known[0] == Size(1) && Sizes(known.begin() + 1, known.end()) == matrix) {
    take_first(repeated);
  } else {
    call.refused = "its right-hand side is another matrix for every one of a batch";
  }
}

/// Sets the bias: a term that is the same for all rows.
void take_bias(MatmulCall& call, const Argument& argument) {
  if (is_none(argument)) {
    return;
  }
  call.bias = argument.is_operand() ? call.node->operand(argument.operand()) : nullptr;
  if (call.bias == nullptr || !call.bias->is_tensor() || call.bias->tensor().dim() != 1 ||
      !(call.bias->tensor().sizes[0] == call.columns())) {
    call.refused = "what it adds is not one row";
  }
}

void take_scales(MatmulCall& call) {
  const auto& arguments = call.node->arguments();
  call.input_scale = operand_at(*call.node, 2);
  call.other_scale = operand_at(*call.node, 3);
  call.result_scale = operand_at(*call.node, 5);
  if (call.input_scale == nullptr || call.other_scale == nullptr) {
    call.refused = "its scales are constants";
  }
  if (!is_none(arguments[6])) {
    call.out_dtype = arguments[6].constant().toScalarType();
  }
  call.use_fast_accum = !is_none(arguments[7]) && arguments[7].constant().toBool();
}

} // namespace

const Size& MatmulCall::columns() const {
  const auto& sizes = other->tensor().sizes;
  return form == Form::Transposed ? sizes[0] : sizes.back();
}

std::optional<MatmulCall> matmul_of(Node& node) {
  if (node.op() == nullptr || node.outputs().size() != 1 || node.output() == nullptr) {
    return std::nullopt;
  }
  const auto& name = node.op()->schema().name();
  if (!node.op()->schema().overload_name().empty()) {
    return std::nullopt; // out variants, which write to an argument
  }
  MatmulCall call{.node = &node};
  const bool is_addmm = name == "aten::addmm";
  const bool is_linear = name == "aten::linear";
  const bool is_bmm = name == "aten::bmm";
  call.is_scaled = name == "aten::_scaled_mm";
  if (!is_addmm && !is_linear && !is_bmm && !call.is_scaled && name != "aten::mm" && name != "aten::matmul") {
    return std::nullopt;
  }
  call.input = operand_at(node, is_addmm ? 1 : 0);
  call.other = operand_at(node, is_addmm ? 2 : 1);
  if (call.input == nullptr || call.other == nullptr || !call.input->is_tensor() || !call.other->is_tensor()) {
    return std::nullopt;
  }
  const auto rank = call.other->tensor().dim();
  if (call.input->tensor().dim() < 2 || rank != (is_bmm ? 3 : 2)) {
    call.refused = c10::str(
        call.input->tensor().dim() < 2 ? "its left-hand side has " : "its right-hand side has ",
        call.input->tensor().dim() < 2 ? call.input->tensor().dim() : rank, " dims");
    return call;
  }
  if (is_bmm) {
    take_repeated(call);
  }
  call.form = is_linear ? MatmulCall::Form::Transposed : call.form;
  if (is_addmm && !(is_one(node.arguments()[3]) && is_one(node.arguments()[4]))) {
    call.refused = "it has factors, alpha or beta";
    return call;
  }
  if (call.refused.empty() && (is_addmm || is_linear || call.is_scaled)) {
    take_bias(call, node.arguments()[is_addmm ? 0 : is_linear ? 2 : 4]);
  }
  if (call.is_scaled) {
    take_scales(call);
  }
  return call;
}

} // namespace weft::graph
