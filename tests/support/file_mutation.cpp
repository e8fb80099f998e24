#include "tests/support/file_mutation.h"

#include <cstring>
#include <limits>

namespace weft::testing {

using Json = nlohmann::ordered_json;

namespace {

// What JSON values cannot be is put into the text in the place of these.
constexpr const char* kDeep = "<deep>";
constexpr const char* kTwice = "<twice>";
constexpr const char* kHuge = "<huge>";

/// All values inside, the outermost first.
void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (auto& inner : value) {
      collect(inner, all);
    }
  }
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

} // namespace

void FileMutation::change_bytes(std::string& file) {
  const auto at = below(file.size());
  const auto length = std::min(file.size() - at, size_t{1} << below(12));
  switch (below(7)) {
    case 0:
      file.resize(at);
      break;
    case 1:
      file.erase(at, length);
      break;
    case 2:
      file.insert(below(file.size()), file.substr(at, length));
      break;
    case 3: {
      const auto range = file.substr(at, length);
      const auto other = below(file.size() - range.size() + 1);
      file.replace(at, range.size(), file.substr(other, range.size()));
      file.replace(other, range.size(), range);
      break;
    }
    case 4: {
      const uint64_t numbers[] = {0, 1, 0x7fffffff, 0xffffffff, uint64_t{1} << 40, ~uint64_t{0}};
      const auto width = std::min<size_t>(file.size() - at, size_t{1} << below(4));
      std::memcpy(file.data() + at, &numbers[below(std::size(numbers))], width);
      break;
    }
    default:
      if (!file.empty()) {
        file[at] = static_cast<char>(file[at] ^ 1 << below(8));
      }
  }
}

std::string FileMutation::bytes(std::string file) {
  for (auto left = below(3) + 1; left > 0; --left) {
    change_bytes(file);
  }
  return file;
}

void FileMutation::change_value(Json& root) {
  std::vector<Json*> all;
  collect(root, all);
  auto& value = *all[below(all.size())];
  auto& second = *all[below(all.size())];
  const Json other = second;
  const int64_t numbers[] = {
      0,
      1,
      -1,
      2,
      3,
      64,
      1 << 20,
      int64_t{1} << 40,
      std::numeric_limits<int64_t>::max(),
      std::numeric_limits<int64_t>::min()};
  switch (below(9)) {
    case 0:
      value = other;
      break;
    case 1:
      if (value.is_primitive() && second.is_primitive()) {
        std::swap(value, second);
      }
      break;
    case 2:
      if (value.is_structured() && !value.empty()) {
        value.erase(std::next(value.begin(), static_cast<int64_t>(below(value.size()))));
      }
      break;
    case 3:
      if (value.is_array()) {
        value.insert(value.begin() + static_cast<int64_t>(below(value.size() + 1)), other);
      }
      break;
    case 4:
      if (value.is_object() && !value.empty()) {
        value[kTwice + std::next(value.begin(), static_cast<int64_t>(below(value.size()))).key()] = other;
      }
      break;
    case 5:
      value = numbers[below(std::size(numbers))];
      break;
    case 6:
      value = below(2) == 0 ? kDeep : kHuge;
      break;
    case 7:
      value = below(2) == 0 ? Json() : Json(-0.5);
      break;
    default:
      if (value.is_string()) {
        auto text = value.get<std::string>();
        change_bytes(text);
        value = text;
      }
  }
}

std::string FileMutation::json(const std::string& text) {
  auto root = Json::parse(text);
  for (auto left = below(3) + 1; left > 0; --left) {
    change_value(root);
  }
  auto changed = root.dump(-1, ' ', false, Json::error_handler_t::replace);
  replace_all(changed, kTwice, ""); // {"a": 1, "<twice>a": 2} has two entries of the key "a" then
  replace_all(changed, std::string("\"") + kHuge + "\"", "123456789012345678901234567890");
  replace_all(changed, std::string("\"") + kDeep + "\"", std::string(50000, '['));
  return changed;
}

} // namespace weft::testing
