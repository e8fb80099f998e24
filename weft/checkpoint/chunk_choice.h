#pragma once

#include "weft/checkpoint/read_items.h"

#include <map>
#include <optional>

namespace weft {

/// Says which chunks of a stored part a rank verifies although it wants only some of their elements: each chunk has one element that
/// decides, and the rank that wants this element verifies the chunk. So no rank has to know what the others want, and since the ranks
/// together want all elements, each chunk is verified by at least one of them.
class ChunkChoice {
 public:
  ChunkChoice(const ReadTarget& target, size_t part);

  /// Whether this rank verifies the chunk of this number.
  bool is_chosen(uint64_t number);

 private:
  bool is_wanted(const ReadBox& box, uint64_t element) const;
  std::map<uint64_t, std::vector<ReadBox>> boxes_of_chunks() const;

  const ReadTarget& target_;
  const StoredPart& part_;
  uint64_t number_of_part_;
  uint64_t element_bytes_;
  ReadBox box_;      // of all elements of the part
  bool is_in_order_; // the chunks have these elements one after the other, and no others
  std::optional<std::map<uint64_t, std::vector<ReadBox>>> boxes_ = {}; // else the elements by chunks
};

} // namespace weft
