#include "weft/graph/overlap/member_chunks.h"

#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/local_sizes.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <unordered_map>

namespace weft::graph {

namespace {

using Kind = Arrangement::Kind;

/// The input of a rule: a call whose first argument is a tensor that holds shards.
struct Call {
  const Node& node;
  CallArguments arguments;
  const Value& input;
  Arrangement from;
  int64_t members;

  const Sizes& sizes() const {
    return input.tensor().sizes;
  }
  int64_t ndim() const {
    return input.tensor().dim();
  }
  /// A dim that an argument states, not negative.
  std::optional<int64_t> dim(std::string_view name) const {
    const auto stated = arguments.integer(name);
    return stated ? std::optional(*stated < 0 ? *stated + ndim() : *stated) : std::nullopt;
  }
  /// The sizes of one shard; nullopt where the shards are not known to be of one size.
  std::optional<Sizes> shard_sizes() const {
    auto shard = sizes();
    if (from.kind == Kind::Stacked) {
      shard.erase(shard.begin() + from.at);
    } else if (from.kind == Kind::Joined) {
      const auto length = quotient(shard[from.at], members);
      if (!length) {
        return std::nullopt;
      }
      shard[from.at] = *length;
    }
    return shard;
  }
};
using Arrangements = std::vector<Arrangement>;
using Rule = Arrangements (*)(const Call& call);

Arrangements same(const Call& call) {
  return Arrangements(call.node.outputs().size(), call.from);
}

/// A copy of joined shards is a use of the gathered tensor that the program asked for, so that the gather ends before
/// it. A copy of shards that are not joined yet is part of the gather.
Arrangements copied(const Call& call) {
  return call.from.kind == Kind::Joined ? Arrangements() : same(call);
}

/// A split of the joined dim: its outputs are the shards if they have equal sizes, one per member.
Arrangements splits(const Call& call) {
  if (call.from.kind != Kind::Joined || call.dim("dim") != call.from.at) {
    return {};
  }
  const auto& outputs = call.node.outputs();
  const auto shard = call.shard_sizes();
  bool is_equal = shard && static_cast<int64_t>(outputs.size()) == call.members;
  for (size_t i = 0; is_equal && i < outputs.size(); ++i) {
    is_equal = outputs[i] == nullptr || is_same(outputs[i]->tensor().sizes, *shard);
  }
  Arrangements result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    result.push_back({is_equal ? Kind::Shard : Kind::Slice, static_cast<int64_t>(i)});
  }
  return result;
}

/// A slice of the joined dim that starts at `begin` and has the length of the output.
Arrangements range(const Call& call, const std::optional<Size>& begin) {
  const auto shard = call.shard_sizes();
  const auto& length = call.node.output()->tensor().sizes[call.from.at];
  if (is_same(length, call.sizes()[call.from.at])) {
    return {call.from};
  }
  const auto shard_length = shard ? std::optional(shard->at(call.from.at)) : std::nullopt;
  if (begin && shard_length && is_same(length, *shard_length)) {
    const auto index = *begin == Size(0) ? std::optional<Size>(0) : quotient(*begin, *shard_length);
    if (index && index->is_number() && index->number() >= 0 && index->number() < call.members) {
      return {{Kind::Shard, index->number()}};
    }
  }
  return {{Kind::Slice, 0}};
}

Arrangements sliced(const Call& call) {
  if (call.from.kind != Kind::Joined || call.dim("dim") != call.from.at) {
    return {};
  }
  if (call.arguments.integer("step") != 1) {
    return {{Kind::Slice, 0}};
  }
  auto begin = call.arguments.has("start") ? call.arguments.size("start") : std::optional<Size>(0);
  if (begin && begin->is_number() && begin->number() < 0) {
    begin = call.sizes()[call.from.at] + *begin;
  }
  return range(call, begin);
}

Arrangements narrowed(const Call& call) {
  if (call.from.kind != Kind::Joined || call.dim("dim") != call.from.at) {
    return {};
  }
  auto begin = call.arguments.size("start");
  if (begin && begin->is_number() && begin->number() < 0) {
    begin = call.sizes()[call.from.at] + *begin;
  }
  return range(call, begin);
}

Arrangements selected(const Call& call) {
  const auto index = call.arguments.integer("index");
  if (call.from.kind != Kind::Stacked || call.dim("dim") != call.from.at || !index) {
    return {};
  }
  const auto member = *index < 0 ? *index + call.members : *index;
  return member < 0 || member >= call.members ? Arrangements() : Arrangements{{Kind::Shard, member}};
}

Arrangements unbound(const Call& call) {
  Arrangements result;
  if (call.from.kind == Kind::Stacked && call.dim("dim") == call.from.at) {
    for (int64_t i = 0; i < call.members; ++i) {
      result.push_back({Kind::Shard, i});
    }
  }
  return result;
}

/// A reshape keeps the order of the elements. So the dim of the members can move only past dims of size 1.
Arrangements reshaped(const Call& call) {
  const auto shard = call.shard_sizes();
  if ((call.from.kind != Kind::Joined && call.from.kind != Kind::Stacked) || !shard) {
    return {};
  }
  const auto& to = call.node.output()->tensor().sizes;
  const auto ndim = static_cast<int64_t>(shard->size());
  for (int64_t at = 0; at <= ndim; ++at) {
    const auto first = shard->begin() + std::min(at, call.from.at);
    const auto last = shard->begin() + std::max(at, call.from.at);
    if (!std::all_of(first, last, [](const Size& size) { return size == Size(1); })) {
      continue;
    }
    auto stacked = *shard;
    stacked.insert(stacked.begin() + at, Size(call.members));
    if (is_same(to, stacked)) {
      return {{Kind::Stacked, at}};
    }
    if (at < ndim && is_same(to, multiplied(*shard, at, call.members))) {
      return {{Kind::Joined, at}};
    }
  }
  return {};
}

/// `order[i]` is the dim that moves to i.
Arrangements permuted_by(const Call& call, const std::vector<int64_t>& order) {
  if (call.from.kind != Kind::Stacked || static_cast<int64_t>(order.size()) != call.ndim()) {
    return {};
  }
  Arrangement result{Kind::Stacked, -1};
  int64_t previous = -1;
  for (int64_t i = 0; i < call.ndim(); ++i) {
    const auto dim = order[i] < 0 ? order[i] + call.ndim() : order[i];
    if (dim == call.from.at) {
      result.at = i;
    } else if (dim < previous) {
      return {}; // the shards themselves are transposed
    } else {
      previous = dim;
    }
  }
  return {result};
}

Arrangements permuted(const Call& call) {
  const auto order = call.arguments.integers("dims");
  return order ? permuted_by(call, *order) : Arrangements();
}

std::vector<int64_t> dims_in_order(int64_t ndim) {
  std::vector<int64_t> order(ndim);
  for (int64_t i = 0; i < ndim; ++i) {
    order[i] = i;
  }
  return order;
}

Arrangements transposed(const Call& call) {
  const auto a = call.dim("dim0");
  const auto b = call.dim("dim1");
  auto order = dims_in_order(call.ndim());
  if (!a || !b || order.empty()) {
    return {};
  }
  std::swap(order[*a], order[*b]);
  return permuted_by(call, order);
}

Arrangements moved(const Call& call) {
  const auto source = call.dim("source");
  const auto destination = call.dim("destination");
  if (!source || !destination) {
    return {};
  }
  auto order = dims_in_order(call.ndim());
  order.erase(order.begin() + *source);
  order.insert(order.begin() + *destination, *source);
  return permuted_by(call, order);
}

Rule find_rule(const c10::OperatorHandle& op) {
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten::alias", same},          {"aten::detach", same},         {"aten::clone", copied},
      {"aten::contiguous", copied},   {"aten::split", splits},        {"aten::split_with_sizes", splits},
      {"aten::chunk", splits},        {"aten::unsafe_split", splits}, {"aten::unsafe_split_with_sizes", splits},
      {"aten::unsafe_chunk", splits}, {"aten::tensor_split", splits}, {"aten::slice", sliced},
      {"aten::narrow", narrowed},     {"aten::select", selected},     {"aten::unbind", unbound},
      {"aten::view", reshaped},       {"aten::reshape", reshaped},    {"aten::_unsafe_view", reshaped},
      {"aten::flatten", reshaped},    {"aten::unflatten", reshaped},  {"aten::squeeze", reshaped},
      {"aten::unsqueeze", reshaped},  {"aten::permute", permuted},    {"aten::transpose", transposed},
      {"aten::movedim", moved},
  };
  if (op.schema().name() == "aten::view" && op.schema().overload_name() == "dtype") {
    return same;
  }
  const auto found = rules.find(op.schema().name());
  return found == rules.end() ? nullptr : found->second;
}

constexpr std::string_view kCat = "aten::cat";
constexpr std::string_view kStack = "aten::stack";

} // namespace

bool is_same(const Size& a, const Size& b) {
  return a == b || (!a.is_number() && !b.is_number() && quotient(a, b) == Size(1));
}

bool is_same(const Sizes& a, const Sizes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Size& x, const Size& y) { return is_same(x, y); });
}

Sizes multiplied(Sizes sizes, int64_t dim, int64_t factor) {
  sizes[dim] = sizes[dim] * Size(factor);
  return sizes;
}

std::vector<Arrangement> rearranged(const Node& node, const Arrangement& from, int64_t members) {
  const auto rule = node.op() == nullptr ? nullptr : find_rule(*node.op());
  if (rule == nullptr || from.kind == Kind::Slice || !node.arguments()[0].is_operand()) {
    return {};
  }
  const auto* input = node.operand(node.arguments()[0].operand());
  const bool is_tensors = std::all_of(node.outputs().begin(), node.outputs().end(), [](const Value* output) {
    return output == nullptr || output->is_tensor();
  });
  if (!input->is_tensor() || !is_tensors || node.outputs().empty() ||
      (node.outputs().size() == 1 && node.output() == nullptr)) {
    return {};
  }
  auto result = rule(Call{node, CallArguments(node), *input, from, members});
  return result.size() == node.outputs().size() ? result : std::vector<Arrangement>();
}

bool joins_tensors(const Node& node) {
  return node.op() != nullptr && (node.op()->schema().name() == kCat || node.op()->schema().name() == kStack);
}

JoinedShards joined_shards(const Node& node, int64_t members, const ShardsOf& of) {
  const auto tensors = CallArguments(node).tensors("tensors");
  const auto dim = CallArguments(node).integer("dim");
  JoinedShards result;
  if (tensors.empty() || !dim || node.output() == nullptr) {
    result.refused = "the shards are joined along a dim that is not known";
    return result;
  }
  const auto count = static_cast<int64_t>(tensors.size());
  std::vector<bool> is_there(members);
  bool is_in_order = true;
  for (int64_t i = 0; i < count; ++i) {
    ++result.looked_at;
    const auto held = of(tensors[i]);
    if (!held || held->kind == Kind::Joined || held->kind == Kind::Stacked) {
      result.refused = "the shards are joined with other tensors";
      return result;
    }
    if (held->kind == Kind::Slice) {
      result.refused = "the joined tensors are not the members' equal shards";
      return result;
    }
    if (is_there[held->at]) {
      result.refused = c10::str("the shard of member ", held->at, " is joined twice");
      return result;
    }
    is_there[held->at] = true;
    is_in_order = is_in_order && held->at == i;
  }
  if (count < members) {
    result.refused = c10::str("only ", count, " of the ", members, " shards are joined");
  } else if (!is_in_order) {
    result.refused = "the shards are joined in another order";
  } else {
    const auto ndim = node.output()->tensor().dim();
    result.arrangement = {
        node.op()->schema().name() == kCat ? Kind::Joined : Kind::Stacked, *dim < 0 ? *dim + ndim : *dim};
  }
  return result;
}

} // namespace weft::graph
