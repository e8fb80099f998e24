#include "weft/graph/pt2/serialized_enums.h"

#include <utility>

namespace weft::graph {

namespace {

using c10::ScalarType;

constexpr std::pair<int64_t, ScalarType> kScalarTypes[] = {
    {1, ScalarType::Byte},
    {2, ScalarType::Char},
    {3, ScalarType::Short},
    {4, ScalarType::Int},
    {5, ScalarType::Long},
    {6, ScalarType::Half},
    {7, ScalarType::Float},
    {8, ScalarType::Double},
    {9, ScalarType::ComplexHalf},
    {10, ScalarType::ComplexFloat},
    {11, ScalarType::ComplexDouble},
    {12, ScalarType::Bool},
    {13, ScalarType::BFloat16},
    {28, ScalarType::UInt16},
    {29, ScalarType::Float8_e4m3fn},
    {30, ScalarType::Float8_e5m2},
    {31, ScalarType::Float8_e4m3fnuz},
    {32, ScalarType::Float8_e5m2fnuz},
    {33, ScalarType::Float8_e8m0fnu},
    {34, ScalarType::UInt32},
    {35, ScalarType::UInt64},
};

constexpr std::pair<int64_t, c10::Layout> kLayouts[] = {
    {1, c10::Layout::Sparse},    {2, c10::Layout::SparseCsr}, {3, c10::Layout::SparseCsc}, {4, c10::Layout::SparseBsr},
    {5, c10::Layout::SparseBsc}, {6, c10::Layout::Mkldnn},    {7, c10::Layout::Strided},
};

constexpr std::pair<int64_t, c10::MemoryFormat> kMemoryFormats[] = {
    {1, c10::MemoryFormat::Contiguous},
    {2, c10::MemoryFormat::ChannelsLast},
    {3, c10::MemoryFormat::ChannelsLast3d},
    {4, c10::MemoryFormat::Preserve},
};

template <class Table>
auto value_of(const Table& table, int64_t number) -> std::optional<decltype(table[0].second)> {
  for (const auto& [own, value] : table) {
    if (own == number) {
      return value;
    }
  }
  return std::nullopt;
}

template <class Table, class Value>
std::optional<int64_t> number_of(const Table& table, Value wanted) {
  for (const auto& [number, value] : table) {
    if (value == wanted) {
      return number;
    }
  }
  return std::nullopt;
}

} // namespace

std::optional<c10::ScalarType> scalar_type_of_serialized(int64_t number) {
  return value_of(kScalarTypes, number);
}
std::optional<int64_t> serialized_scalar_type(c10::ScalarType type) {
  return number_of(kScalarTypes, type);
}
std::optional<c10::Layout> layout_of_serialized(int64_t number) {
  return value_of(kLayouts, number);
}
std::optional<int64_t> serialized_layout(c10::Layout layout) {
  return number_of(kLayouts, layout);
}
std::optional<c10::MemoryFormat> memory_format_of_serialized(int64_t number) {
  return value_of(kMemoryFormats, number);
}
std::optional<int64_t> serialized_memory_format(c10::MemoryFormat format) {
  return number_of(kMemoryFormats, format);
}

} // namespace weft::graph
