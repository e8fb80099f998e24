#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace weft::graph {

/// An immutable text. Copies share it because passes derive nodes from nodes, and many nodes belong to one module.
class Text {
 public:
  Text() = default;
  Text(std::string text) : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  Text(const char* text) : Text(std::string(text)) {}

  const std::string& str() const {
    static const std::string none;
    return text_ == nullptr ? none : *text_;
  }
  operator const std::string&() const {
    return str();
  }
  bool empty() const {
    return text_ == nullptr;
  }
  friend bool operator==(const Text& a, const Text& b) {
    return a.text_ == b.text_ || a.str() == b.str();
  }

 private:
  std::shared_ptr<const std::string> text_;
};

/// Pairs of texts. Copies share them because a program's file stores many texts per node.
class Metadata {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  Metadata() = default;
  Metadata(Pairs pairs) : pairs_(std::make_shared<const Pairs>(std::move(pairs))) {}
  Metadata(std::initializer_list<Pairs::value_type> pairs) : Metadata(Pairs(pairs)) {}

  Pairs::const_iterator begin() const {
    return pairs().begin();
  }
  Pairs::const_iterator end() const {
    return pairs().end();
  }
  const Pairs& pairs() const {
    static const Pairs none;
    return pairs_ == nullptr ? none : *pairs_;
  }

 private:
  std::shared_ptr<const Pairs> pairs_;
};

/// Where a node comes from. Plans and messages use it.
struct Origin {
  Text module;      // "layers.0.attention.wq"; empty for the model itself
  Text module_type; // "torch.nn.modules.linear.Linear"
  /// Other metadata of the node in the program's file, kept unchanged: "stack_trace", "nn_module_stack", ...
  Metadata metadata;
};

} // namespace weft::graph
