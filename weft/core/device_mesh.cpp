#include "weft/core/device_mesh.h"

#include "weft/core/text_cursor.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <c10/util/hash.h>

#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <ostream>
#include <unordered_set>

namespace weft {

std::vector<int64_t> coordinate_at(int64_t index, c10::IntArrayRef mesh_shape) {
  std::vector<int64_t> coordinate(mesh_shape.size());
  for (auto m = static_cast<int64_t>(mesh_shape.size()) - 1; m >= 0; --m) {
    coordinate[m] = index % mesh_shape[m];
    index /= mesh_shape[m];
  }
  return coordinate;
}

namespace {

// More ranks than any machine has. The limit keeps sizes from overflowing and the array of ranks in memory.
constexpr int64_t kMaxRanks = int64_t{1} << 24;

// One world for all meshes that are parsed without a world, so that two parses of the same text give equal meshes.
const WorldPtr& planning_world() {
  static const auto world = c10::make_intrusive<World>(0, std::numeric_limits<int64_t>::max());
  return world;
}

std::vector<int64_t> first_ranks(int64_t count) {
  std::vector<int64_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string join(const auto& values, std::string_view separator) {
  std::string text;
  for (const auto& value : values) {
    text += (text.empty() ? "" : std::string(separator)) + c10::str(value);
  }
  return text;
}

/// The number of ranks in a mesh of this shape; raises if there is no such mesh.
int64_t checked_size(c10::IntArrayRef shape) {
  TORCH_CHECK_VALUE(
      !shape.empty() && static_cast<int64_t>(shape.size()) <= kMaxMeshDims, "[DeviceMesh] a mesh has 1 to ",
      kMaxMeshDims, " dims, but got shape ", shape, ".");
  int64_t count = 1;
  for (const auto size : shape) {
    TORCH_CHECK_VALUE(size > 0, "[DeviceMesh] every mesh dim needs at least one rank, but got shape ", shape, ".");
    TORCH_CHECK_VALUE(
        size <= kMaxRanks / count, "[DeviceMesh] a mesh has at most ", kMaxRanks, " ranks, but got shape ", shape, ".");
    count *= size;
  }
  return count;
}

void check_ranks(c10::IntArrayRef ranks, c10::IntArrayRef shape, int64_t world_size) {
  const auto count = checked_size(shape);
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(ranks.size()) == count, "[DeviceMesh] shape ", shape, " needs ", count, " ranks, but got ",
      ranks.size(), ".");
  std::unordered_set<int64_t> seen;
  for (const auto rank : ranks) {
    TORCH_CHECK_VALUE(
        rank >= 0 && rank < world_size, "[DeviceMesh] a mesh of shape ", shape, " needs ranks below the world size ",
        world_size, ", but got rank ", rank, ". Start more ranks or make the mesh smaller.");
    TORCH_CHECK_VALUE(
        seen.insert(rank).second, "[DeviceMesh] a rank may occur only once in a mesh, but got ", rank, " twice.");
  }
}

std::vector<std::string> checked_names(std::vector<std::string> names, size_t ndim) {
  if (names.empty()) {
    for (size_t m = 0; m < ndim; ++m) {
      names.push_back("d" + std::to_string(m));
    }
  }
  TORCH_CHECK_VALUE(
      names.size() == ndim, "[DeviceMesh] one name per mesh dim is required, but got ", names.size(), " names (",
      join(names, ","), ") for ", ndim, " dims.");
  std::unordered_set<std::string> seen;
  for (const auto& name : names) {
    TORCH_CHECK_VALUE(
        seen.insert(name).second, "[DeviceMesh] the names of mesh dims must differ, but got '", name, "' twice.");
  }
  return names;
}

bool is_word(std::string_view name) {
  return !name.empty() &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// A name as it stands in the text of a mesh: words as they are, others quoted, with a backslash before quotes and
/// backslashes.
std::string name_text(const std::string& name) {
  if (is_word(name)) {
    return name;
  }
  std::string text = "\"";
  for (const char c : name) {
    text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  }
  return text + "\"";
}

std::string parse_name(TextCursor& cursor) {
  const auto rest = cursor.rest();
  if (!rest.starts_with('"')) {
    return std::string(cursor.word());
  }
  std::string name;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      cursor.skip(i + 1);
      return name;
    }
    i += rest[i] == '\\' && i + 1 < rest.size() ? 1 : 0;
    name += rest[i];
  }
  cursor.fail("a name that ends with a quote");
}

std::vector<int64_t> coordinate_of(int64_t rank, c10::IntArrayRef ranks, c10::IntArrayRef shape) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? std::vector<int64_t>() : coordinate_at(found - ranks.begin(), shape);
}

c10::DeviceType parse_device_type(const std::string& text) {
  try {
    return c10::Device(text).type();
  } catch (const c10::Error&) {
    TORCH_CHECK_VALUE(
        false, "[DeviceMesh::parse] a device type or ranks=... is required after ';', but got '", text,
        "'. Use for example cuda.");
  }
}

/// The set of mesh dims as a bit mask.
uint32_t bits_of(c10::IntArrayRef mesh_dims) {
  uint32_t bits = 0;
  for (const auto m : mesh_dims) {
    bits |= uint32_t{1} << m;
  }
  return bits;
}

} // namespace

struct DeviceMesh::Kept {
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<void>> values; // by the bit mask of the mesh dims
};

DeviceMesh::DeviceMesh(
    WorldPtr world,
    c10::DeviceType device_type,
    c10::IntArrayRef shape,
    std::vector<std::string> names)
    : DeviceMesh(std::move(world), device_type, shape, first_ranks(checked_size(shape)), std::move(names)) {}

DeviceMesh::DeviceMesh(
    WorldPtr world,
    c10::DeviceType device_type,
    c10::IntArrayRef shape,
    c10::IntArrayRef ranks,
    std::vector<std::string> names) {
  if (!world) {
    world = planning_world();
  }
  check_ranks(ranks, shape, world->size());
  Data data{
      .world = std::move(world),
      .device_type = device_type,
      .shape = shape.vec(),
      .ranks = ranks.vec(),
      .names = checked_names(std::move(names), shape.size()),
      .coordinate = {},
      .hash = 0,
      .kept = std::make_shared<Kept>()};
  data.coordinate = coordinate_of(data.world->rank(), ranks, shape);
  data.hash =
      c10::get_hash(data.world.get(), static_cast<int>(device_type), data.shape, data.ranks, join(data.names, ","));
  data_ = std::make_shared<const Data>(std::move(data));
}

c10::IntArrayRef DeviceMesh::coordinate() const {
  TORCH_CHECK_VALUE(
      is_member(), "[DeviceMesh] only ranks of the mesh can compute on it, but rank ", world()->rank(), " is not in ",
      to_string(), ". Guard the computation with mesh.is_member().");
  return data_->coordinate;
}

int64_t DeviceMesh::dim(std::string_view name) const {
  const auto found = std::find(names().begin(), names().end(), name);
  TORCH_CHECK_VALUE(
      found != names().end(), "[DeviceMesh] a mesh dim of ", to_string(), " is required, but got '", name,
      "'. Use one of ", join(names(), ", "), ".");
  return found - names().begin();
}

MeshDims DeviceMesh::dims(c10::ArrayRef<std::string> names) const {
  MeshDims result;
  for (const auto& name : names) {
    const auto index = dim(name);
    TORCH_CHECK_VALUE(
        std::find(result.begin(), result.end(), index) == result.end(),
        "[DeviceMesh] each mesh dim may be named once, but got '", name, "' twice.");
    result.push_back(index);
  }
  TORCH_CHECK_VALUE(!result.empty(), "[DeviceMesh] at least one mesh dim of ", to_string(), " must be named.");
  return result;
}

std::vector<int64_t> DeviceMesh::ranks_spanned(c10::IntArrayRef mesh_dims, c10::IntArrayRef start) const {
  std::vector<int64_t> strides(ndim(), 1);
  for (auto m = ndim() - 2; m >= 0; --m) {
    strides[m] = strides[m + 1] * size(m + 1);
  }
  int64_t base = 0;
  for (int64_t m = 0; m < ndim(); ++m) {
    const bool spanned = std::find(mesh_dims.begin(), mesh_dims.end(), m) != mesh_dims.end();
    base += spanned ? 0 : start[m] * strides[m];
  }
  std::vector<int64_t> indices = {base};
  for (const auto m : mesh_dims) {
    std::vector<int64_t> wider;
    for (const auto index : indices) {
      for (int64_t i = 0; i < size(m); ++i) {
        wider.push_back(index + i * strides[m]);
      }
    }
    indices = std::move(wider);
  }
  for (auto& index : indices) {
    index = ranks()[index];
  }
  return indices;
}

DeviceMesh DeviceMesh::submesh(c10::ArrayRef<std::string> names) const {
  const auto mesh_dims = dims(names);
  std::vector<int64_t> shape;
  for (const auto m : mesh_dims) {
    shape.push_back(size(m));
  }
  // On a rank outside the mesh, the result is the first slice, of which this rank is not a member either.
  const std::vector<int64_t> origin(ndim(), 0);
  const auto start = is_member() ? coordinate() : c10::IntArrayRef(origin);
  return DeviceMesh(world(), device_type(), shape, ranks_spanned(mesh_dims, start), names.vec());
}

DeviceMesh DeviceMesh::flatten(c10::ArrayRef<std::string> names, std::string flat_name) const {
  const auto flat = dims(names);
  const auto is_flat = [&](int64_t m) { return std::find(flat.begin(), flat.end(), m) != flat.end(); };
  MeshDims order;
  std::vector<int64_t> shape;
  std::vector<std::string> result_names;
  for (int64_t m = 0; m < ndim(); ++m) {
    if (!is_flat(m)) {
      order.push_back(m);
      shape.push_back(size(m));
      result_names.push_back(name(m));
    } else if (m == flat[0]) {
      order.append(flat.begin(), flat.end());
      shape.push_back(group_size(flat));
      result_names.push_back(flat_name.empty() ? join(names, "_") : flat_name);
    }
  }
  const std::vector<int64_t> origin(ndim(), 0);
  return DeviceMesh(world(), device_type(), shape, ranks_spanned(order, origin), result_names);
}

std::vector<int64_t> DeviceMesh::ranks_along(c10::IntArrayRef mesh_dims) const {
  MeshDims ordered(mesh_dims.begin(), mesh_dims.end());
  std::sort(ordered.begin(), ordered.end());
  return ranks_spanned(ordered, coordinate());
}

int64_t DeviceMesh::group_size(c10::IntArrayRef mesh_dims) const {
  int64_t ranks = 1;
  for (const auto m : mesh_dims) {
    ranks *= size(m);
  }
  return ranks;
}

std::string DeviceMesh::dims_text(c10::IntArrayRef mesh_dims) const {
  std::string text;
  for (const auto m : mesh_dims) {
    text += (text.empty() ? "" : ",") + name(m);
  }
  return text;
}

std::string DeviceMesh::to_string() const {
  if (!defined()) {
    return "mesh()";
  }
  std::string text = "mesh(";
  for (int64_t m = 0; m < ndim(); ++m) {
    text += (m == 0 ? "" : ",") + name_text(name(m)) + "=" + std::to_string(size(m));
  }
  if (device_type() != c10::kCPU) {
    text += "; " + c10::DeviceTypeName(device_type(), /*lower_case=*/true);
  }
  if (data_->ranks != first_ranks(size())) {
    text += "; ranks=" + join(data_->ranks, ",");
  }
  return text + ")";
}

std::shared_ptr<void> DeviceMesh::kept_for(c10::IntArrayRef mesh_dims) const {
  auto& kept = *data_->kept;
  const std::lock_guard lock(kept.mutex);
  const auto found = kept.values.find(bits_of(mesh_dims));
  return found == kept.values.end() ? nullptr : found->second;
}

void DeviceMesh::keep_for(c10::IntArrayRef mesh_dims, std::shared_ptr<void> value) const {
  auto& kept = *data_->kept;
  const std::lock_guard lock(kept.mutex);
  kept.values[bits_of(mesh_dims)] = std::move(value);
}

DeviceMesh DeviceMesh::parse(std::string_view text, WorldPtr world) {
  TextCursor cursor("DeviceMesh::parse", text);
  auto mesh = parse(cursor, std::move(world));
  cursor.expect_end();
  return mesh;
}

DeviceMesh DeviceMesh::parse(TextCursor& cursor, WorldPtr world) {
  std::vector<int64_t> shape;
  std::vector<std::string> names;
  cursor.expect("mesh(");
  do {
    names.push_back(parse_name(cursor));
    cursor.expect("=");
    shape.push_back(cursor.integer());
  } while (cursor.accept(","));
  auto device_type = c10::kCPU;
  auto ranks = first_ranks(checked_size(shape));
  while (cursor.accept(";")) {
    const auto word = cursor.word();
    if (word == "ranks") {
      cursor.expect("=");
      ranks = cursor.integers();
    } else {
      device_type = parse_device_type(std::string(word));
    }
  }
  cursor.expect(")");
  return DeviceMesh(std::move(world), device_type, shape, ranks, std::move(names));
}

bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
  if (a.data_ == b.data_) {
    return true;
  }
  if (!a.defined() || !b.defined()) {
    return false;
  }
  const auto& x = *a.data_;
  const auto& y = *b.data_;
  return x.hash == y.hash && x.world == y.world && x.device_type == y.device_type && x.shape == y.shape &&
      x.ranks == y.ranks && x.names == y.names;
}

std::ostream& operator<<(std::ostream& out, const DeviceMesh& mesh) {
  return out << mesh.to_string();
}

} // namespace weft
