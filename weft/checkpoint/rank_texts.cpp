#include "weft/checkpoint/rank_texts.h"

#include "weft/comm/communicator.h"

#include <ATen/ATen.h>

#include <cstring>

namespace weft {

namespace {

/// Named, so that a scope in which tensors are on meta does not matter.
at::TensorOptions on_cpu(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCPU);
}

at::Tensor tensor_of(const std::string& text) {
  auto tensor = at::empty({static_cast<int64_t>(text.size())}, on_cpu(at::kByte));
  if (!text.empty()) {
    std::memcpy(tensor.mutable_data_ptr(), text.data(), text.size());
  }
  return tensor;
}

std::string text_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0
      ? std::string(static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.numel()))
      : std::string();
}

std::vector<at::Tensor> empty_tensors(c10::IntArrayRef lengths) {
  std::vector<at::Tensor> tensors;
  for (const auto length : lengths) {
    tensors.push_back(length > 0 ? at::empty({length}, on_cpu(at::kByte)) : at::Tensor());
  }
  return tensors;
}

std::vector<std::string> texts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) {
    texts.push_back(text_of(tensor));
  }
  return texts;
}

std::shared_ptr<Group> group_of(const DeviceMesh& mesh) {
  return Communicator::of(mesh).group(mesh, {0});
}

} // namespace

std::vector<int64_t> RankTexts::lengths_of(const std::string& text) const {
  const auto group = group_of(mesh_);
  std::vector<at::Tensor> lengths;
  for (int64_t i = 0; i < size(); ++i) {
    lengths.push_back(at::empty({1}, on_cpu(at::kLong)));
  }
  group->all_gather(at::full({1}, static_cast<int64_t>(text.size()), on_cpu(at::kLong)), lengths).wait();
  std::vector<int64_t> result;
  for (const auto& length : lengths) {
    result.push_back(length.item<int64_t>());
  }
  return result;
}

std::vector<std::string> RankTexts::all_gather(const std::string& text) const {
  if (size() == 1) {
    return {text};
  }
  const auto outputs = empty_tensors(lengths_of(text));
  group_of(mesh_)->all_gather(tensor_of(text), outputs).wait();
  return texts_of(outputs);
}

std::vector<std::string> RankTexts::gather(const std::string& text) const {
  if (size() == 1) {
    return {text};
  }
  const auto lengths = lengths_of(text);
  std::vector<at::Tensor> sends(size());
  std::vector<at::Tensor> receives(size());
  sends[0] = tensor_of(text);
  if (rank() == 0) {
    receives = empty_tensors(lengths);
  }
  group_of(mesh_)->all_to_all(sends, receives).wait();
  return rank() == 0 ? texts_of(receives) : std::vector<std::string>{text};
}

std::string RankTexts::broadcast(const std::string& text) const {
  if (size() == 1) {
    return text;
  }
  const auto length = lengths_of(text)[0];
  const auto tensor = rank() == 0 ? tensor_of(text) : at::empty({length}, on_cpu(at::kByte));
  if (length > 0) {
    group_of(mesh_)->broadcast(tensor, /*root=*/0).wait();
  }
  return text_of(tensor);
}

void RankTexts::broadcast(const at::Tensor& tensor) const {
  if (size() > 1 && tensor.numel() > 0) {
    group_of(mesh_)->broadcast(tensor, /*root=*/0).wait();
  }
}

std::chrono::milliseconds RankTexts::timeout() const {
  return mesh_.defined() ? Communicator::of(mesh_).timeout() : std::chrono::milliseconds::max();
}

std::string error_text_of(const char* where, const std::function<void()>& fn) {
  try {
    fn();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return c10::str("[", where, "] ", error.what());
  }
  return {};
}

void raise_first_error(const std::vector<std::string>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    TORCH_CHECK_VALUE(
        errors[rank].empty(), errors[rank], errors.size() > 1 ? c10::str(" (on rank ", rank, ")") : std::string());
  }
}

} // namespace weft
