#include "weft/fully_sharded/unit_memory.h"

#include "weft/fully_sharded/first_error.h"
#include "weft/fully_sharded/gradient_reduction.h"

#include <map>
#include <mutex>

namespace weft {

std::shared_ptr<UnitMemory> UnitMemory::of(const DeviceMesh& mesh) {
  // By the world, too: ranks that are threads have one each.
  using Key = std::pair<const World*, std::string>;
  static auto* const mutex = new std::mutex();
  static auto* const all = new std::map<Key, std::weak_ptr<UnitMemory>>();
  const std::lock_guard lock(*mutex);
  std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
  auto& entry = (*all)[{mesh.world().get(), mesh.to_string()}];
  auto memory = entry.lock();
  if (!memory) {
    memory = std::make_shared<UnitMemory>(mesh);
    entry = memory;
  }
  return memory;
}

void UnitMemory::wait_for_reductions() {
  FirstError errors;
  for (const auto& each : std::exchange(reductions_, {})) {
    if (const auto reduction = each.reduction.lock()) {
      errors.run([&] {
        reduction->wait();
        each.finish(*reduction);
      });
    }
  }
  errors.rethrow();
}

} // namespace weft
