#include "weft/files/checked_json.h"

#include "weft/core/checksum_text.h"
#include "weft/core/json_depth.h"

#include <c10/util/Exception.h>

namespace weft {

namespace {

constexpr const char* kChecksumKey = "checksum";

} // namespace

CheckedJson::CheckedJson(const Kind& kind, std::string_view text, std::string name)
    : kind_(kind), name_(std::move(name)) {
  const auto too_deep = too_deep_at(text);
  check(
      !too_deep, "at most ", kMaxJsonDepth, " lists and objects inside of each other are required, but at byte ",
      too_deep.value_or(0), " are more");
  try {
    root_ = Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail(c10::str("JSON is required, but: ", error.what()));
  }
  check(
      root_.is_object() && root_.value("format", Json()) == kind.format,
      c10::str("no \"format\": \"", kind.format, "\""));
  check(
      root_.value("version", Json()) == kind.version,
      c10::str("version ", kind.version, " is required, but got ", root_.value("version", Json()).dump()));
}

void CheckedJson::fail(const std::string& what) const {
  TORCH_CHECK_VALUE(false, "[", kind_.where, "] ", name_, " is not what ", kind_.writer, " writes: ", what, ".");
}

void CheckedJson::check_checksum([[maybe_unused]] const std::string& content) const {
  const auto stated = root_.at(kChecksumKey).get<std::string>();
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION // which fuzzers would not get past
  const auto checksum = checksum_text(kind_.checksum(content));
  check(stated == checksum, c10::str("the checksum ", checksum, " is required for what it says, but got ", stated));
#endif
}

CheckedJson::Json CheckedJson::begin(const Kind& kind) {
  return {{"format", kind.format}, {"version", kind.version}};
}

void CheckedJson::add_checksum(const Kind& kind, Json& content) {
  content[kChecksumKey] = checksum_text(kind.checksum(content.dump()));
}

void CheckedJson::add_checksum(const Kind& kind, std::string& content) {
  const auto checksum = checksum_text(kind.checksum(content));
  content.back() = ',';
  content += c10::str('"', kChecksumKey, "\":\"", checksum, "\"}");
}

} // namespace weft
