#include "weft/tensor/impl/call_agreement.h"

#include "weft/comm/communicator.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <cstring>
#include <numeric>

namespace weft {

namespace {

std::shared_ptr<Group> group_of_all(const DeviceMesh& mesh) {
  std::vector<int64_t> dims(mesh.ndim());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return Communicator::of(mesh).group(mesh, dims);
}

/// The text of every member of a group of the mesh, in the order of the members, truncated or padded to `length` bytes. It
/// is sent as a tensor on the mesh's device, because groups of NCCL take no other.
std::vector<std::string> gather_text(Group& group, const DeviceMesh& mesh, std::string text, size_t length) {
  text.resize(length);
  const auto size = static_cast<int64_t>(length);
  const c10::Device device(mesh.device_type());
  const auto own = at::from_blob(text.data(), {size}, at::kByte).to(device);
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < group.size(); ++i) {
    all.push_back(at::empty({size}, own.options()));
  }
  group.all_gather(own, all).wait();
  std::vector<std::string> texts;
  for (const auto& each : all) {
    const auto bytes = each.cpu();
    texts.emplace_back(static_cast<const char*>(bytes.const_data_ptr()), length);
  }
  return texts;
}

/// The number of every member, in the order of the members.
std::vector<uint64_t> gather_number(Group& group, const DeviceMesh& mesh, uint64_t number) {
  std::vector<uint64_t> numbers;
  for (const auto& bytes : gather_text(group, mesh, std::string(reinterpret_cast<const char*>(&number), 8), 8)) {
    numbers.push_back(0);
    std::memcpy(&numbers.back(), bytes.data(), 8);
  }
  return numbers;
}

/// The position of the first number that differs from the number at position 0.
std::optional<size_t> first_other(const std::vector<uint64_t>& numbers) {
  const auto other = std::find_if(numbers.begin(), numbers.end(), [&](uint64_t each) { return each != numbers[0]; });
  return other == numbers.end() ? std::nullopt : std::optional<size_t>(other - numbers.begin());
}

uint64_t hash_of_values(const at::Tensor& plain) {
  const auto values = plain.detach().resolve_conj().resolve_neg().cpu().contiguous();
  return std::hash<std::string_view>()({static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
}

} // namespace

void check_agreement(const PreparedCall& call) {
  auto text = call.explanation->to_string();
  if (call.overlapped != nullptr) {
    text += c10::str("\n  overlap: ", to_string(Scopes::of_thread().overlap));
  }
  check_agreement(call.operands[0]->mesh(), text);
}

void check_agreement(const DeviceMesh& mesh, const std::string& text) {
  constexpr size_t kShown = 1024; // bytes of a call's text that an error shows
  const auto group = group_of_all(mesh);
  const auto other = first_other(gather_number(*group, mesh, std::hash<std::string>()(text)));
  if (!other) {
    return;
  }
  const auto texts = gather_text(*group, mesh, text, kShown);
  TORCH_CHECK(
      false, "[debug] all ranks must call the same operators in the same way, but rank ", group->ranks()[0], " calls ",
      texts[0].c_str(), "\nand rank ", group->ranks()[*other], " calls ", texts[*other].c_str(),
      "\nLook for a branch that depends on the rank or on local values.");
}

void check_seeds(const DeviceMesh& mesh, uint64_t seed) {
  const auto group = group_of_all(mesh);
  const auto options = at::TensorOptions(at::kLong).device(mesh.device_type());
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < group->size(); ++i) {
    all.push_back(at::empty({1}, options));
  }
  try {
    group->compare_seeds(at::full({1}, static_cast<int64_t>(seed), options), all).wait();
  } catch (const c10::Error& error) {
    TORCH_CHECK(
        false,
        "[torch.manual_seed] all ranks of a mesh must call it alike, but got an error when this rank, which was "
        "seeded with ",
        seed, ", compared its seed with the other ranks of ", mesh,
        ". Call torch.manual_seed on every rank, or torch.default_generator.manual_seed to seed plain tensors of one "
        "rank alone.\n",
        error.what_without_backtrace());
  }
  std::vector<uint64_t> seeds;
  for (const auto& each : all) {
    seeds.push_back(static_cast<uint64_t>(each.item<int64_t>()));
  }
  const auto other = first_other(seeds);
  TORCH_CHECK_VALUE(
      !other,
      "[torch.manual_seed] random numbers of distributed tensors require the same seed on every rank, but rank ",
      group->ranks()[0], " was seeded with ", seeds[0], " and rank ", group->ranks()[other.value_or(0)], " with ",
      seeds[other.value_or(0)],
      ". Call weft.manual_seed with one seed for distributed tensors, after "
      "torch.manual_seed; or seed plain tensors with torch.default_generator.manual_seed, which leaves distributed "
      "ones alone.");
}

void check_replicas(const DeviceMesh& mesh, const at::Tensor& plain, const std::string& what) {
  if (plain.is_meta()) {
    return;
  }
  const auto group = group_of_all(mesh);
  const auto other = first_other(gather_number(*group, mesh, hash_of_values(plain)));
  TORCH_CHECK_VALUE(
      !other, "[debug] a plain tensor among distributed ones must have the same values on every rank, but ", what,
      ", of shape ", plain.sizes(), ", differs between ranks ", group->ranks()[0], " and ",
      group->ranks()[other.value_or(0)],
      ". Make it the same on every rank, or distribute it with from_local by the placements that it has.");
}

} // namespace weft
