#include "weft/graph/replay/recorded_call.h"

#include "weft/graph/ir/print.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <c10/util/StringUtil.h>

namespace weft::graph {

namespace {

/// The first lines that differ.
std::string text_difference(const std::string& before, const std::string& after) {
  const auto old_lines = c10::split(before, '\n');
  const auto new_lines = c10::split(after, '\n');
  for (size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const auto line = [&](const std::vector<std::string_view>& lines) {
      return i < lines.size() ? std::string(lines[i].substr(std::min(lines[i].find_first_not_of(' '), lines[i].size())))
                              : std::string("nothing");
    };
    if (line(old_lines) != line(new_lines)) {
      return "it did '" + line(old_lines) + "' and then '" + line(new_lines) + "'";
    }
  }
  return {};
}

/// Whether both are the same memory, or the same number of the program's text.
bool is_same_constant(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b) ||
      (a.has_storage() && b.has_storage() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset())) {
    return true;
  }
  return a.unsafeGetTensorImpl()->is_wrapped_number() && b.unsafeGetTensorImpl()->is_wrapped_number() &&
      a.scalar_type() == b.scalar_type() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.itemsize()) == 0;
}

std::string use_of(const Value* value) {
  return value == nullptr || value->uses().empty() ? std::string("nothing") : to_string(*value->uses()[0].node);
}

std::string constant_difference(const Program& before, const Program& after) {
  for (const auto& input : after.inputs) {
    if (input.kind == InputKind::User) {
      continue;
    }
    const auto& tensor = after.tensors.at(input.target);
    if (tensor.numel() > 0 && !is_same_constant(before.tensors.at(input.target), tensor)) {
      return c10::str(
          "a tensor of shape ", tensor.sizes(), " that no recorded operator made is another one in every call, which '",
          use_of(input.value), "' reads");
    }
  }
  return {};
}

std::string describe(const at::Tensor& result) {
  const auto* distributed = as_dtensor(result);
  return distributed == nullptr ? "a plain tensor" : distributed->spec()->to_string();
}

std::string result_difference(const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& after) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (describe(before[i]) != describe(after[i])) {
      return c10::str("result ", i, " was ", describe(before[i]), " and then ", describe(after[i]));
    }
  }
  return {};
}

} // namespace

std::string difference(const LocalCapture& before, const LocalCapture& after) {
  auto text = text_difference(to_string(before.program), to_string(after.program));
  if (text.empty()) {
    text = constant_difference(before.program, after.program);
  }
  return text.empty() ? result_difference(before.results, after.results) : text;
}

} // namespace weft::graph
