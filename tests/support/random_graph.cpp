#include "tests/support/random_graph.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <numeric>

namespace weft::testing {

namespace {

struct Tensor {
  std::string name;
  std::vector<int64_t> sizes; // contiguous

  int64_t rank() const {
    return static_cast<int64_t>(sizes.size());
  }
};

std::string list_text(const std::vector<int64_t>& numbers) {
  return c10::Join(",", numbers);
}

int64_t product(const std::vector<int64_t>& sizes, size_t end) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<int64_t>(end), int64_t{1}, std::multiplies<>());
}

class Generator {
 public:
  explicit Generator(std::mt19937& random) : random_(random) {}

  RandomGraph run(int nodes) {
    constexpr const char* kMeshes[] = {"tp=2", "tp=3", "tp=4", "dp=2,tp=2"};
    graph_.mesh = kMeshes[below(4)];
    mesh_dims_ = graph_.mesh.find(',') == std::string::npos ? 1 : 2;
    for (int i = 0; i < 2; ++i) {
      const auto rank = 2 + below(2);
      std::vector<int64_t> sizes(rank);
      std::generate(sizes.begin(), sizes.end(), [&] { return any_size(); });
      add_input(sizes);
    }
    while (nodes_ < nodes) {
      add_node();
    }
    finish();
    return std::move(graph_);
  }

 private:
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % end);
  }
  bool chance(int percent) {
    return below(100) < percent;
  }
  int64_t any_size() {
    constexpr int64_t kSizes[] = {2, 3, 4, 4, 6, 8, 8, 5};
    return kSizes[below(8)];
  }
  /// Mostly one of the last.
  const Tensor& any_tensor() {
    const auto count = static_cast<int64_t>(tensors_.size());
    return tensors_[chance(60) ? std::max<int64_t>(0, count - 1 - below(3)) : below(count)];
  }
  std::string fresh(const std::string& letter) {
    return "%" + letter + std::to_string(next_++);
  }

  Layout any_layout(int64_t rank) {
    Placements placements;
    for (int64_t m = 0; m < mesh_dims_; ++m) {
      placements.push_back(rank == 0 || chance(35) ? Replicate() : Shard(below(rank)));
    }
    return Layout(placements);
  }

  void add_input(const std::vector<int64_t>& sizes) {
    const auto name = fresh("x");
    inputs_ += "input " + name + ": f64[" + list_text(sizes) + "] = user\n";
    graph_.options.inputs[name.substr(1)] = any_layout(static_cast<int64_t>(sizes.size()));
    tensors_.push_back({name, sizes});
  }
  std::string parameter(const std::string& name, const std::vector<int64_t>& sizes) {
    const auto value = fresh("p");
    inputs_ += "input " + value + ": f64[" + list_text(sizes) + "] = parameter \"" + name + "\"\n";
    return value;
  }

  /// A line; `strides` where the output is not contiguous, and no later line may use it then.
  std::string call(
      const std::vector<int64_t>& sizes,
      const std::string& text,
      const std::vector<int64_t>& strides = {},
      const std::string& module = {}) {
    const auto name = fresh("v");
    lines_ += "  " + name + ": f64[" + list_text(sizes) + (strides.empty() ? "" : "|" + list_text(strides)) +
        "] = aten::" + text + (module.empty() ? "" : " in " + module) + "\n";
    ++nodes_;
    return name;
  }
  void keep(const std::vector<int64_t>& sizes, const std::string& name) {
    tensors_.push_back({name, sizes});
  }
  void add(const std::vector<int64_t>& sizes, const std::string& text) {
    keep(sizes, call(sizes, text));
  }

  void add_node() {
    const auto kind = below(100);
    const auto tensor = any_tensor();
    if (kind < 30) {
      add_layer(tensor);
    } else if (kind < 40) {
      add_product(tensor);
    } else if (kind < 60) {
      add_elementwise(tensor);
    } else if (kind < 70) {
      add_reduction(tensor);
    } else if (kind < 80) {
      add_reshape(tensor);
    } else if (kind < 88) {
      add_permutation(tensor);
    } else if (kind < 94) {
      add_join(tensor);
    } else {
      add_cut(tensor);
    }
  }

  /// linear, or what it is made of: a view of two dims, a transposed weight, a matmul, a view.
  void add_layer(const Tensor& tensor) {
    if (tensor.rank() == 0) {
      return;
    }
    const auto module = "m" + std::to_string(modules_++);
    const auto in = tensor.sizes.back();
    const auto out = any_size();
    const bool has_bias = chance(40);
    const auto weight = parameter(module + ".weight", {out, in});
    const auto bias = has_bias ? parameter(module + ".bias", {out}) : std::string();
    auto sizes = tensor.sizes;
    sizes.back() = out;
    if (chance(65)) {
      const auto style = below(4);
      plan_.push_back({module, style == 0 ? nn::rowwise() : nn::colwise()});
    }
    if (chance(60)) {
      keep(
          sizes,
          call(sizes, "linear(" + tensor.name + ", " + weight + (has_bias ? ", " + bias : "") + ")", {}, module));
    } else {
      const auto rows = product(tensor.sizes, tensor.sizes.size() - 1);
      const auto flat = tensor.rank() == 2
          ? tensor.name
          : call({rows, in}, c10::str("reshape(", tensor.name, ", [", rows, ", ", in, "])"), {}, module);
      const auto turned = call({in, out}, "permute(" + weight + ", [1, 0])", {1, in}, module);
      const auto operands = flat + ", " + turned + ")";
      const auto made = call({rows, out}, has_bias ? "addmm(" + bias + ", " + operands : "mm(" + operands, {}, module);
      keep(
          sizes,
          tensor.rank() == 2 ? made
                             : call(sizes, "reshape(" + made + ", [" + c10::Join(", ", sizes) + "])", {}, module));
    }
    // Keeps values small: they grow with every matmul.
    if (chance(60)) {
      const auto last = tensors_.back();
      add(last.sizes, (chance(50) ? "tanh(" : "relu(") + last.name + ")");
    }
  }

  /// The product of an activation and itself, transposed.
  void add_product(const Tensor& tensor) {
    if (tensor.rank() == 2) {
      const auto rows = tensor.sizes[0];
      const auto columns = tensor.sizes[1];
      const auto turned = call({columns, rows}, "permute(" + tensor.name + ", [1, 0])", {1, columns});
      add({rows, rows}, (chance(50) ? "mm(" : "matmul(") + tensor.name + ", " + turned + ")");
    } else if (tensor.rank() == 3) {
      const auto& s = tensor.sizes;
      const auto turned = call({s[0], s[2], s[1]}, "permute(" + tensor.name + ", [0, 2, 1])", {s[1] * s[2], 1, s[2]});
      add({s[0], s[1], s[1]}, "bmm(" + tensor.name + ", " + turned + ")");
    } else {
      return;
    }
    const auto last = tensors_.back();
    add(last.sizes, "tanh(" + last.name + ")");
  }

  void add_elementwise(const Tensor& tensor) {
    constexpr const char* kNames[] = {"relu(", "tanh(", "neg(", "sigmoid("};
    const auto other = std::find_if(tensors_.rbegin(), tensors_.rend(), [&](const Tensor& each) {
      return each.sizes == tensor.sizes && each.name != tensor.name;
    });
    if (other != tensors_.rend() && chance(60)) {
      add(tensor.sizes, (chance(60) ? "add.Tensor(" : "mul.Tensor(") + tensor.name + ", " + other->name + ")");
    } else if (tensor.rank() > 0 && chance(25)) {
      add(tensor.sizes, c10::str("_softmax(", tensor.name, ", ", below(tensor.rank()), ", False)"));
    } else {
      add(tensor.sizes, kNames[below(4)] + tensor.name + ")");
    }
  }

  void add_reduction(const Tensor& tensor) {
    if (tensor.rank() == 0) {
      return;
    }
    const auto dim = below(tensor.rank());
    auto sizes = tensor.sizes;
    sizes[dim] = 1;
    constexpr const char* kNames[] = {"sum.dim_IntList(", "mean.dim(", "amax("};
    add(sizes, c10::str(kNames[below(3)], tensor.name, ", [", dim, "], True)"));
  }

  void add_reshape(const Tensor& tensor) {
    if (tensor.rank() < 2) {
      return;
    }
    auto sizes = tensor.sizes;
    const auto dim = below(tensor.rank() - 1);
    if (tensor.rank() > 2 && chance(60)) {
      sizes[dim] *= sizes[dim + 1];
      sizes.erase(sizes.begin() + dim + 1);
    } else if (sizes[dim] % 2 == 0 && tensor.rank() < 4) {
      sizes[dim] /= 2;
      sizes.insert(sizes.begin() + dim, 2);
    } else {
      return;
    }
    add(sizes, "reshape(" + tensor.name + ", [" + c10::Join(", ", sizes) + "])");
  }

  void add_permutation(const Tensor& tensor) {
    if (tensor.rank() < 2) {
      return;
    }
    std::vector<int64_t> order(tensor.rank());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    for (const auto dim : order) {
      sizes.push_back(tensor.sizes[dim]);
      strides.push_back(
          std::accumulate(tensor.sizes.begin() + dim + 1, tensor.sizes.end(), int64_t{1}, std::multiplies<>()));
    }
    const auto turned = call(sizes, "permute(" + tensor.name + ", [" + c10::Join(", ", order) + "])", strides);
    add(sizes, "clone(" + turned + ", memory_format=contiguous_format)");
  }

  void add_join(const Tensor& tensor) {
    if (tensor.rank() == 0) {
      return;
    }
    const auto dim = below(tensor.rank());
    auto sizes = tensor.sizes;
    sizes[dim] *= 2;
    if (sizes[dim] > 16) {
      return;
    }
    add(sizes, c10::str("cat([", tensor.name, ", ", tensor.name, "], ", dim, ")"));
  }

  void add_cut(const Tensor& tensor) {
    if (tensor.rank() == 0) {
      return;
    }
    const auto dim = below(tensor.rank());
    auto sizes = tensor.sizes;
    if (sizes[dim] < 2) {
      return;
    }
    const auto begin = below(sizes[dim] - 1);
    const auto end = begin + 1 + below(sizes[dim] - begin);
    auto strides = sizes;
    for (int64_t d = 0; d < tensor.rank(); ++d) {
      strides[d] = std::accumulate(sizes.begin() + d + 1, sizes.end(), int64_t{1}, std::multiplies<>());
    }
    sizes[dim] = end - begin;
    const auto cut =
        call(sizes, c10::str("slice.Tensor(", tensor.name, ", ", dim, ", ", begin, ", ", end, ")"), strides);
    add(sizes, "clone(" + cut + ", memory_format=contiguous_format)");
  }

  void finish() {
    std::string outputs;
    for (size_t i = 0; i < 2; ++i) {
      const auto& tensor = i == 0 ? tensors_.back() : any_tensor();
      outputs += "output " + tensor.name + " = user\n";
      graph_.options.outputs[i] = any_layout(tensor.rank());
    }
    graph_.text = "program\n" + inputs_ + lines_ + outputs;
    graph_.plan = nn::ParallelPlan(plan_);
    if (mesh_dims_ > 1) {
      graph_.options.mesh_dim = "tp";
    }
  }

  std::mt19937& random_;
  RandomGraph graph_;
  int64_t mesh_dims_ = 1;
  std::vector<nn::ParallelPlan::Entry> plan_;
  std::vector<Tensor> tensors_;
  std::string inputs_;
  std::string lines_;
  int next_ = 0;
  int nodes_ = 0;
  int modules_ = 0;
};

} // namespace

std::string RandomGraph::to_string() const {
  auto result = text + "mesh " + mesh + "\nplan " + plan.to_string() + "\n";
  for (const auto& [name, layout] : options.inputs) {
    result += "input " + name + " " + layout.to_string() + "\n";
  }
  for (const auto& [number, layout] : options.outputs) {
    result += c10::str("output ", number, " ", layout.to_string(), "\n");
  }
  return result;
}

RandomGraph random_graph(std::mt19937& random, int nodes) {
  return Generator(random).run(nodes);
}

} // namespace weft::testing
