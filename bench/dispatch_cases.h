#pragma once

#include "weft/comm/world/fake_world.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/optim/adamw.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace weft::bench {

/// Where the tensors are: WEFT_BENCH_DEVICE, or else the cpu.
inline c10::Device bench_device() {
  const char* name = std::getenv("WEFT_BENCH_DEVICE");
  return c10::Device(name == nullptr ? "cpu" : name);
}

/// A call on plain tensors, and the same call on distributed ones whose local tensors they are.
struct DispatchCase {
  std::string name;
  std::function<at::Tensor()> local;
  std::function<at::Tensor()> distributed;
  bool is_one_call = true; // or else a step of an optimizer
};

/// AdamW as torch.optim writes it with foreach=True, which has no C++ form: one operator for all parameters.
class ForeachAdamW {
 public:
  explicit ForeachAdamW(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
    for (const auto& parameter : parameters_) {
      gradients_.push_back(parameter.grad());
      averages_.push_back(at::zeros_like(parameter));
      squares_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}));
    }
  }

  void step() {
    constexpr double kRate = 1e-3;
    constexpr double kBeta1 = 0.9;
    constexpr double kBeta2 = 0.999;
    constexpr double kDecay = 1e-2;
    const c10::NoGradGuard no_grad;
    at::_foreach_add_(steps_, at::scalar_tensor(1.0), 1.0);
    at::_foreach_mul_(parameters_, 1 - kRate * kDecay);
    at::_foreach_lerp_(averages_, gradients_, 1 - kBeta1);
    at::_foreach_mul_(squares_, kBeta2);
    at::_foreach_addcmul_(squares_, gradients_, gradients_, 1 - kBeta2);
    std::vector<at::Scalar> rates;
    std::vector<at::Scalar> scales;
    for (const auto& step : steps_) {
      const auto count = step.item<double>();
      rates.emplace_back(-kRate / (1 - std::pow(kBeta1, count)));
      scales.emplace_back(std::sqrt(1 - std::pow(kBeta2, count)));
    }
    auto roots = at::_foreach_sqrt(squares_);
    at::_foreach_div_(roots, scales);
    at::_foreach_add_(roots, 1e-8);
    at::_foreach_addcdiv_(parameters_, averages_, roots, rates);
  }

 private:
  std::vector<at::Tensor> parameters_, gradients_, averages_, squares_, steps_;
};

/// One step of AdamW on each of the parameters; returns nothing.
inline std::function<at::Tensor()> adamw_step(std::vector<at::Tensor> parameters, bool foreach) {
  for (auto& parameter : parameters) {
    parameter.set_requires_grad(true);
    parameter.mutable_grad() = at::ones_like(parameter);
  }
  if (foreach) {
    return [optimizer = std::make_shared<ForeachAdamW>(parameters)] {
      optimizer->step();
      return at::Tensor();
    };
  }
  return [optimizer = std::make_shared<torch::optim::AdamW>(parameters)] {
    optimizer->step();
    return at::Tensor();
  };
}

inline DispatchCase adamw_case(const DeviceMesh& mesh, bool foreach) {
  std::vector<at::Tensor> locals;
  std::vector<at::Tensor> distributed;
  for (int i = 0; i < 100; ++i) {
    locals.push_back(at::randn({16, 16}, bench_device()));
    distributed.push_back(from_local(at::randn({16, 16}, bench_device()), mesh, {Shard(0)}));
  }
  return {
      foreach ? "adamw_100_foreach" : "adamw_100", adamw_step(locals, foreach), adamw_step(distributed, foreach),
      /*is_one_call=*/false};
}

/// The cases of the benchmarks 'dispatch' and 'instructions'. bench/peers/dispatch_fake.py has the same in Python.
inline std::vector<DispatchCase> dispatch_cases() {
  const DeviceMesh mesh(make_fake_world(8), bench_device().type(), {8});
  // A local tensor, and the distributed tensor that holds it.
  struct Pair {
    at::Tensor local;
    at::Tensor distributed;
  };
  const auto pair = [&](c10::IntArrayRef sizes, const Placement& placement) {
    const auto local = at::randn(sizes, bench_device());
    return Pair{local, from_local(local, mesh, {placement})};
  };
  const auto local_mask = at::ones({16, 16}, at::TensorOptions(bench_device()).dtype(at::kBool));
  const Pair mask{local_mask, from_local(local_mask, mesh, {Shard(0)})};
  std::vector<DispatchCase> cases;
  const auto add = [&](const char* name, const Pair& a, const Pair& b, auto fn) {
    cases.push_back({name, [=] { return fn(a.local, b.local); }, [=] { return fn(a.distributed, b.distributed); }});
  };
  const auto rows = pair({16, 16}, Shard(0));
  const auto columns = pair({16, 16}, Shard(1));
  const auto full = pair({16, 16}, Replicate());
  const auto batch = pair({2, 8, 16}, Replicate());
  const auto weight = pair({4, 16}, Shard(0));
  using T = const at::Tensor&;
  add("add", rows, rows, [](T a, T b) { return a.add(b); });
  add("add_", rows, rows, [](T a, T b) { return a.add_(b, 0.0); });
  add("mul_scalar", rows, rows, [](T a, T) { return a.mul(2.0); });
  add("relu", rows, rows, [](T a, T) { return a.relu(); });
  add("mm_row", rows, full, [](T a, T b) { return a.mm(b); });
  add("mm_column", full, columns, [](T a, T b) { return a.mm(b); });
  add("linear_3d", batch, weight, [](T a, T b) { return at::linear(a, b); });
  const auto row = pair({16}, Replicate());
  add("mul_broadcast", rows, row, [](T a, T b) { return a.mul(b); });
  add("mul_scalar_", rows, rows, [](T a, T) { return a.mul_(1.0); });
  add("split", rows, rows, [](T a, T) { return a.split(8, 1)[1]; });
  add("cat", rows, rows, [](T a, T b) { return at::cat({a, b}, 1); });
  add("where", rows, rows, [mask](T a, T b) { return at::where(is_dtensor(a) ? mask.distributed : mask.local, a, b); });
  add("log_softmax", rows, rows, [](T a, T) { return a.log_softmax(-1); });
  add("t", rows, rows, [](T a, T) { return a.t(); });
  add("sum_dim", rows, rows, [](T a, T) { return a.sum(1); });
  add("softmax", rows, rows, [](T a, T) { return a.softmax(-1); });
  add("layer_norm", rows, rows, [](T a, T) { return at::layer_norm(a, {16}); });
  add("detach", rows, rows, [](T a, T) { return a.detach(); });
  const auto plain = at::randn({16, 16}, bench_device());
  cases.push_back(
      {"from_local", [=] { return plain.view_as(plain); }, [=] { return from_local(plain, mesh, {Shard(0)}); }});
  cases.push_back(
      {"redistribute", [=] { return rows.local.clone(); },
       [=] { return redistribute(rows.distributed, {Replicate()}); }});
  cases.push_back(adamw_case(mesh, /*foreach=*/false));
  cases.push_back(adamw_case(mesh, /*foreach=*/true));
  return cases;
}

} // namespace weft::bench
