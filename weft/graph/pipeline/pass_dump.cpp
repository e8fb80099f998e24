#include "weft/graph/pipeline/pass_dump.h"

#include "weft/graph/ir/print.h"
#include "weft/graph/pt2/new_file.h"

#include <c10/util/Exception.h>

#include <filesystem>
#include <iomanip>
#include <sstream>

namespace weft::graph {

namespace {

namespace fs = std::filesystem;

} // namespace

PassDump::PassDump(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  TORCH_CHECK_VALUE(
      !error, "[PassDump] ", folder_,
      ": a folder for the texts of passes is required, but it cannot be created: ", error.message(), ". Name another.");
  const bool is_empty = fs::is_empty(folder_, error);
  TORCH_CHECK_VALUE(
      !error, "[PassDump] ", folder_,
      ": a folder for the texts of passes is required, but it cannot be read: ", error.message(), ". Name another.");
  TORCH_CHECK_VALUE(
      is_empty, "[PassDump] ", folder_,
      ": a new or empty folder is required for the texts of passes, but it is not empty. Remove it, or name another.");
}

void PassDump::write(size_t number, const std::string& pass, const Program& program) const {
  std::ostringstream name;
  name << std::setw(2) << std::setfill('0') << number << "_" << pass << ".txt";
  const auto text = to_string(program);
  NewFile file("PassDump", fs::path(folder_) / name.str());
  file.write(text.data(), text.size());
  file.complete();
}

} // namespace weft::graph
