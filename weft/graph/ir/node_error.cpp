#include "weft/graph/ir/node_error.h"

#include <c10/util/Exception.h>

#include <system_error>

namespace weft::graph {

namespace {

constexpr std::string_view kAssertion = "INTERNAL ASSERT FAILED";
constexpr std::string_view kToPyTorch = ", please report a bug to PyTorch";

std::string text_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
}

/// The innermost line of a stack trace as Python prints it: "line 12 of model.py"; empty if there is none.
std::string source_line(const Origin& origin) {
  for (const auto& [key, trace] : origin.metadata) {
    const auto file = key == "stack_trace" ? trace.rfind("File \"") : std::string::npos;
    const auto end = file == std::string::npos ? file : trace.find("\", line ", file);
    if (end == std::string::npos) {
      continue;
    }
    const auto path = trace.substr(file + 6, end - file - 6);
    const auto number = trace.substr(end + 8, trace.find_first_not_of("0123456789", end + 8) - end - 8);
    return "line " + number + " of " + path.substr(path.rfind('/') + 1);
  }
  return {};
}

} // namespace

std::string describe(const Node& node) {
  auto text = target_name(node);
  for (const auto* output : node.outputs()) {
    if (output != nullptr) {
      text += " for %" + output->name();
      break;
    }
  }
  if (!node.origin.module.empty()) {
    text += " in module " + node.origin.module.str();
  }
  const auto line = source_line(node.origin);
  return line.empty() ? text : text + ", " + line;
}

bool is_defect(const std::exception& error) {
  if (const auto* torch_error = dynamic_cast<const c10::Error*>(&error)) {
    return std::string_view(torch_error->what_without_backtrace()).find(kAssertion) != std::string_view::npos;
  }
  return dynamic_cast<const std::system_error*>(&error) == nullptr &&
      dynamic_cast<const std::bad_alloc*>(&error) == nullptr;
}

std::string defect_text(const std::string& where, const std::exception& error) {
  auto text = text_of(error);
  if (const auto at = text.find(kToPyTorch); at != std::string::npos) {
    text.erase(at, kToPyTorch.size());
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '.')) {
    text.pop_back();
  }
  return c10::str(
      "[weft] ", where, " ran into a defect: ", text,
      ". Please report it to Weft, with this message and the program if you can.");
}

void rethrow_for(const Node& node) {
  try {
    throw;
  } catch (c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const bool is_own = !text.empty() && text[0] == '[';
    if (!is_own && !is_defect(error)) {
      error.add_context("in " + describe(node)); // a kernel of torch rejected the program's arguments
    }
    if (is_own || !is_defect(error)) {
      throw;
    }
    TORCH_CHECK(false, defect_text(describe(node), error));
  } catch (const std::exception& error) {
    if (!is_defect(error)) {
      throw;
    }
    TORCH_CHECK(false, defect_text(describe(node), error));
  }
}

} // namespace weft::graph
