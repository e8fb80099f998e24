#include <weft/weft.h>

#include <ATen/ATen.h>

#include <iostream>

int main() {
  using namespace weft;
  run_on_ranks(4, [](int64_t rank) { // threads here; processes under torchrun or mpirun
    auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto rows = TensorSpec::make(mesh, {Shard(0), Replicate()}, {5, 4}, at::kFloat);
    auto columns = rows->with({Replicate(), Shard(1)});
    auto local = at::full(rows->local_shape_and_offset().shape, mesh.rank(0));

    auto moved = redistribute_local(local.to(at::kFloat), rows, columns); // under way
    if (rank == 3) {
      std::cout << draw(*rows) << plan(rows, columns).to_string() << "\n" << draw(*columns) << moved.wait() << "\n";
    }
  });
}
