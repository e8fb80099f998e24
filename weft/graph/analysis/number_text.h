#pragma once

#include <cstdint>
#include <string>

namespace weft::graph {

/// A number with thousands separators: "1,234,567".
inline std::string count_text(int64_t count) {
  auto text = std::to_string(count);
  for (auto place = static_cast<int64_t>(text.size()) - 3; place > (count < 0 ? 1 : 0); place -= 3) {
    text.insert(place, ",");
  }
  return text;
}

/// A number of bytes with about three significant digits: "832 bytes", "1.5 KB", "24.1 MB".
inline std::string byte_text(int64_t bytes) {
  constexpr int64_t kThousand = 1000;
  if (bytes < kThousand) {
    return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  }
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  int64_t unit = kThousand;
  size_t index = 0;
  while (index < 3 && bytes >= unit * kThousand) {
    unit *= kThousand;
    ++index;
  }
  const auto tenths = (bytes * 10 + unit / 2) / unit;
  const bool is_long = tenths >= 1000;
  return (is_long ? std::to_string((tenths + 5) / 10)
                  : std::to_string(tenths / 10) + "." + std::to_string(tenths % 10)) +
      " " + kUnits[index];
}

} // namespace weft::graph
