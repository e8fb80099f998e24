#include "weft/graph/overlap/member_pieces.h"

#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/local_sizes.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <unordered_map>

namespace weft::graph {

namespace {

using Kind = Arrangement::Kind;

/// What a rule is given: the tensor that holds pieces is the call's first argument.
struct Call {
  const Node& node;
  CallArguments arguments;
  const Value& input;
  Arrangement from;
  int64_t members;

  const Sizes& sizes() const {
    return input.tensor().sizes;
  }
  int64_t rank() const {
    return input.tensor().dim();
  }
  /// A dim that an argument states, not negative.
  std::optional<int64_t> dim(std::string_view name) const {
    const auto stated = arguments.integer(name);
    return stated ? std::optional(*stated < 0 ? *stated + rank() : *stated) : std::nullopt;
  }
  /// Of one piece; nothing where they are not known to be of one size.
  std::optional<Sizes> piece_sizes() const {
    auto piece = sizes();
    if (from.kind == Kind::Stacked) {
      piece.erase(piece.begin() + from.at);
    } else if (from.kind == Kind::Joined) {
      const auto length = quotient(piece[from.at], members);
      if (!length) {
        return std::nullopt;
      }
      piece[from.at] = *length;
    }
    return piece;
  }
};
using Arrangements = std::vector<Arrangement>;
using Rule = Arrangements (*)(const Call& call);

Arrangements same(const Call& call) {
  return Arrangements(call.node.outputs().size(), call.from);
}

/// A copy of what is joined is another tensor, and somebody's wish; of pieces on their way it is only that.
Arrangements copied(const Call& call) {
  return call.from.kind == Kind::Joined ? Arrangements() : same(call);
}

/// Tensors that lie one after the other along the dim.
Arrangements cut(const Call& call) {
  if (call.from.kind != Kind::Joined || call.dim("dim") != call.from.at) {
    return {};
  }
  const auto& outputs = call.node.outputs();
  const auto piece = call.piece_sizes();
  bool is_equal = piece && static_cast<int64_t>(outputs.size()) == call.members;
  for (size_t i = 0; is_equal && i < outputs.size(); ++i) {
    is_equal = outputs[i] == nullptr || is_same(outputs[i]->tensor().sizes, *piece);
  }
  Arrangements result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    result.push_back({is_equal ? Kind::Piece : Kind::Part, static_cast<int64_t>(i)});
  }
  return result;
}

/// A range of the dim from a begin on, as long as the output says.
Arrangements range(const Call& call, const std::optional<Size>& begin) {
  const auto piece = call.piece_sizes();
  const auto& length = call.node.output()->tensor().sizes[call.from.at];
  if (is_same(length, call.sizes()[call.from.at])) {
    return {call.from};
  }
  const auto length_of_piece = piece ? std::optional(piece->at(call.from.at)) : std::nullopt;
  if (begin && length_of_piece && is_same(length, *length_of_piece)) {
    const auto index = *begin == Size(0) ? std::optional<Size>(0) : quotient(*begin, *length_of_piece);
    if (index && index->is_number() && index->number() >= 0 && index->number() < call.members) {
      return {{Kind::Piece, index->number()}};
    }
  }
  return {{Kind::Part, 0}};
}

Arrangements sliced(const Call& call) {
  if (call.from.kind != Kind::Joined || call.dim("dim") != call.from.at) {
    return {};
  }
  if (call.arguments.integer("step") != 1) {
    return {{Kind::Part, 0}};
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
  return member < 0 || member >= call.members ? Arrangements() : Arrangements{{Kind::Piece, member}};
}

Arrangements unbound(const Call& call) {
  Arrangements result;
  if (call.from.kind == Kind::Stacked && call.dim("dim") == call.from.at) {
    for (int64_t i = 0; i < call.members; ++i) {
      result.push_back({Kind::Piece, i});
    }
  }
  return result;
}

/// Elements keep their order. What counts the members may stand elsewhere behind or before dims of one index.
Arrangements reshaped(const Call& call) {
  const auto piece = call.piece_sizes();
  if ((call.from.kind != Kind::Joined && call.from.kind != Kind::Stacked) || !piece) {
    return {};
  }
  const auto& to = call.node.output()->tensor().sizes;
  const auto rank = static_cast<int64_t>(piece->size());
  for (int64_t at = 0; at <= rank; ++at) {
    const auto first = piece->begin() + std::min(at, call.from.at);
    const auto last = piece->begin() + std::max(at, call.from.at);
    if (!std::all_of(first, last, [](const Size& size) { return size == Size(1); })) {
      continue;
    }
    auto stacked = *piece;
    stacked.insert(stacked.begin() + at, Size(call.members));
    if (is_same(to, stacked)) {
      return {{Kind::Stacked, at}};
    }
    if (at < rank && is_same(to, multiplied(*piece, at, call.members))) {
      return {{Kind::Joined, at}};
    }
  }
  return {};
}

/// `order[i]` is the dim that comes to i.
Arrangements permuted_by(const Call& call, const std::vector<int64_t>& order) {
  if (call.from.kind != Kind::Stacked || static_cast<int64_t>(order.size()) != call.rank()) {
    return {};
  }
  Arrangement result{Kind::Stacked, -1};
  int64_t previous = -1;
  for (int64_t i = 0; i < call.rank(); ++i) {
    const auto dim = order[i] < 0 ? order[i] + call.rank() : order[i];
    if (dim == call.from.at) {
      result.at = i;
    } else if (dim < previous) {
      return {}; // the pieces themselves are transposed
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

std::vector<int64_t> dims_in_order(int64_t rank) {
  std::vector<int64_t> order(rank);
  for (int64_t i = 0; i < rank; ++i) {
    order[i] = i;
  }
  return order;
}

Arrangements transposed(const Call& call) {
  const auto a = call.dim("dim0");
  const auto b = call.dim("dim1");
  auto order = dims_in_order(call.rank());
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
  auto order = dims_in_order(call.rank());
  order.erase(order.begin() + *source);
  order.insert(order.begin() + *destination, *source);
  return permuted_by(call, order);
}

Rule find_rule(const c10::OperatorHandle& op) {
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten::alias", same},         {"aten::detach", same},        {"aten::clone", copied},
      {"aten::contiguous", copied},  {"aten::split", cut},          {"aten::split_with_sizes", cut},
      {"aten::chunk", cut},          {"aten::unsafe_split", cut},   {"aten::unsafe_split_with_sizes", cut},
      {"aten::unsafe_chunk", cut},   {"aten::tensor_split", cut},   {"aten::slice", sliced},
      {"aten::narrow", narrowed},    {"aten::select", selected},    {"aten::unbind", unbound},
      {"aten::view", reshaped},      {"aten::reshape", reshaped},   {"aten::_unsafe_view", reshaped},
      {"aten::flatten", reshaped},   {"aten::unflatten", reshaped}, {"aten::squeeze", reshaped},
      {"aten::unsqueeze", reshaped}, {"aten::permute", permuted},   {"aten::transpose", transposed},
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
  if (rule == nullptr || from.kind == Kind::Part || !node.arguments()[0].is_operand()) {
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

JoinedPieces joined_pieces(const Node& node, int64_t members, const PiecesOf& of) {
  const auto tensors = CallArguments(node).tensors("tensors");
  const auto dim = CallArguments(node).integer("dim");
  JoinedPieces result;
  if (tensors.empty() || !dim || node.output() == nullptr) {
    result.refused = "the pieces are joined along a dim that is not known";
    return result;
  }
  const auto count = static_cast<int64_t>(tensors.size());
  std::vector<bool> is_there(members);
  bool is_in_order = true;
  for (int64_t i = 0; i < count; ++i) {
    ++result.looked_at;
    const auto held = of(tensors[i]);
    if (!held || held->kind == Kind::Joined || held->kind == Kind::Stacked) {
      result.refused = "the pieces are joined with other tensors";
      return result;
    }
    if (held->kind == Kind::Part) {
      result.refused = "the pieces that are joined are not the members' equal ones";
      return result;
    }
    if (is_there[held->at]) {
      result.refused = c10::str("the piece of member ", held->at, " is joined twice");
      return result;
    }
    is_there[held->at] = true;
    is_in_order = is_in_order && held->at == i;
  }
  if (count < members) {
    result.refused = c10::str("only ", count, " of the ", members, " pieces are joined");
  } else if (!is_in_order) {
    result.refused = "the pieces are joined in another order";
  } else {
    const auto rank = node.output()->tensor().dim();
    result.arrangement = {
        node.op()->schema().name() == kCat ? Kind::Joined : Kind::Stacked, *dim < 0 ? *dim + rank : *dim};
  }
  return result;
}

} // namespace weft::graph
