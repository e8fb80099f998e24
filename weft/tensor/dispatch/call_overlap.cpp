#include "weft/tensor/dispatch/call_overlap.h"

#include "weft/comm/world/fake_world.h"
#include "weft/core/dtype_text.h"
#include "weft/overlap/measure/compute_rate.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/tensor/impl/explain.h"

namespace weft {

namespace {

bool is_forced() {
  return Scopes::of_thread().overlap == OverlapMode::Force;
}

/// Adds an entry for the measurement to this thread's ExplainLog, because the user called another operator.
void explain_measurement(const DeviceMesh& mesh, c10::ScalarType dtype, const MeshRates& rates) {
  const auto& explain = Scopes::of_thread().explain;
  if (explain == nullptr) {
    return;
  }
  auto explanation = std::make_shared<Explanation>();
  explanation->op = "measure_rates";
  explanation->inputs = {mesh.to_string(), std::string(dtype_text(dtype))};
  explanation->strategy = rates.to_string();
  explanation->why =
      "the first matmul that is large enough to overlap measures for its mesh and dtype; measure_rates(mesh) does so "
      "before";
  explain->add(std::move(explanation));
}

} // namespace

CallOverlap::CallOverlap(SpecPtr spec, int64_t mesh_dim, const OverlapCase& overlap, Choose* choose)
    : spec_(std::move(spec)),
      mesh_dim_(mesh_dim),
      overlap_(overlap),
      choose_(choose),
      never_pays_(too_small_to_overlap(overlap) || is_fake(*spec_->mesh().world())) {
  const auto& mesh = spec_->mesh();
  forced_chunks_ =
      choose_overlap(
          overlap_, LinkModel::for_mesh(mesh).links[mesh_dim_], assumed_compute(mesh.device_type(), spec_->dtype()))
          .chunks;
}

bool CallOverlap::is_on() {
  switch (Scopes::of_thread().overlap) {
    case OverlapMode::Off:
      return false;
    case OverlapMode::Force:
      return true;
    case OverlapMode::Auto:
      if (never_pays_) {
        return false;
      }
      if (C10_UNLIKELY(!choice_ || version_ != rates_version())) {
        decide();
      }
      return choice_->fuse;
  }
  TORCH_INTERNAL_ASSERT(false);
}

int64_t CallOverlap::chunks() const {
  return is_forced() ? forced_chunks_ : choice_->chunks;
}

std::string CallOverlap::reason() const {
  return is_forced() ? "as the scope says" : choice_->reason;
}

void CallOverlap::decide() {
  version_ = rates_version(); // before the rates are read: if they change meanwhile, the next call decides again
  const auto& mesh = spec_->mesh();
  auto rates = agreed_rates(mesh, spec_->dtype());
  if (!rates) {
    rates = measure_rates(mesh, spec_->dtype());
    explain_measurement(mesh, spec_->dtype(), *rates);
  }
  choice_ = choose_(overlap_, rates->link({mesh_dim_}), rates->compute);
}

} // namespace weft
