// Any text as models/model.json of a file that is in order otherwise: gets past the zip file and to the graph at once.
#include "weft/graph/pt2/read_pt2.h"

#include "fuzz/quiet_errors.h"

#include <nlohmann/json.hpp>

#include <random>
#include <utility>

namespace {

void append(std::string& bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

/// A zip file of stored records, without checksums, which the reader does not ask for in a fuzzer.
std::string zip_file(const std::vector<std::pair<std::string, std::string_view>>& records) {
  std::string bytes;
  std::string directory;
  for (const auto& [name, data] : records) {
    const auto place = bytes.size();
    const auto numbers = [&, &own = name, &content = data](std::string& header) {
      header.append(12, '\0'); // flags, method, time, checksum
      append(header, content.size(), 4);
      append(header, content.size(), 4);
      append(header, own.size(), 2);
      append(header, 0, 2);
    };
    bytes += "PK\3\4";
    append(bytes, 0, 2);
    numbers(bytes);
    bytes += name;
    bytes += data;
    directory += "PK\1\2";
    append(directory, 0, 4);
    numbers(directory);
    directory.append(10, '\0');
    append(directory, place, 4);
    directory += name;
  }
  const auto place = bytes.size();
  bytes += directory + "PK\5\6";
  append(bytes, 0, 4);
  append(bytes, records.size(), 2);
  append(bytes, records.size(), 2);
  append(bytes, directory.size(), 4);
  append(bytes, place, 4);
  append(bytes, 0, 2);
  return bytes;
}

// What the graphs of the corpus take: w of [3, 2], b of [3], c of two integers.
constexpr const char* kWeights =
    R"({"config": {"w": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7,)"
    R"( "sizes": [{"as_int": 3}, {"as_int": 2}], "requires_grad": true, "device": {"type": "cpu", "index": null},)"
    R"( "strides": [{"as_int": 2}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}},)"
    R"( "b": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": 7,)"
    R"( "sizes": [{"as_int": 3}], "requires_grad": true, "device": {"type": "cpu", "index": null},)"
    R"( "strides": [{"as_int": 1}], "storage_offset": {"as_int": 2}, "layout": 7}}}})";
constexpr const char* kConstants =
    R"({"config": {"c": {"path_name": "tensor_0", "is_param": false, "use_pickle": false, "tensor_meta": {"dtype": 5,)"
    R"( "sizes": [{"as_int": 2}], "requires_grad": false, "device": {"type": "cpu", "index": null},)"
    R"( "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}}})";

/// All values inside, the outermost first.
void collect(nlohmann::json& value, std::vector<nlohmann::json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (auto& inner : value) {
      collect(inner, all);
    }
  }
}

/// One value in place of another, twice, or gone; or a number or a text changed.
void change(nlohmann::json& root, std::mt19937& random) {
  std::vector<nlohmann::json*> all;
  collect(root, all);
  auto& value = *all[random() % all.size()];
  const nlohmann::json other = *all[random() % all.size()];
  const int64_t numbers[] = {0, 1, -1, 2, 7, 64, 1 << 20, int64_t{1} << 40, INT64_MAX, INT64_MIN};
  switch (random() % 5) {
    case 0:
      value = other;
      break;
    case 1:
      if (value.is_structured() && !value.empty()) {
        value.erase(std::next(value.begin(), static_cast<int64_t>(random() % value.size())));
      }
      break;
    case 2:
      if (value.is_array()) {
        value.insert(value.begin() + static_cast<int64_t>(random() % (value.size() + 1)), other);
      }
      break;
    case 3:
      value = numbers[random() % std::size(numbers)];
      break;
    default:
      if (value.is_string() && other.is_string()) {
        auto& text = value.get_ref<std::string&>();
        const auto& more = other.get_ref<const std::string&>();
        text = text.substr(0, random() % (text.size() + 1)) + more.substr(random() % (more.size() + 1));
      }
      break;
  }
}

} // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

/// Half of the time what comes out is JSON still.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 random(seed);
  auto root = random() % 2 == 0 ? nlohmann::json::parse(data, data + size, nullptr, /*allow_exceptions=*/false)
                                : nlohmann::json(nlohmann::json::value_t::discarded);
  if (root.is_discarded()) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  change(root, random);
  const auto text = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > max_size) {
    return size;
  }
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  static const std::string zeros(24, '\0');
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  auto bytes = zip_file(
      {{"m/archive_format", "pt2"},
       {"m/data/weights/weight_0", zeros},
       {"m/data/weights/model_weights_config.json", kWeights},
       {"m/data/constants/tensor_0", std::string_view(zeros).substr(8)},
       {"m/data/constants/model_constants_config.json", kConstants},
       {"m/models/model.json", model}});
  try {
    weft::graph::read_pt2_bytes(std::move(bytes));
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
