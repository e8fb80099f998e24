#include "weft/tensor/impl/text.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <sstream>

namespace weft {

namespace {

constexpr int64_t kMaxValues = 1000;

std::string shape_text(c10::IntArrayRef shape) {
  std::string text;
  for (const auto size : shape) {
    text += (text.empty() ? "" : ",") + std::to_string(size);
  }
  return "[" + text + "]";
}

/// Writes nested lists. If `edge` > 0, only that many values at both ends of each dim.
void write_values(std::ostream& out, const at::Tensor& values, int64_t edge, size_t indent) {
  if (values.dim() == 0) {
    out << values.item();
    return;
  }
  const auto size = values.size(0);
  const auto separator = values.dim() == 1 ? std::string(", ") : ",\n" + std::string(indent + 1, ' ');
  out << '[';
  for (int64_t i = 0; i < size; ++i) {
    out << (i == 0 ? "" : separator);
    if (edge > 0 && size > 2 * edge && i == edge) {
      out << "...";
      i = size - edge - 1;
    } else {
      write_values(out, values[i], edge, indent + 1);
    }
  }
  out << ']';
}

std::string local_text(const DTensorImpl& impl) {
  const auto& mesh = impl.spec()->mesh();
  const auto rank = c10::str("rank ", mesh.world()->rank());
  if (!mesh.is_member()) {
    return rank + " is not in the mesh";
  }
  const auto& local = impl.local();
  const auto head = rank + " holds " + shape_text(local.sizes());
  if (local.is_meta()) {
    return head + " without values";
  }
  std::ostringstream out;
  out << head << ":\n";
  const int64_t edge = local.numel() <= kMaxValues ? 0 : local.dim() <= 3 ? 3 : 1;
  write_values(out, local.detach().cpu(), edge, 0);
  return out.str();
}

} // namespace

std::string to_string(const at::Tensor& tensor) {
  const auto* impl = as_dtensor(tensor);
  if (impl == nullptr) {
    std::ostringstream out;
    at::print(out, tensor, /*linesize=*/80);
    return out.str();
  }
  const c10::NoGradGuard no_grad;
  auto text = impl->spec()->to_string() + "\n";
  try {
    return text + local_text(*impl);
  } catch (const c10::Error& error) {
    // Most likely the collective that writes the local tensor failed; the text then tells the user why.
    return text + "this rank's local tensor cannot be shown: " + error.what_without_backtrace();
  } catch (const std::exception& error) {
    return text + "this rank's local tensor cannot be shown: " + error.what();
  }
}

} // namespace weft
