#pragma once

#include "weft/graph/ir/program.h"

#include <memory>

namespace weft::testing {

/// Builds programs by hand.
///
///   ProgramBuilder build;
///   auto* x = build.input("x", at::kFloat, {Size::symbol("s0"), 8});
///   auto* w = build.parameter("weight", at::ones({4, 8}));
///   auto* y = build.call("aten::linear", {x, w});
///   build.output(y);
///   Executor executor(build.finish());
///
/// What a value's type says beyond being a tensor or a number is taken from `sizes`, and else left out: an executor reads it of
/// inputs alone.
class ProgramBuilder {
 public:
  /// An argument: a value, a constant, or a list of these.
  class Part {
   public:
    Part(graph::Value* value) : value_(value) {}
    template <class T>
      requires std::is_constructible_v<c10::IValue, T> && (!std::is_pointer_v<T> || std::is_same_v<T, const char*>)
    Part(T constant) : constant_(std::move(constant)) {}
    Part(std::initializer_list<Part> elements) : elements_(elements), is_list_(true) {}
    Part(std::vector<graph::Value*> values) : elements_(values.begin(), values.end()), is_list_(true) {}

   private:
    friend class ProgramBuilder;
    graph::Value* value_ = nullptr;
    c10::IValue constant_;
    std::vector<Part> elements_;
    bool is_list_ = false;
  };
  using Parts = std::vector<Part>;

  ProgramBuilder() : program_(std::make_shared<graph::Program>()) {}

  graph::Value* input(const std::string& name, c10::ScalarType dtype, graph::Sizes sizes);
  graph::Value* number(const std::string& name, graph::NumberKind kind, std::string expression = {});
  void constant_input(const std::string& name, c10::IValue value);
  graph::Value* parameter(const std::string& name, at::Tensor tensor);
  graph::Value* buffer(const std::string& name, at::Tensor tensor);

  /// A node with an output per return of the operator or the function, the trailing arguments absent.
  graph::Node* node(const std::string& target, Parts arguments, std::vector<int64_t> lists = {});
  /// Its only output.
  graph::Value* call(const std::string& target, Parts arguments);
  /// The tensors of a list.
  std::vector<graph::Value*> call_list(const std::string& target, Parts arguments, int64_t count);

  void output(graph::Value* value, graph::OutputKind kind = graph::OutputKind::User, const std::string& target = {});
  void constant_output(c10::IValue value);

  graph::Program& program() {
    return *program_;
  }
  std::shared_ptr<const graph::Program> finish();

 private:
  graph::Value* weight(graph::InputKind kind, const std::string& name, at::Tensor tensor);
  graph::Argument argument(const Part& part, std::vector<graph::Value*>& operands);

  std::shared_ptr<graph::Program> program_;
  std::vector<graph::Value*> returned_;
};

} // namespace weft::testing
