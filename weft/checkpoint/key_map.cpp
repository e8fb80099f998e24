#include "weft/checkpoint/key_map.h"

#include "weft/core/json_depth.h"

#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

namespace weft {

/// A name with stars, or one operation on other expressions.
struct KeyExpression {
  enum class Kind : uint8_t { Name, Transpose, Slice, Concat };

  Kind kind = Kind::Name;
  std::string name = {};
  std::vector<KeyExpression> operands = {};
  int64_t dim = 0;
  std::vector<int64_t> sizes = {}; // of the parts of a slice, relative to each other
  int64_t part = 0;
};

namespace {

using Json = nlohmann::ordered_json;
using Kind = KeyExpression::Kind;

/// The texts that the stars of a pattern stand for in a name, each as short as it can be; none if the name does not fit.
std::optional<std::vector<std::string>> stars_of(std::string_view pattern, std::string_view name) {
  auto star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == name ? std::optional(std::vector<std::string>()) : std::nullopt;
  }
  if (name.substr(0, star) != pattern.substr(0, star)) {
    return std::nullopt;
  }
  std::vector<std::string> stars;
  auto rest = name.substr(star);
  while (true) {
    const auto next = pattern.find('*', star + 1);
    const auto between = pattern.substr(star + 1, next == std::string_view::npos ? next : next - star - 1);
    // The text after the last star ends the name; any other one counts where it comes first.
    const bool is_last = next == std::string_view::npos;
    const auto at = !is_last                                      ? rest.find(between, 1)
        : rest.size() > between.size() && rest.ends_with(between) ? rest.size() - between.size()
                                                                  : std::string_view::npos;
    if (at == std::string_view::npos || at > rest.size() || at == 0) {
      return std::nullopt;
    }
    stars.emplace_back(rest.substr(0, at));
    rest = rest.substr(at + between.size());
    if (is_last) {
      return stars;
    }
    star = next;
  }
}

std::string with_stars(const std::string& pattern, const std::vector<std::string>& stars) {
  std::string result;
  size_t next = 0;
  for (const auto character : pattern) {
    result += character == '*' && next < stars.size() ? stars[next++] : std::string(1, character);
  }
  return result;
}

class KeyMapReader {
 public:
  explicit KeyMapReader(std::string pattern) : pattern_(std::move(pattern)) {}

  KeyExpression read(const Json& json) const {
    if (json.is_string()) {
      KeyExpression expression{.kind = Kind::Name, .name = json.get<std::string>()};
      const auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '*'); };
      check(
          count(expression.name) <= count(pattern_),
          c10::str("\"", expression.name, "\" must have no more stars than the pattern"));
      return expression;
    }
    check(json.is_object(), "a name or an object is required, but got " + json.dump().substr(0, 80));
    if (json.contains("concat")) {
      return concat_of(json);
    }
    check(json.contains("from"), "\"from\" or \"concat\" is required, but got " + json.dump().substr(0, 80));
    if (json.contains("transpose")) {
      check(
          json.size() == 2 && json["transpose"] == true,
          "\"from\" and \"transpose\": true are required, but got " + json.dump().substr(0, 80));
      return {.kind = Kind::Transpose, .name = {}, .operands = {read(json["from"])}};
    }
    return slice_of(json);
  }

 private:
  void check(bool condition, const std::string& what) const {
    TORCH_CHECK_VALUE(condition, "[KeyMap] \"", pattern_, "\": ", what, ".");
  }

  int64_t number(const Json& json, const char* key) const {
    check(json.contains(key) && json[key].is_number_integer(), c10::str("\"", key, "\" must be an integer"));
    return json[key].get<int64_t>();
  }

  KeyExpression concat_of(const Json& json) const {
    check(
        json["concat"].is_array() && !json["concat"].empty() && json.size() == 2,
        "\"concat\": [...] and \"dim\" are required, but got " + json.dump().substr(0, 80));
    KeyExpression expression{.kind = Kind::Concat, .name = {}, .operands = {}, .dim = number(json, "dim")};
    for (const auto& operand : json["concat"]) {
      expression.operands.push_back(read(operand));
    }
    return expression;
  }

  KeyExpression slice_of(const Json& json) const {
    check(
        json.size() == 4 && json.contains("sizes") && json["sizes"].is_array(),
        "\"from\" with \"transpose\", or with \"dim\", \"sizes\" and \"part\", is required, but got " +
            json.dump().substr(0, 80));
    KeyExpression expression{
        .kind = Kind::Slice, .name = {}, .operands = {read(json["from"])}, .dim = number(json, "dim")};
    int64_t sum = 0;
    for (const auto& size : json["sizes"]) {
      check(size.is_number_integer() && size.get<int64_t>() > 0, "\"sizes\" must be positive integers");
      expression.sizes.push_back(size.get<int64_t>());
      check(!c10::add_overflows(sum, expression.sizes.back(), &sum), "the sum of \"sizes\" must fit into 64 bits");
    }
    expression.part = number(json, "part");
    check(
        expression.part >= 0 && expression.part < static_cast<int64_t>(expression.sizes.size()),
        "\"part\" must be one of \"sizes\", counted from 0");
    return expression;
  }

  std::string pattern_;
};

/// Evaluates an expression to where its elements are.
class Resolver {
 public:
  Resolver(
      const StoredTensors& stored,
      const std::string& name,
      const std::vector<std::string>& stars,
      std::set<std::string>& used)
      : stored_(stored), name_(name), stars_(stars), used_(used) {}

  std::optional<StoredTensor> find(const KeyExpression& expression) {
    if (expression.kind == Kind::Name) {
      const auto name = with_stars(expression.name, stars_);
      const auto unreadable = stored_.unreadable.find(name);
      check(
          unreadable == stored_.unreadable.end(),
          c10::str(
              "a tensor of a dtype that torch has is required, but '", name, "' is stored as ",
              unreadable == stored_.unreadable.end() ? "" : unreadable->second));
      const auto found = stored_.tensors.find(name);
      if (found == stored_.tensors.end()) {
        return std::nullopt;
      }
      used_.insert(found->first);
      return found->second;
    }
    std::vector<StoredTensor> operands;
    for (const auto& operand : expression.operands) {
      auto found = find(operand);
      if (!found) {
        return std::nullopt;
      }
      operands.push_back(std::move(*found));
    }
    switch (expression.kind) {
      case Kind::Transpose:
        return transposed(std::move(operands[0]));
      case Kind::Slice:
        return sliced(operands[0], expression);
      default:
        return joined(operands, expression.dim);
    }
  }

 private:
  void check(bool condition, const std::string& what) const {
    TORCH_CHECK_VALUE(condition, "[KeyMap] '", name_, "': ", what, ".");
  }

  size_t checked_dim(const StoredTensor& tensor, int64_t dim) const {
    const auto ndim = static_cast<int64_t>(tensor.sizes.size());
    check(
        dim >= -ndim && dim < ndim,
        c10::str("a dim of a tensor of shape ", c10::IntArrayRef(tensor.sizes), " is required, but got ", dim));
    return static_cast<size_t>(dim < 0 ? dim + ndim : dim);
  }

  StoredTensor transposed(StoredTensor tensor) const {
    check(
        tensor.sizes.size() == 2,
        c10::str("a matrix is required to be transposed, but got the shape ", c10::IntArrayRef(tensor.sizes)));
    std::swap(tensor.sizes[0], tensor.sizes[1]);
    for (auto& part : tensor.parts) {
      std::swap(part.index[0], part.index[1]);
      std::swap(part.strides[0], part.strides[1]);
    }
    return tensor;
  }

  StoredTensor sliced(const StoredTensor& tensor, const KeyExpression& expression) const {
    const auto dim = checked_dim(tensor, expression.dim);
    const auto all = std::accumulate(expression.sizes.begin(), expression.sizes.end(), int64_t{0}); // checked to fit
    const auto size = tensor.sizes[dim];
    check(size % all == 0, c10::str("a dim of ", size, " cannot be divided into parts of sizes ", expression.sizes));
    const auto before =
        std::accumulate(expression.sizes.begin(), expression.sizes.begin() + expression.part, int64_t{0});
    const Run range{before * (size / all), expression.sizes[expression.part] * (size / all)};
    StoredTensor result{.dtype = tensor.dtype, .sizes = tensor.sizes, .parts = {}};
    result.sizes[dim] = range.length;
    for (const auto& part : tensor.parts) {
      const auto common = intersect(part.index[dim], {range});
      if (common.empty()) {
        continue;
      }
      // A range of indices has consecutive positions in the part, because the part has its indices in order.
      auto next = part;
      next.begin += static_cast<uint64_t>(common[0].held_begin * part.strides[dim]) * c10::elementSize(tensor.dtype);
      next.index[dim].clear();
      for (const auto& [held, wanted, length] : common) {
        next.index[dim].push_back({wanted, length});
      }
      result.parts.push_back(std::move(next));
    }
    return result;
  }

  StoredTensor joined(const std::vector<StoredTensor>& tensors, int64_t concat_dim) const {
    auto result = tensors[0];
    const auto dim = checked_dim(result, concat_dim);
    for (size_t i = 1; i < tensors.size(); ++i) {
      auto sizes = tensors[i].sizes;
      check(
          sizes.size() == result.sizes.size() && tensors[i].dtype == result.dtype,
          "tensors of one dtype and number of dims are required to be joined");
      const auto length = std::exchange(sizes[dim], result.sizes[dim]);
      check(
          sizes == result.sizes,
          c10::str(
              "tensors that differ in dim ", dim, " alone are required to be joined, but got the shapes ",
              c10::IntArrayRef(tensors[0].sizes), " and ", c10::IntArrayRef(tensors[i].sizes)));
      for (auto part : tensors[i].parts) {
        for (auto& run : part.index[dim]) {
          run.begin += result.sizes[dim];
        }
        result.parts.push_back(std::move(part));
      }
      check(
          !c10::add_overflows(result.sizes[dim], length, &result.sizes[dim]),
          "the dim of the joined tensors must fit into 64 bits");
    }
    return result;
  }

  const StoredTensors& stored_;
  const std::string& name_;
  const std::vector<std::string>& stars_;
  std::set<std::string>& used_;
};

} // namespace

KeyMap KeyMap::parse(std::string_view json) {
  TORCH_CHECK_VALUE(!too_deep_at(json), "[KeyMap] the JSON nests too deep.");
  Json root;
  try {
    root = Json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "[KeyMap] JSON is required, but: ", error.what(), ".");
  }
  TORCH_CHECK_VALUE(
      root.is_object(), "[KeyMap] an object of patterns is required, but got ", root.dump().substr(0, 80), ".");
  KeyMap map;
  for (const auto& [pattern, value] : root.items()) {
    map.entries_.emplace_back(pattern, std::make_shared<const KeyExpression>(KeyMapReader(pattern).read(value)));
  }
  return map;
}

KeyMap KeyMap::load(const std::string& path) {
  std::ifstream file(path);
  TORCH_CHECK_VALUE(file.good(), "[KeyMap] a file is required, but ", path, " cannot be read.");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str());
}

std::optional<StoredTensor> KeyMap::find(
    const StoredTensors& stored,
    const std::string& name,
    std::set<std::string>& used) const {
  for (const auto& [pattern, expression] : entries_) {
    if (const auto stars = stars_of(pattern, name)) {
      return Resolver(stored, name, *stars, used).find(*expression);
    }
  }
  return Resolver(stored, name, {}, used).find({.kind = Kind::Name, .name = name});
}

MatchedKeys match_keys(
    const StoredTensors& stored,
    const std::vector<std::vector<std::string>>& names,
    const KeyMap& map) {
  MatchedKeys matched;
  matched.stored.folder = stored.folder;
  matched.stored.files = stored.files;
  std::set<std::string> used;
  for (const auto& of_one_tensor : names) {
    bool is_found = false;
    for (const auto& name : of_one_tensor) {
      if (auto tensor = map.find(stored, name, used)) {
        matched.stored.tensors.emplace(of_one_tensor[0], std::move(*tensor));
        is_found = true;
        break;
      }
    }
    if (!is_found) {
      matched.missing.push_back(of_one_tensor[0]);
      continue;
    }
    // What is stored under the other names of a tied tensor is the same and not unexpected.
    for (const auto& name : of_one_tensor) {
      map.find(stored, name, used);
    }
  }
  for (const auto& [name, tensor] : stored.tensors) {
    if (!used.contains(name)) {
      matched.unexpected.push_back(name);
    }
  }
  for (const auto& [name, dtype] : stored.unreadable) {
    matched.unexpected.push_back(name);
  }
  return matched;
}

} // namespace weft
