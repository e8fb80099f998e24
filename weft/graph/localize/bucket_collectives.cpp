#include "weft/graph/localize/bucket_collectives.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/memory_writes.h"
#include "weft/graph/ir/constant_text.h"

#include <algorithm>

namespace weft::graph {

namespace {

constexpr std::string_view kAllReduce = "_c10d_functional::all_reduce";
constexpr std::string_view kAllGather = "_c10d_functional::all_gather_into_tensor";

std::optional<int64_t> element_count(const TensorType& type) {
  int64_t count = 1;
  for (const auto& size : type.sizes) {
    if (!size.is_number()) {
      return std::nullopt;
    }
    count *= size.number();
  }
  return count;
}

/// A collective that can be merged with others into one, and the wait for it.
struct Member {
  Node* start;
  Node* wait;
  int64_t count; // elements of the operand
  int64_t bytes;

  const TensorType& result() const {
    return wait->output()->tensor();
  }
};

std::optional<Member> member_of(Node& node) {
  const auto name = node.op() == nullptr ? std::string_view() : std::string_view(node.op()->schema().name());
  if ((name != kAllReduce && name != kAllGather) || node.output() == nullptr || node.output()->uses().size() != 1) {
    return std::nullopt;
  }
  auto* wait = node.output()->uses()[0].node;
  const auto& operand = node.operand(0)->tensor();
  const auto count = element_count(operand);
  if (!waits_for_collective(*wait) || wait->output() == nullptr || !count ||
      (name == kAllGather && operand.dim() == 0)) {
    return std::nullopt;
  }
  const auto& result = wait->output()->tensor();
  if (!element_count(result) || result.strides != contiguous_strides(result.sizes)) {
    return std::nullopt;
  }
  return Member{&node, wait, *count, *count * static_cast<int64_t>(c10::elementSize(operand.dtype))};
}

/// What all members of a bucket have in common: the operator, its other arguments, and the operand's dtype and device.
std::string key_of(const Member& member) {
  auto key = target_name(*member.start);
  for (size_t i = 1; i < member.start->arguments().size(); ++i) {
    key += " " + constant_text(member.start->arguments()[i].constant(), *c10::AnyType::get());
  }
  const auto& type = member.start->operand(0)->tensor();
  return c10::str(key, " ", type.dtype, " ", type.device);
}

/// The nodes that need the results of a bucket, directly or through memory, and so must stay behind it.
class Dependents {
 public:
  explicit Dependents(const MemoryWrites& memory) : memory_(memory) {}

  void clear() {
    values_.clear();
    read_.clear();
    written_.clear();
    draws_ = false;
  }
  /// Adds a member. Nodes that use its result are dependents, and so are nodes that write to the memory it reads.
  void add_member(const Node& start) {
    values_.insert(start.output());
    read_.insert(memory_.memory_of(start.operand(0)));
  }
  /// Returns whether a node is a dependent. Is called for every node behind the bucket's first member, in order.
  bool add(const Node& node) {
    const auto written = written_operands(node);
    bool depends = draws_ && is_random(node);
    for (size_t i = 0; i < node.operand_count(); ++i) {
      depends = depends || values_.contains(node.operand(i)) || written_.contains(memory_.memory_of(node.operand(i)));
    }
    for (const auto* value : written) {
      depends = depends || read_.contains(memory_.memory_of(value));
    }
    if (!depends) {
      return false;
    }
    draws_ = draws_ || is_random(node);
    for (const auto* output : node.outputs()) {
      if (output != nullptr) {
        values_.insert(output);
      }
    }
    for (size_t i = 0; i < node.operand_count(); ++i) {
      read_.insert(memory_.memory_of(node.operand(i)));
    }
    for (const auto* value : written) {
      written_.insert(memory_.memory_of(value));
    }
    return true;
  }

 private:
  const MemoryWrites& memory_;
  ValueSet values_;
  ValueSet read_;      // memory
  ValueSet written_;   // memory
  bool draws_ = false; // a dependent draws random numbers, so that later nodes which draw some must stay behind it
};

/// Inserts nodes before a node, with the origin of another one.
class Inserter {
 public:
  Inserter(Graph& graph, Node* before, const Origin& origin) : graph_(graph), before_(before), origin_(origin) {}

  Node* call(const std::string& op, Arguments arguments, const std::vector<Value*>& operands, OutputTypes outputs)
      const {
    const auto target = find_operator(op);
    arguments.resize(target.schema().arguments().size());
    auto* node = graph_.insert(before_, target, std::move(arguments), operands, std::move(outputs));
    node->origin = origin_;
    return node;
  }
  /// The same elements in another shape; the value itself where it has that shape already.
  Value* shape(const std::string& op, Value* value, const Sizes& sizes) const {
    const auto& type = value->tensor();
    if (type.sizes == sizes) {
      return value;
    }
    c10::List<int64_t> numbers;
    for (const auto& size : sizes) {
      numbers.push_back(size.number());
    }
    return call(
               op, {Argument::operand(0), c10::IValue(numbers)}, {value},
               {.types = {contiguous_type(type.dtype, sizes, type.device)}})
        ->output();
  }

 private:
  Graph& graph_;
  Node* before_;
  const Origin& origin_;
};

/// Inserts one collective for all members before a node, and replaces the results of the members' waits by slices of
/// its result.
///
/// Why not all_reduce_coalesced: it makes one transfer per tensor wherever the group cannot merge them itself, and
/// every reader of the program would have to know that operator. Copying small operands costs less than starting a
/// collective.
void insert_bucket(Graph& graph, const std::vector<Member>& members, Node* before) {
  const auto& last = members.back();
  const Inserter insert(graph, before, last.start->origin);
  const auto& type = last.start->operand(0)->tensor();
  const auto of_sizes = [&](Sizes sizes) { return contiguous_type(type.dtype, std::move(sizes), type.device); };
  std::vector<Value*> flat;
  std::vector<Argument> listed;
  c10::List<int64_t> counts;
  int64_t total = 0;
  for (const auto& member : members) {
    listed.push_back(Argument::operand(flat.size()));
    flat.push_back(insert.shape("aten::reshape", member.start->operand(0), {member.count}));
    counts.push_back(member.count);
    total += member.count;
  }
  auto* joined = insert.call("aten::cat", {Argument::list(listed)}, flat, {.types = {of_sizes({total})}})->output();
  // The result of an all_gather has one row per rank.
  const bool gathers = target_name(*last.start) == kAllGather;
  const auto rows = gathers ? last.start->arguments()[1].constant().toInt() : 1;
  auto* started =
      insert.call(target_name(*last.start), last.start->arguments(), {joined}, {.types = {of_sizes({total * rows})}})
          ->output();
  auto* arrived =
      insert.call("_c10d_functional::wait_tensor", {Argument::operand(0)}, {started}, {.types = {started->type}})
          ->output();
  OutputTypes slices{.types = {}, .lists = {static_cast<int64_t>(members.size())}};
  for (const auto& member : members) {
    auto slice = of_sizes(gathers ? Sizes{rows, member.count} : Sizes{member.count});
    if (gathers) {
      slice.strides = {total, 1};
    }
    slices.types.emplace_back(std::move(slice));
  }
  auto* table = gathers ? insert.shape("aten::view", arrived, {rows, total}) : arrived;
  const auto* split = insert.call(
      "aten::split_with_sizes", {Argument::operand(0), c10::IValue(counts), c10::IValue(gathers ? 1 : 0)}, {table},
      std::move(slices));
  for (size_t i = 0; i < members.size(); ++i) {
    // The columns of a table are not contiguous, so that they cannot be viewed as the result.
    const auto* reshape = gathers ? "aten::reshape" : "aten::view";
    auto* result = insert.shape(reshape, split->output(i), members[i].result().sizes);
    graph.replace_all_uses(members[i].wait->output(), result);
    graph.erase(members[i].wait);
    graph.erase(members[i].start);
  }
}

class Bucketing {
 public:
  Bucketing(Graph& graph, const BucketOptions& options)
      : graph_(graph), options_(options), memory_(graph), dependents_(memory_) {}

  bool run() {
    // The next node is asked for after the visit, since closing a bucket erases its waits.
    for (auto* node = graph_.first(); node != nullptr; node = node->next()) {
      visit(*node);
    }
    close();
    return changed_;
  }

 private:
  void visit(Node& node) {
    if (!communicates(node)) {
      if (!members_.empty() && dependents_.add(node)) {
        since_last_.push_back(&node);
      }
      return;
    }
    const auto member = member_of(node);
    const bool is_small = member && member->bytes <= options_.small_bytes;
    const auto key = is_small ? key_of(*member) : std::string();
    if (is_small && key == key_ && bytes_ + member->bytes <= options_.bucket_bytes && !dependents_.add(node)) {
      between_.insert(between_.end(), since_last_.begin(), since_last_.end());
      since_last_.clear();
    } else {
      close();
      if (!is_small) {
        return;
      }
      key_ = key;
    }
    members_.push_back(*member);
    bytes_ += member->bytes;
    dependents_.add_member(node);
  }

  void close() {
    if (members_.size() > 1) {
      std::unordered_set<const Node*> waits;
      for (const auto& member : members_) {
        waits.insert(member.wait);
      }
      std::erase_if(between_, [&](const Node* node) { return waits.count(node) > 0; });
      // Behind the last member come the one collective and then its dependents, in their order.
      auto* behind = members_.back().start->next();
      while (waits.count(behind) > 0) {
        behind = behind->next();
      }
      insert_bucket(graph_, members_, behind);
      for (auto* node : between_) {
        graph_.move_before(node, behind);
      }
      changed_ = true;
    }
    members_.clear();
    between_.clear();
    since_last_.clear();
    dependents_.clear();
    bytes_ = 0;
    key_.clear();
  }

  Graph& graph_;
  BucketOptions options_;
  MemoryWrites memory_;
  Dependents dependents_;
  bool changed_ = false;

  // The bucket that is being filled, and its dependents in front of and behind its last member.
  std::vector<Member> members_;
  std::vector<Node*> between_;
  std::vector<Node*> since_last_;
  int64_t bytes_ = 0;
  std::string key_;
};

} // namespace

bool bucket_collectives(Graph& graph, const BucketOptions& options) {
  bool changed = false;
  // A bucket reads copies of its operands, so that a write to them which kept collectives apart may no longer matter.
  while (Bucketing(graph, options).run()) {
    changed = true;
  }
  return changed;
}

} // namespace weft::graph
