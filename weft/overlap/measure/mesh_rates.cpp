#include "weft/overlap/measure/mesh_rates.h"

#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"
#include "weft/overlap/measure/compute_rate.h"
#include "weft/overlap/measure/link_rate.h"
#include "weft/overlap/measure/timing.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <mutex>
#include <vector>

namespace weft {

namespace {

struct Given {
  std::optional<Link> link;
  std::optional<Compute> compute;
};

/// What rates_of has found out, of worlds that still are.
struct Kept {
  c10::weak_intrusive_ptr<World> world;
  c10::DeviceType device_type;
  std::vector<int64_t> shape;
  std::vector<int64_t> ranks;
  std::vector<std::string> names; // a rank that measures waits for the others, which must do so on the same mesh
  c10::ScalarType dtype;
  MeshRates rates;

  bool is_of(const DeviceMesh& mesh, c10::ScalarType of_dtype) const {
    return world._unsafe_get_target() == mesh.world().get() && dtype == of_dtype && device_type == mesh.device_type() &&
        mesh.shape() == shape && mesh.ranks() == ranks && mesh.names() == names;
  }
};

struct State {
  std::mutex mutex;
  Given given;
  std::vector<Kept> kept;
};

State& state() {
  static auto* state = new State();
  return *state;
}

/// A rate of the environment is read once per question: it is asked for when a decision is first made, not in every call.
Given given_rates(const Given& by_call) {
  auto given = by_call;
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

/// Everybody's largest values, of the whole mesh: dim by dim, in groups that the mesh has anyway.
std::vector<double> largest(const DeviceMesh& mesh, std::vector<double> values) {
  const auto device = device_of(mesh);
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (mesh.size(m) > 1) {
      values = largest(*Communicator::of(mesh).group(mesh, {m}), device, values);
    }
  }
  return values;
}

/// Were one rank to measure what another was given, they would wait for each other.
void check_alike(const DeviceMesh& mesh, const Given& given) {
  std::vector<double> values;
  const auto add = [&](double value) { values.insert(values.end(), {value, -value}); };
  add(given.link.has_value());
  add(given.compute.has_value());
  const auto link = given.link.value_or(Link{});
  for (const auto value : {link.latency_seconds, link.bytes_per_second}) {
    add(value);
  }
  const auto compute = given.compute.value_or(Compute{});
  for (const auto value :
       {compute.flops_per_second, compute.bytes_per_second, compute.call_seconds, compute.message_seconds,
        compute.message_bytes_per_second}) {
    add(value);
  }
  const auto most = largest(mesh, values);
  bool alike = true;
  for (size_t i = 0; i < most.size(); i += 2) {
    alike = alike && most[i] == -most[i + 1];
  }
  TORCH_CHECK_VALUE(
      alike, "[rates_of] all ranks of ", mesh, " must be given the same rates, but rank ", mesh.world()->rank(),
      " got ", given.link ? "the link " + to_string(*given.link) : "no link", " and ",
      given.compute ? "the compute " + to_string(*given.compute) : "no compute",
      " and another rank something else. Set WEFT_LINK and WEFT_COMPUTE alike on all, or on none.");
}

MeshRates measured_rates(const DeviceMesh& mesh, c10::ScalarType dtype, const Given& given) {
  const measure::PlainOperators plain;
  check_alike(mesh, given);
  const auto device = device_of(mesh);
  MeshRates rates{.links = LinkModel::for_mesh(mesh), .compute = given.compute.value_or(Compute{})};
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
  // In times, of which the largest counts; groups along one dim may differ in their links, too.
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
  MeshRates rates{
      .links = LinkModel::for_mesh(mesh),
      .compute = given.compute.value_or(assumed_compute(mesh.device_type(), dtype))};
  for (auto& link : rates.links.links) {
    link = given.link.value_or(link);
  }
  return rates;
}

bool can_talk(const DeviceMesh& mesh) {
  const auto* world = dynamic_cast<const Communicator*>(mesh.world().get());
  return world != nullptr && !is_fake(*world);
}

} // namespace

Link MeshRates::link(c10::IntArrayRef mesh_dims) const {
  Link slowest{.latency_seconds = 0, .bytes_per_second = std::numeric_limits<double>::infinity()};
  for (const auto m : mesh_dims) {
    slowest.latency_seconds = std::max(slowest.latency_seconds, links.links[m].latency_seconds);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, links.links[m].bytes_per_second);
  }
  return slowest;
}

MeshRates rates_of(const DeviceMesh& mesh, c10::ScalarType dtype) {
  auto& all = state();
  Given by_call;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& kept : all.kept) {
      if (kept.is_of(mesh, dtype)) {
        return kept.rates;
      }
    }
    by_call = all.given;
  }
  const auto given = given_rates(by_call);
  if (!can_talk(mesh)) {
    return assumed_rates(mesh, dtype, given);
  }
  auto rates = measured_rates(mesh, dtype, given);
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.kept, [](const Kept& kept) { return kept.world.expired(); });
  all.kept.push_back(
      {.world = c10::weak_intrusive_ptr<World>(mesh.world()),
       .device_type = mesh.device_type(),
       .shape = mesh.shape().vec(),
       .ranks = mesh.ranks().vec(),
       .names = mesh.names(),
       .dtype = dtype,
       .rates = rates});
  return rates;
}

void give_rates(std::optional<Link> link, std::optional<Compute> compute) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  all.given = {.link = link, .compute = compute};
  all.kept.clear();
}

} // namespace weft
