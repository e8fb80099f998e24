#include "tests/integration/random_program_ops.h"

#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/inspect.h"

namespace weft::testing {

namespace {

using Ints = std::vector<int64_t>;
using Step = std::optional<ProgramStep>;

Step takes_any(Dice& /*dice*/, const Tensors& /*values*/, size_t first) {
  return ProgramStep{0, {first}, {}};
}

/// A dim.
Step takes_dim(Dice& dice, const Tensors& values, size_t first) {
  const auto rank = values[first].dim();
  return rank == 0 ? Step() : Step({0, {first}, {dice.below(rank)}});
}

/// A dim of at least two elements.
Step takes_long_dim(Dice& dice, const Tensors& values, size_t first) {
  const auto step = takes_dim(dice, values, first);
  return step && values[first].size(step->numbers[0]) > 1 ? step : Step();
}

Step takes_two_dims(Dice& dice, const Tensors& values, size_t first) {
  const auto rank = values[first].dim();
  return rank < 2 ? Step() : Step({0, {first}, {dice.below(rank), dice.below(rank)}});
}

/// A dim and an element of it.
Step takes_position(Dice& dice, const Tensors& values, size_t first) {
  auto step = takes_dim(dice, values, first);
  if (step) {
    step->numbers.push_back(dice.below(values[first].size(step->numbers[0])));
  }
  return step;
}

/// A dim, where to begin and end in it, and how far to step.
Step takes_slice(Dice& dice, const Tensors& values, size_t first) {
  auto step = takes_dim(dice, values, first);
  if (step) {
    const auto size = values[first].size(step->numbers[0]);
    const auto begin = dice.below(size);
    step->numbers.insert(step->numbers.end(), {begin, begin + 1 + dice.below(size - begin), 1 + dice.below(2)});
  }
  return step;
}

bool broadcasts(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 1; d <= std::min(a.dim(), b.dim()); ++d) {
    if (a.size(-d) != b.size(-d) && a.size(-d) != 1 && b.size(-d) != 1) {
      return false;
    }
  }
  return true;
}

bool expands_to(const at::Tensor& from, const at::Tensor& to) {
  return from.dim() <= to.dim() && broadcasts(from, to) && at::infer_size(from.sizes(), to.sizes()) == to.sizes();
}

using Fits = std::function<bool(const at::Tensor& first, const at::Tensor& other)>;

/// `count` further operands, each of which fits the first.
std::function<Step(Dice&, const Tensors&, size_t)> takes_others(size_t count, Fits fits) {
  return [count, fits = std::move(fits)](Dice& dice, const Tensors& values, size_t first) -> Step {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < values.size(); ++i) {
      if (fits(values[first], values[i])) {
        fitting.push_back(i);
      }
    }
    if (fitting.empty()) {
      return std::nullopt;
    }
    ProgramStep step{0, {first}, {}};
    for (size_t k = 0; k < count; ++k) {
      step.operands.push_back(fitting[dice.below(static_cast<int64_t>(fitting.size()))]);
    }
    return step;
  };
}

/// Tensors to be put together along a dim: the same in the others.
Step takes_cat(Dice& dice, const Tensors& values, size_t first) {
  const auto along = takes_dim(dice, values, first);
  if (!along) {
    return std::nullopt;
  }
  const auto dim = along->numbers[0];
  auto step = takes_others(1 + static_cast<size_t>(dice.below(2)), [dim](const at::Tensor& a, const at::Tensor& b) {
    if (a.dim() != b.dim()) {
      return false;
    }
    for (int64_t d = 0; d < a.dim(); ++d) {
      if (d != dim && a.size(d) != b.size(d)) {
        return false;
      }
    }
    return true;
  })(dice, values, first);
  step->numbers = {dim};
  return step;
}

/// Another shape of as many elements: dims merged or split at random.
Step takes_shape(Dice& dice, const Tensors& values, size_t first) {
  auto rest = values[first].numel();
  Ints shape;
  for (const int64_t prime : {2, 3, 5, 7}) {
    while (rest > 1 && rest % prime == 0) {
      rest /= prime;
      if (shape.empty() || dice.coin()) {
        shape.insert(shape.begin() + dice.below(static_cast<int64_t>(shape.size()) + 1), prime);
      } else {
        shape[dice.below(static_cast<int64_t>(shape.size()))] *= prime;
      }
    }
  }
  return rest == 1 && shape.size() < 6 ? Step({0, {first}, shape}) : Step();
}

Step takes_merge(Dice& dice, const Tensors& values, size_t first) {
  const auto rank = values[first].dim();
  return rank < 2 ? Step() : Step({0, {first}, {dice.below(rank - 1)}});
}

/// A placement per mesh dim, for up to two: -1 is R, d is S(d).
Step takes_placements(Dice& dice, const Tensors& values, size_t first) {
  const auto rank = values[first].dim();
  return Step({0, {first}, {dice.below(rank + 1) - 1, dice.below(rank + 1) - 1}});
}

at::Tensor redistributed(const at::Tensor& tensor, const Ints& dims) {
  if (!is_dtensor(tensor)) {
    return tensor.clone();
  }
  Placements placements;
  for (int64_t m = 0; m < mesh_of(tensor).ndim(); ++m) {
    placements.push_back(dims[m] < 0 ? Replicate() : Shard(dims[m]));
  }
  return redistribute(tensor, Layout(placements)).clone();
}

/// Constants are such that values do not hit the place where a function or its derivative jumps.
void add_pointwise(std::vector<ProgramOp>& ops) {
  const auto unary = [&](const char* name, at::Tensor (*call)(const at::Tensor&)) {
    ops.push_back({name, takes_any, [call](const Tensors& t, const Ints&) { return call(t[0]); }});
  };
  unary("neg", [](const at::Tensor& x) { return x.neg(); });
  unary("tanh", [](const at::Tensor& x) { return x.tanh(); });
  unary("sigmoid", [](const at::Tensor& x) { return x.sigmoid(); });
  unary("exp", [](const at::Tensor& x) { return x.exp(); });
  unary("sin", [](const at::Tensor& x) { return x.sin(); });
  unary("square", [](const at::Tensor& x) { return x.square(); });
  unary("gelu", [](const at::Tensor& x) { return at::gelu(x); });
  unary("silu", [](const at::Tensor& x) { return at::silu(x); });
  unary("relu(x - 0.0137)", [](const at::Tensor& x) { return x.sub(0.0137).relu(); });
  unary("abs(x + 0.0137)", [](const at::Tensor& x) { return x.add(0.0137).abs(); });
  unary("clamp(-0.717, 1.31)", [](const at::Tensor& x) { return x.clamp(-0.717, 1.31); });
  unary("add 0.75", [](const at::Tensor& x) { return x + 0.75; });
  unary("mul -1.5", [](const at::Tensor& x) { return x * -1.5; });
  unary("div 3", [](const at::Tensor& x) { return x / 3; });
  unary("0.3 - x", [](const at::Tensor& x) { return 0.3 - x; });
  unary("pow 3", [](const at::Tensor& x) { return x.pow(3); });
  unary("sqrt(x^2 + 1)", [](const at::Tensor& x) { return (x * x + 1).sqrt(); });
  unary("x > 0.1234", [](const at::Tensor& x) { return x.gt(0.1234).to(at::kDouble); });
  unary("where(x > 0.1234, x, -2)", [](const at::Tensor& x) { return at::where(x.gt(0.1234), x, -2.0); });
  unary("as f32", [](const at::Tensor& x) { return x.to(at::kFloat).to(at::kDouble); });
  ops.back().is_rough = true;
  unary("as i64", [](const at::Tensor& x) { return (x * 3.137).to(at::kLong).to(at::kDouble); });
  unary("clone", [](const at::Tensor& x) { return x.clone(); });
  unary("detach", [](const at::Tensor& x) { return x.detach(); });
  unary("ones_like", [](const at::Tensor& x) { return at::ones_like(x); });

  const auto binary = [&](const char* name, at::Tensor (*call)(const at::Tensor&, const at::Tensor&)) {
    ops.push_back(
        {name, takes_others(1, broadcasts), [call](const Tensors& t, const Ints&) { return call(t[0], t[1]); }});
  };
  binary("add", [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
  binary("add alpha=2", [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b, 2); });
  binary("sub", [](const at::Tensor& a, const at::Tensor& b) { return a - b; });
  binary("mul", [](const at::Tensor& a, const at::Tensor& b) { return a * b; });
  binary("div(b^2 + 1)", [](const at::Tensor& a, const at::Tensor& b) { return a / (b * b + 1); });
  binary("where(a > 0.1234, a, b)", [](const at::Tensor& a, const at::Tensor& b) {
    return at::where(a.gt(0.1234), a, b);
  });
  binary("lerp 0.3", [](const at::Tensor& a, const at::Tensor& b) {
    return at::lerp(a.expand(at::infer_size(a.sizes(), b.sizes())), b, 0.3);
  });
  binary("maximum", [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); });
  ops.back().has_gradient = false;
  ops.push_back(
      {"addcmul", takes_others(2, [](const auto& a, const auto& b) { return expands_to(b, a); }),
       [](const Tensors& t, const Ints&) { return at::addcmul(t[0], t[1], t[2], 0.5); }});
}

void add_contractions(std::vector<ProgramOp>& ops) {
  ops.push_back(
      {"matmul",
       takes_others(
           1,
           [](const at::Tensor& a, const at::Tensor& b) {
             return a.dim() > 0 && b.dim() == 2 && b.size(0) == a.size(-1);
           }),
       [](const Tensors& t, const Ints&) { return at::matmul(t[0], t[1]); }});
  ops.push_back(
      {"linear",
       takes_others(
           1,
           [](const at::Tensor& a, const at::Tensor& b) {
             return a.dim() > 0 && b.dim() == 2 && b.size(1) == a.size(-1);
           }),
       [](const Tensors& t, const Ints&) { return at::linear(t[0], t[1]); }});
  ops.push_back(
      {"matmul with its transpose",
       [](Dice&, const Tensors& values, size_t first) {
         return values[first].dim() < 2 ? Step() : Step({0, {first}, {}});
       },
       [](const Tensors& t, const Ints&) { return at::matmul(t[0], t[0].transpose(-1, -2)); }});
  ops.push_back(
      {"addmm(x @ x.T, x, x.T)",
       [](Dice&, const Tensors& values, size_t first) {
         return values[first].dim() != 2 ? Step() : Step({0, {first}, {}});
       },
       [](const Tensors& t, const Ints&) { return at::addmm(at::mm(t[0], t[0].t()), t[0], t[0].t(), 0.5, -0.25); }});
}

void add_reductions(std::vector<ProgramOp>& ops) {
  const auto along = [&](const char* name, at::Tensor (*call)(const at::Tensor&, int64_t)) {
    ops.push_back({name, takes_dim, [call](const Tensors& t, const Ints& n) { return call(t[0], n[0]); }});
  };
  along("sum", [](const at::Tensor& x, int64_t d) { return x.sum(d); });
  along("sum keepdim", [](const at::Tensor& x, int64_t d) { return x.sum(d, /*keepdim=*/true); });
  along("mean", [](const at::Tensor& x, int64_t d) { return x.mean(d); });
  along("mean keepdim", [](const at::Tensor& x, int64_t d) { return x.mean(d, /*keepdim=*/true); });
  along("prod", [](const at::Tensor& x, int64_t d) { return x.prod(d); });
  along("logsumexp", [](const at::Tensor& x, int64_t d) { return x.logsumexp(d); });
  along("softmax", [](const at::Tensor& x, int64_t d) { return x.softmax(d); });
  along("log_softmax", [](const at::Tensor& x, int64_t d) { return x.log_softmax(d); });
  along("cumsum", [](const at::Tensor& x, int64_t d) { return x.cumsum(d); });
  along("flip", [](const at::Tensor& x, int64_t d) { return x.flip(d); });
  along("amax", [](const at::Tensor& x, int64_t d) { return x.amax(d); });
  ops.back().has_gradient = false;
  along("amin keepdim", [](const at::Tensor& x, int64_t d) { return x.amin(d, /*keepdim=*/true); });
  ops.back().has_gradient = false;
  ops.push_back({"var", takes_long_dim, [](const Tensors& t, const Ints& n) { return t[0].var(n); }});
  ops.push_back({"norm(x^2 + 1)", takes_dim, [](const Tensors& t, const Ints& n) {
                   return at::linalg_vector_norm(t[0] * t[0] + 1, 2, n);
                 }});
  ops.push_back({"sum of all", takes_any, [](const Tensors& t, const Ints&) { return t[0].sum(); }});
  ops.push_back({"mean of all", takes_any, [](const Tensors& t, const Ints&) { return t[0].mean(); }});
  ops.push_back(
      {"layer_norm",
       [](Dice&, const Tensors& values, size_t first) {
         return values[first].dim() == 0 ? Step() : Step({0, {first}, {}});
       },
       [](const Tensors& t, const Ints&) { return at::layer_norm(t[0], {t[0].size(-1)}, {}, {}, /*eps=*/0.1); }});
}

void add_views(std::vector<ProgramOp>& ops) {
  ops.push_back(
      {"transpose", takes_two_dims, [](const Tensors& t, const Ints& n) { return t[0].transpose(n[0], n[1]); }});
  ops.push_back(
      {"permute to the front", takes_dim, [](const Tensors& t, const Ints& n) { return t[0].movedim(n[0], 0); }});
  ops.push_back({"reshape", takes_shape, [](const Tensors& t, const Ints& n) { return t[0].reshape(n); }});
  ops.push_back({"flatten", takes_merge, [](const Tensors& t, const Ints& n) { return t[0].flatten(n[0], n[0] + 1); }});
  ops.push_back(
      {"view as one dim",
       [](Dice&, const Tensors& values, size_t first) {
         return values[first].is_contiguous() ? Step({0, {first}, {}}) : Step();
       },
       [](const Tensors& t, const Ints&) { return t[0].view(-1); }});
  ops.push_back({"unsqueeze", takes_dim, [](const Tensors& t, const Ints& n) { return t[0].unsqueeze(n[0]); }});
  ops.push_back({"squeeze", takes_any, [](const Tensors& t, const Ints&) { return t[0].squeeze(); }});
  ops.push_back({"expand by 3", takes_any, [](const Tensors& t, const Ints&) {
                   auto shape = t[0].sizes().vec();
                   shape.insert(shape.begin(), 3);
                   return t[0].expand(shape);
                 }});
  ops.push_back({"select", takes_position, [](const Tensors& t, const Ints& n) { return t[0].select(n[0], n[1]); }});
  ops.push_back(
      {"slice", takes_slice, [](const Tensors& t, const Ints& n) { return t[0].slice(n[0], n[1], n[2], n[3]); }});
  ops.push_back(
      {"first of split by 2", takes_dim, [](const Tensors& t, const Ints& n) { return t[0].split(2, n[0])[0]; }});
  ops.push_back(
      {"last of 2 chunks", takes_dim, [](const Tensors& t, const Ints& n) { return t[0].chunk(2, n[0]).back(); }});
  ops.push_back({"cat", takes_cat, [](const Tensors& t, const Ints& n) { return at::cat(t, n[0]); }});
  ops.push_back(
      {"stack", takes_others(1, [](const auto& a, const auto& b) { return a.sizes() == b.sizes(); }),
       [](const Tensors& t, const Ints&) { return at::stack(t); }});
  ops.push_back(
      {"redistribute", takes_placements, [](const Tensors& t, const Ints& n) { return redistributed(t[0], n); }});
}

void add_in_place(std::vector<ProgramOp>& ops) {
  const auto add = [&](const char* name, auto propose, auto run) {
    ops.push_back({name, propose, run, /*is_in_place=*/true});
  };
  const auto other = takes_others(1, [](const auto& a, const auto& b) { return expands_to(b, a); });
  add("mul_ 0.5", takes_any, [](const Tensors& t, const Ints&) { return t[0].mul_(0.5); });
  add("add_ 1", takes_any, [](const Tensors& t, const Ints&) { return t[0].add_(1); });
  add("tanh_", takes_any, [](const Tensors& t, const Ints&) { return t[0].tanh_(); });
  add("zero_", takes_any, [](const Tensors& t, const Ints&) { return t[0].zero_(); });
  add("add_", other, [](const Tensors& t, const Ints&) { return t[0].add_(t[1]); });
  add("mul_", other, [](const Tensors& t, const Ints&) { return t[0].mul_(t[1]); });
  add("copy_", other, [](const Tensors& t, const Ints&) { return t[0].copy_(t[1]); });
  const auto write = [&](const char* name, auto propose, auto run) {
    add(name, propose, [run](const Tensors& t, const Ints& n) {
      run(t[0], n);
      return t[0];
    });
  };
  write("select.fill_ 0.25", takes_position, [](const at::Tensor& x, const Ints& n) {
    x.select(n[0], n[1]).fill_(0.25);
  });
  write("select.add_ 0.5", takes_position, [](const at::Tensor& x, const Ints& n) { x.select(n[0], n[1]).add_(0.5); });
  write("slice.mul_ -1", takes_slice, [](const at::Tensor& x, const Ints& n) {
    x.slice(n[0], n[1], n[2], n[3]).mul_(-1);
  });
  write("transpose.tanh_", takes_two_dims, [](const at::Tensor& x, const Ints& n) { x.transpose(n[0], n[1]).tanh_(); });
  write("unsqueeze.add_ 0.5", takes_dim, [](const at::Tensor& x, const Ints& n) { x.unsqueeze(n[0]).add_(0.5); });
}

} // namespace

const std::vector<ProgramOp>& program_ops() {
  static const auto* ops = [] {
    auto* all = new std::vector<ProgramOp>();
    add_pointwise(*all);
    add_contractions(*all);
    add_reductions(*all);
    add_views(*all);
    add_in_place(*all);
    return all;
  }();
  return *ops;
}

} // namespace weft::testing
