#include "weft/core/tensor_spec.h"

#include "weft/core/dense_strides.h"
#include "weft/core/dtype_text.h"
#include "weft/core/layout_algebra.h"
#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <mutex>
#include <numeric>
#include <ostream>
#include <unordered_map>

namespace weft {

/// Interned specs by hash, as weak references: a spec removes itself when its last owner releases it.
class InternTable {
 public:
  static InternTable& instance() {
    // Never destroyed, because specs in static or thread-local storage may outlive any static table.
    static auto* table = new InternTable();
    return *table;
  }

  SpecPtr find_or_add(SpecPtr candidate) {
    // Released after the lock: releasing the last reference to a spec locks the mutex again.
    c10::SmallVector<SpecPtr, 2> looked_at;
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = specs_.equal_range(candidate->hash_);
    for (auto it = begin; it != end; ++it) {
      auto found = it->second.spec.lock();
      if (found && found->same_as(*candidate)) {
        ++hits_;
        return found;
      }
      looked_at.push_back(std::move(found));
    }
    ++misses_;
    specs_.emplace(candidate->hash_, Entry{candidate.get(), c10::weak_intrusive_ptr<TensorSpec>(candidate)});
    return candidate;
  }

  void remove(const TensorSpec* spec) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = specs_.equal_range(spec->hash_);
    for (auto it = begin; it != end; ++it) {
      if (it->second.address == spec) {
        specs_.erase(it);
        return;
      }
    }
  }

  TensorSpec::InternCounters counters() {
    const std::lock_guard lock(mutex_);
    return {specs_.size(), hits_, misses_};
  }

 private:
  struct Entry {
    const TensorSpec* address;
    c10::weak_intrusive_ptr<TensorSpec> spec;
  };

  std::mutex mutex_;
  std::unordered_multimap<size_t, Entry> specs_;
  size_t hits_ = 0;
  size_t misses_ = 0;
};

namespace {

void check_partials(const Layout& layout, c10::ScalarType dtype) {
  for (const auto& placement : layout.placements()) {
    TORCH_CHECK_TYPE(
        !placement.is_partial() || placement.reduce_op() != ReduceOp::Avg || c10::isFloatingType(dtype) ||
            c10::isComplexType(dtype),
        "[TensorSpec] P(avg) requires a floating or complex dtype, but got ", dtype_text(dtype), " (", layout,
        "). Use P(sum), or convert the tensor first.");
  }
  TORCH_CHECK_VALUE(
      partials_commute(layout),
      "[TensorSpec] partial values on different mesh dims must be reducible in any order, but got ", layout,
      ". Reduce one of them first.");
}

std::string dims_text(c10::IntArrayRef values) {
  std::string text;
  for (const auto value : values) {
    text += (text.empty() ? "" : ",") + std::to_string(value);
  }
  return text;
}

} // namespace

TensorSpec::TensorSpec(
    DeviceMesh mesh,
    Layout layout,
    c10::IntArrayRef sizes,
    c10::IntArrayRef strides,
    c10::ScalarType dtype)
    : mesh_(std::move(mesh)),
      layout_(std::move(layout)),
      sizes_(sizes),
      strides_(strides),
      dtype_(dtype),
      hash_(c10::get_hash(mesh_.hash(), layout_.hash(), sizes, strides, static_cast<int>(dtype))) {}

void TensorSpec::release_resources() {
  InternTable::instance().remove(this);
}

bool TensorSpec::same_as(const TensorSpec& other) const {
  return dtype_ == other.dtype_ && sizes_ == other.sizes_ && strides_ == other.strides_ && layout_ == other.layout_ &&
      mesh_ == other.mesh_;
}

SpecPtr TensorSpec::make(const DeviceMesh& mesh, const Layout& layout, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return make(mesh, layout, sizes, dense_strides(sizes), dtype);
}

SpecPtr TensorSpec::make(
    const DeviceMesh& mesh,
    const Layout& layout,
    c10::IntArrayRef sizes,
    c10::IntArrayRef strides,
    c10::ScalarType dtype) {
  TORCH_CHECK_VALUE(mesh.defined(), "[TensorSpec] a mesh is required, but got none. Make one with init_device_mesh.");
  TORCH_CHECK_VALUE(
      layout.ndim() == mesh.ndim(), "[TensorSpec] one placement per mesh dim is required, but got ", layout.ndim(),
      " placements ", layout, " for ", mesh, ".");
  TORCH_CHECK_VALUE(
      std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; }),
      "[TensorSpec] sizes must not be negative, but got [", dims_text(sizes), "].");
  TORCH_CHECK_VALUE(
      strides.size() == sizes.size(), "[TensorSpec] one stride per tensor dim is required, but got ", strides.size(),
      " strides for ", sizes.size(), " dims.");
  dtype_text(dtype);
  auto normalized = layout.normalized(static_cast<int64_t>(sizes.size()));
  check_partials(normalized, dtype);
  return InternTable::instance().find_or_add(
      SpecPtr::unsafe_steal_from_new(new TensorSpec(mesh, std::move(normalized), sizes, strides, dtype)));
}

int64_t TensorSpec::numel() const {
  return std::accumulate(sizes_.begin(), sizes_.end(), int64_t{1}, std::multiplies<>());
}

bool TensorSpec::is_contiguous() const {
  int64_t expected = 1;
  for (auto d = dim() - 1; d >= 0; --d) {
    if (sizes_[d] == 0) {
      return true;
    }
    if (sizes_[d] != 1 && strides_[d] != expected) {
      return false;
    }
    expected *= sizes_[d];
  }
  return true;
}

LocalBlock TensorSpec::local_shape_and_offset() const {
  if (!mesh_.is_member()) {
    return {c10::DimVector(sizes_.empty() ? 0 : 1, 0), c10::DimVector(sizes_.size(), 0)};
  }
  return weft::local_shape_and_offset(sizes_, layout_, mesh_.shape(), mesh_.coordinate());
}

SpecPtr TensorSpec::with(const Layout& layout) const {
  return make(mesh_, layout, sizes_, strides_, dtype_);
}

std::string TensorSpec::to_string() const {
  auto text = std::string(dtype_text(dtype_)) + "[" + dims_text(sizes_);
  if (strides_ != dense_strides(sizes_)) {
    text += "|" + dims_text(strides_);
  }
  return text + "] @ " + mesh_.to_string() + " " + layout_.to_string();
}

SpecPtr TensorSpec::parse(std::string_view text, const WorldPtr& world) {
  TextCursor cursor("TensorSpec::parse", text);
  const auto dtype = parse_dtype(cursor.word());
  cursor.expect("[");
  const auto sizes = cursor.integers();
  const bool has_strides = cursor.accept("|");
  const auto strides = has_strides ? c10::DimVector(cursor.integers()) : dense_strides(sizes);
  cursor.expect("]");
  cursor.expect("@");
  const auto mesh = DeviceMesh::parse(cursor, world);
  const auto layout = Layout::parse(cursor);
  cursor.expect_end();
  return make(mesh, layout, sizes, strides, dtype);
}

TensorSpec::InternCounters TensorSpec::intern_counters() {
  return InternTable::instance().counters();
}

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) {
  return out << spec.to_string();
}

} // namespace weft
