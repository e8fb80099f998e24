#include "weft/overlap/measure/mesh_rates.h"

#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"
#include "weft/core/dtype_text.h"
#include "weft/overlap/measure/compute_rate.h"
#include "weft/overlap/measure/link_rate.h"
#include "weft/overlap/measure/timing.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace weft {

namespace {

constexpr std::string_view kRatesBegin = "rates(";
constexpr std::string_view kComputeName = "compute";

std::vector<double> numbers_of(const Link& link) {
  return {link.latency_seconds, link.bytes_per_second};
}

std::vector<double> numbers_of(const Compute& compute) {
  return {
      compute.flops_per_second, compute.bytes_per_second, compute.call_seconds, compute.message_seconds,
      compute.message_bytes_per_second};
}

struct Given {
  std::optional<Link> link;
  std::optional<Compute> compute;

  /// As many numbers on every rank, whatever rates it was given.
  std::vector<double> numbers() const {
    std::vector<double> all = {static_cast<double>(link.has_value()), static_cast<double>(compute.has_value())};
    for (const auto& some : {numbers_of(link.value_or(Link{})), numbers_of(compute.value_or(Compute{}))}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
  bool operator==(const Given& other) const {
    return numbers() == other.numbers();
  }
};

/// The rates that the ranks of a mesh have agreed on. Agreements of worlds that no longer exist are dropped.
struct Agreement {
  c10::weak_intrusive_ptr<World> world;
  c10::DeviceType device_type;
  std::vector<int64_t> shape;
  std::vector<int64_t> ranks;
  std::vector<std::string> names; // a rank that measures waits for the others, which must do so on the same mesh
  c10::ScalarType dtype;
  Given given; // the given rates under which they agreed
  MeshRates rates;

  bool is_of(const DeviceMesh& mesh, c10::ScalarType of_dtype) const {
    return world._unsafe_get_target() == mesh.world().get() && dtype == of_dtype && device_type == mesh.device_type() &&
        mesh.shape() == shape && mesh.ranks() == ranks && mesh.names() == names;
  }
};

struct State {
  std::mutex mutex;
  Given given;
  std::vector<Agreement> agreements;
};

State& state() {
  static auto* state = new State();
  return *state;
}

std::atomic<uint64_t> agreed_anew = 0;

/// The rates of give_rates; those of the environment for rates that were not given.
Given given_rates() {
  auto& all = state();
  Given given;
  {
    const std::lock_guard lock(all.mutex);
    given = all.given;
  }
  if (const char* text = std::getenv("WEFT_LINK"); text != nullptr && !given.link) {
    given.link = parse_link(text);
  }
  if (const char* text = std::getenv("WEFT_COMPUTE"); text != nullptr && !given.compute) {
    given.compute = parse_compute(text);
  }
  return given;
}

c10::Device device_of(const DeviceMesh& mesh) {
  if (mesh.device_type() == c10::kCPU) {
    return {c10::kCPU};
  }
  return c10::impl::VirtualGuardImpl(mesh.device_type()).getDevice();
}

/// The elementwise maximum over all ranks of the mesh: dim by dim, in groups that the mesh has anyway.
std::vector<double> largest(const DeviceMesh& mesh, std::vector<double> values) {
  const auto device = device_of(mesh);
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (mesh.size(m) > 1) {
      values = largest(*Communicator::of(mesh).group(mesh, {m}), device, values);
    }
  }
  return values;
}

/// Raises unless all ranks were given the same rates, because a rank that measures would wait for one that does not.
void check_alike(const DeviceMesh& mesh, const Given& given) {
  std::vector<double> values;
  for (const auto value : given.numbers()) {
    values.insert(values.end(), {value, -value});
  }
  const auto most = largest(mesh, values);
  bool alike = true;
  for (size_t i = 0; i < most.size(); i += 2) {
    alike = alike && most[i] == -most[i + 1];
  }
  TORCH_CHECK_VALUE(
      alike, "[measure_rates] all ranks of ", mesh, " must be given the same rates, but rank ", mesh.world()->rank(),
      " got ", given.link ? "the link " + to_string(*given.link) : "no link", " and ",
      given.compute ? "the compute " + to_string(*given.compute) : "no compute",
      " and another rank something else. Set WEFT_LINK and WEFT_COMPUTE alike on all, or on none.");
}

MeshRates with_links(const DeviceMesh& mesh, const Compute& compute) {
  return {.mesh_dims = mesh.names(), .links = LinkModel::for_mesh(mesh), .compute = compute};
}

MeshRates measured_rates(const DeviceMesh& mesh, c10::ScalarType dtype, const Given& given) {
  const measure::PlainOperators plain;
  mesh.coordinate(); // raises on a rank that is not in the mesh
  check_alike(mesh, given);
  const auto device = device_of(mesh);
  auto rates = with_links(mesh, given.compute.value_or(Compute{}));
  double message = 0;
  double device_per_byte = 0;
  for (int64_t m = 0; m < mesh.ndim() && !(given.link && given.compute); ++m) {
    if (mesh.size(m) > 1) {
      const auto times = measure_link(*Communicator::of(mesh).group(mesh, {m}), device);
      rates.links.links[m] = {.latency_seconds = times.latency, .bytes_per_second = 1 / times.per_byte};
      message = std::max(message, times.message);
      device_per_byte = std::max(device_per_byte, times.device_per_byte);
    }
  }
  if (!given.compute) {
    rates.compute = measured_compute(device, dtype);
  }
  // Exchanges times instead of rates, so that the maximum is the slowest; groups along one mesh dim may have different
  // links.
  std::vector<double> times = {
      1 / rates.compute.flops_per_second, 1 / rates.compute.bytes_per_second, rates.compute.call_seconds, message,
      device_per_byte};
  for (auto& link : rates.links.links) {
    link = given.link.value_or(link);
    times.insert(times.end(), {link.latency_seconds, 1 / link.bytes_per_second});
  }
  times = largest(mesh, std::move(times));
  if (!given.compute) {
    rates.compute = {
        .flops_per_second = 1 / times[0],
        .bytes_per_second = 1 / times[1],
        .call_seconds = times[2],
        .message_seconds = times[3],
        .message_bytes_per_second = 1 / times[4]};
  }
  if (!given.link) {
    for (int64_t m = 0; m < mesh.ndim(); ++m) {
      rates.links.links[m] = {.latency_seconds = times[5 + 2 * m], .bytes_per_second = 1 / times[6 + 2 * m]};
    }
  }
  return rates;
}

MeshRates assumed_rates(const DeviceMesh& mesh, c10::ScalarType dtype, const Given& given) {
  auto rates = with_links(mesh, given.compute.value_or(assumed_compute(mesh.device_type(), dtype)));
  for (auto& link : rates.links.links) {
    link = given.link.value_or(link);
  }
  return rates;
}

bool can_talk(const DeviceMesh& mesh) {
  const auto* world = dynamic_cast<const Communicator*>(mesh.world().get());
  return world != nullptr && !is_fake(*world);
}

MeshRates agree(const DeviceMesh& mesh, c10::ScalarType dtype, const Given& given) {
  const OperatorScope scope("measure_rates");
  try {
    return measured_rates(mesh, dtype, given);
  } catch (c10::DistBackendError& error) {
    TORCH_RETHROW(
        error, "[measure_rates] all ranks of ", mesh, " must agree on rates at the same place, but rank ",
        mesh.world()->rank(),
        " was left alone. Call measure_rates(mesh) on every rank of the mesh before the first step.");
  }
}

/// The caller holds the lock.
Agreement* find(State& all, const DeviceMesh& mesh, c10::ScalarType dtype) {
  const auto found = std::find_if(
      all.agreements.begin(), all.agreements.end(), [&](const Agreement& each) { return each.is_of(mesh, dtype); });
  return found == all.agreements.end() ? nullptr : &*found;
}

void keep(const DeviceMesh& mesh, c10::ScalarType dtype, const Given& given, const MeshRates& rates) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  if (auto* former = find(all, mesh, dtype)) {
    former->given = given;
    former->rates = rates;
    agreed_anew.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::erase_if(all.agreements, [](const Agreement& each) { return each.world.expired(); });
  all.agreements.push_back(
      {.world = c10::weak_intrusive_ptr<World>(mesh.world()),
       .device_type = mesh.device_type(),
       .shape = mesh.shape().vec(),
       .ranks = mesh.ranks().vec(),
       .names = mesh.names(),
       .dtype = dtype,
       .given = given,
       .rates = rates});
}

std::optional<Agreement> agreement_of(const DeviceMesh& mesh, c10::ScalarType dtype) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto* found = find(all, mesh, dtype);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

} // namespace

Link MeshRates::link(c10::IntArrayRef of_dims) const {
  Link slowest{.latency_seconds = 0, .bytes_per_second = std::numeric_limits<double>::infinity()};
  for (const auto m : of_dims) {
    slowest.latency_seconds = std::max(slowest.latency_seconds, links.links[m].latency_seconds);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, links.links[m].bytes_per_second);
  }
  return slowest;
}

MeshRates MeshRates::parse(std::string_view text) {
  const auto check = [&](bool ok) {
    TORCH_CHECK_VALUE(
        ok,
        "[MeshRates] a link per mesh dim and the compute, as in 'rates(tp=50us,125MB/s; "
        "compute=100Gflop/s,27GB/s,1us)', is required, but got '",
        text, "'.");
  };
  check(text.starts_with(kRatesBegin) && text.ends_with(')'));
  auto rest = text.substr(kRatesBegin.size(), text.size() - kRatesBegin.size() - 1);
  // The last entry is the compute: a mesh dim may have that name too.
  MeshRates rates{};
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto end = rest.find(';');
    const auto entry = rest.substr(0, end);
    const auto name = entry.substr(0, entry.find('='));
    check(name.size() < entry.size() && !name.empty());
    const auto value = entry.substr(name.size() + 1);
    if (end == std::string_view::npos) {
      check(name == kComputeName);
      rates.compute = parse_compute(value);
      return rates;
    }
    rates.mesh_dims.emplace_back(name);
    rates.links.links.push_back(parse_link(value));
    rest.remove_prefix(end + 1);
  }
}

std::string MeshRates::to_string() const {
  std::string text(kRatesBegin);
  for (size_t m = 0; m < mesh_dims.size(); ++m) {
    text += mesh_dims[m] + "=" + weft::to_string(links.links[m]) + "; ";
  }
  return text.append(kComputeName) + "=" + weft::to_string(compute) + ")";
}

bool MeshRates::operator==(const MeshRates& other) const {
  const auto is_same_link = [](const Link& a, const Link& b) { return numbers_of(a) == numbers_of(b); };
  return mesh_dims == other.mesh_dims && numbers_of(compute) == numbers_of(other.compute) &&
      std::equal(
             links.links.begin(), links.links.end(), other.links.links.begin(), other.links.links.end(), is_same_link);
}

MeshRates measure_rates(const DeviceMesh& mesh, c10::ScalarType dtype) {
  const auto given = given_rates();
  if (!can_talk(mesh)) {
    return assumed_rates(mesh, dtype, given);
  }
  if (const auto agreement = agreement_of(mesh, dtype); agreement && agreement->given == given) {
    return agreement->rates;
  }
  auto rates = agree(mesh, dtype, given);
  keep(mesh, dtype, given, rates);
  if (mesh.world()->rank() == mesh.ranks()[0]) {
    LOG(INFO) << "[measure_rates] the ranks of " << mesh << " have agreed on rates for matmuls of " << dtype_text(dtype)
              << ": " << rates.to_string();
  }
  return rates;
}

std::optional<MeshRates> agreed_rates(const DeviceMesh& mesh, c10::ScalarType dtype) {
  const auto agreement = agreement_of(mesh, dtype);
  return agreement ? std::optional(agreement->rates) : std::nullopt;
}

MeshRates rates_of(const DeviceMesh& mesh, c10::ScalarType dtype) {
  const auto agreed = agreed_rates(mesh, dtype);
  return agreed ? *agreed : measure_rates(mesh, dtype);
}

uint64_t rates_version() {
  return agreed_anew.load(std::memory_order_relaxed);
}

void give_rates(std::optional<Link> link, std::optional<Compute> compute) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  all.given = {.link = link, .compute = compute};
}

} // namespace weft
