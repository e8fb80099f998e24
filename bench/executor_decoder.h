#pragma once

#include "weft/graph/ir/program.h"

#include <ATen/ATen.h>

namespace weft::bench {

/// The operators of bench/python_decoder.py as torch.export writes them, on whatever `Ops` calls them on.
template <class Tensor>
struct DecoderWeights {
  struct Block {
    Tensor attention_norm, query, key, value, output, feed_forward_norm, gate, up, down;
  };
  Tensor tokens;
  std::vector<Block> blocks;
  Tensor norm, logits;
};

template <class Ops, class Tensor>
Tensor rms_norm(const Ops& ops, const Tensor& x, const Tensor& weight) {
  return ops.mul(ops.mul(x, ops.rsqrt(ops.add_scalar(ops.mean_of_last(ops.square(x)), 1e-5))), weight);
}

template <class Ops, class Tensor>
Tensor decoder(const Ops& ops, const DecoderWeights<Tensor>& weights, const Tensor& tokens, int64_t head_dim) {
  auto x = ops.embedding(weights.tokens, tokens);
  for (const auto& block : weights.blocks) {
    const auto heads = [&](const Tensor& normed, const Tensor& weight) {
      return ops.transpose(ops.unflatten(ops.linear(normed, weight), head_dim));
    };
    const auto normed = rms_norm(ops, x, block.attention_norm);
    const auto query = heads(normed, block.query);
    const auto key = heads(normed, block.key);
    const auto mixed = ops.attention(query, key, heads(normed, block.value));
    x = ops.add(x, ops.linear(ops.flatten(ops.transpose(mixed)), block.output));
    const auto inner = rms_norm(ops, x, block.feed_forward_norm);
    const auto gate = ops.silu(ops.linear(inner, block.gate));
    x = ops.add(x, ops.linear(ops.mul(gate, ops.linear(inner, block.up)), block.down));
  }
  return ops.linear(rms_norm(ops, x, weights.norm), weights.logits);
}

/// By hand.
struct EagerOps {
  at::Tensor embedding(const at::Tensor& table, const at::Tensor& tokens) const {
    return at::embedding(table, tokens);
  }
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) const {
    return at::linear(x, weight);
  }
  at::Tensor add(const at::Tensor& a, const at::Tensor& b) const {
    return at::add(a, b);
  }
  at::Tensor mul(const at::Tensor& a, const at::Tensor& b) const {
    return at::mul(a, b);
  }
  at::Tensor add_scalar(const at::Tensor& x, double number) const {
    return at::add(x, number);
  }
  at::Tensor square(const at::Tensor& x) const {
    return at::pow(x, 2);
  }
  at::Tensor mean_of_last(const at::Tensor& x) const {
    return at::mean(x, -1, /*keepdim=*/true);
  }
  at::Tensor rsqrt(const at::Tensor& x) const {
    return at::rsqrt(x);
  }
  at::Tensor silu(const at::Tensor& x) const {
    return at::silu(x);
  }
  at::Tensor unflatten(const at::Tensor& x, int64_t last) const {
    return at::unflatten(x, -1, {-1, last});
  }
  at::Tensor transpose(const at::Tensor& x) const {
    return at::transpose(x, 1, 2);
  }
  at::Tensor flatten(const at::Tensor& x) const {
    return at::flatten(x, -2);
  }
  at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) const {
    return at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true);
  }
};

/// As nodes of a graph; the types of values are left out, for an executor reads those of inputs alone.
struct GraphOps {
  using Value = graph::Value*;
  using Constants = std::vector<std::pair<size_t, c10::IValue>>; // by their positions, behind the operands

  graph::Graph& graph;

  Value call(
      const char* name,
      const char* overload,
      const std::vector<Value>& operands,
      const Constants& constants = {}) const {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    graph::Arguments arguments(op.schema().arguments().size());
    for (size_t i = 0; i < operands.size(); ++i) {
      arguments[i] = graph::Argument::operand(i);
    }
    for (const auto& [position, constant] : constants) {
      arguments[position] = constant;
    }
    return graph.insert(nullptr, op, std::move(arguments), operands, {{graph::TensorType{}}})->output();
  }
  Value embedding(Value table, Value tokens) const {
    return call("aten::embedding", "", {table, tokens});
  }
  Value linear(Value x, Value weight) const {
    return call("aten::linear", "", {x, weight});
  }
  Value add(Value a, Value b) const {
    return call("aten::add", "Tensor", {a, b});
  }
  Value mul(Value a, Value b) const {
    return call("aten::mul", "Tensor", {a, b});
  }
  Value add_scalar(Value x, double number) const {
    return call("aten::add", "Scalar", {x}, {{1, number}});
  }
  Value square(Value x) const {
    return call("aten::pow", "Tensor_Scalar", {x}, {{1, 2}});
  }
  Value mean_of_last(Value x) const {
    return call("aten::mean", "dim", {x}, {{1, std::vector<int64_t>{-1}}, {2, true}});
  }
  Value rsqrt(Value x) const {
    return call("aten::rsqrt", "", {x});
  }
  Value silu(Value x) const {
    return call("aten::silu", "", {x});
  }
  Value unflatten(Value x, int64_t last) const {
    return call("aten::unflatten", "int", {x}, {{1, -1}, {2, std::vector<int64_t>{-1, last}}});
  }
  Value transpose(Value x) const {
    return call("aten::transpose", "int", {x}, {{1, 1}, {2, 2}});
  }
  Value flatten(Value x) const {
    return call("aten::flatten", "using_ints", {x}, {{1, -2}});
  }
  Value attention(Value query, Value key, Value value) const {
    return call("aten::scaled_dot_product_attention", "", {query, key, value}, {{5, true}});
  }
};

} // namespace weft::bench
