#include "weft/tensor/impl/call_agreement.h"

#include "weft/comm/communicator.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <numeric>

namespace weft {

namespace {

std::shared_ptr<Group> group_of_all(const DeviceMesh& mesh) {
  std::vector<int64_t> dims(mesh.ndim());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return Communicator::of(mesh).group(mesh, dims);
}

/// The text of every member, in the order of the members, truncated or padded to `length` bytes.
std::vector<std::string> gather_text(Group& group, std::string text, size_t length) {
  text.resize(length);
  const auto own = at::from_blob(text.data(), {static_cast<int64_t>(length)}, at::kByte);
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < group.size(); ++i) {
    all.push_back(at::empty({static_cast<int64_t>(length)}, at::kByte));
  }
  group.all_gather(own, all).wait();
  std::vector<std::string> texts;
  for (const auto& bytes : all) {
    texts.emplace_back(static_cast<const char*>(bytes.const_data_ptr()), length);
  }
  return texts;
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
  const auto hash = std::hash<std::string>()(text);
  const auto hashes =
      gather_text(*group, std::string(reinterpret_cast<const char*>(&hash), sizeof(hash)), sizeof(hash));
  const auto other = std::find_if(hashes.begin(), hashes.end(), [&](const auto& h) { return h != hashes[0]; });
  if (other == hashes.end()) {
    return;
  }
  const auto texts = gather_text(*group, text, kShown);
  const auto i = other - hashes.begin();
  TORCH_CHECK(
      false, "[debug] all ranks must call the same operators in the same way, but rank ", group->ranks()[0], " calls ",
      texts[0].c_str(), "\nand rank ", group->ranks()[i], " calls ", texts[i].c_str(),
      "\nLook for a branch that depends on the rank or on local values.");
}

} // namespace weft
