#include <weft/weft.h>
#include "weft/tensor/distribute.h"
#include <ATen/ATen.h>
#include <iostream>
using namespace weft;
int main() {
  auto w1 = at::randn({16, 8}), w2 = at::randn({8, 16}), x = at::randn({4, 6, 8}), b1 = at::randn({16});
  auto model = [](const at::Tensor& in, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    return at::linear(at::relu(at::linear(in, a, c)), b);
  };
  auto rw1 = w1.clone().set_requires_grad(true), rw2 = w2.clone().set_requires_grad(true), rb1 = b1.clone().set_requires_grad(true);
  auto ref = model(x, rw1, rw2, rb1);
  ref.pow(2).sum().backward();
  run_on_ranks(4, [&](int64_t rank) {
    auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto dw1 = distribute_tensor(w1, mesh, {Replicate(), Shard(0)}).set_requires_grad(true);
    auto db1 = distribute_tensor(b1, mesh, {Replicate(), Shard(0)}).set_requires_grad(true);
    auto dw2 = distribute_tensor(w2, mesh, {Replicate(), Shard(1)}).set_requires_grad(true);
    auto dx = distribute_tensor(x, mesh, {Shard(0), Shard(1)});
    CommLog log(mesh);
    auto out = model(dx, dw1, dw2, db1);
    if (rank == 0) std::cout << *spec_of(out) << "\n" << log.to_string();
    auto loss = out.pow(2).sum();
    loss.backward();
    if (rank == 0) std::cout << *spec_of(loss) << *spec_of(dw1.grad()) << *spec_of(dw2.grad()) << "\n" << log.to_string();
    auto ok = full_tensor(out).allclose(ref, 1e-4, 1e-4);
    auto g1 = full_tensor(dw1.grad()).allclose(rw1.grad(), 1e-3, 1e-3), g2 = full_tensor(dw2.grad()).allclose(rw2.grad(), 1e-3, 1e-3), g3 = full_tensor(db1.grad()).allclose(rb1.grad(), 1e-3, 1e-3);
    if (rank == 0) std::cout << ok << g1 << g2 << g3 << "\n";
  });
}
