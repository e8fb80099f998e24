#include "weft/overlap/overlap_cost.h"

#include "weft/overlap/chunk_pipeline.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace weft {

namespace {

/// Below these limits, further messages and matmuls cost what could be gained, on any link and device: the bytes fit
/// into buffers of the transport and arrive before there is anything to hide.
constexpr double kFewBytes = 96 << 10;
constexpr double kFewFlops = 2e6;

/// A fused call must gain this fraction of its time, and this fraction of the latency, because the model is not exact
/// and the time to wake up for messages varies.
constexpr double kMargin = 0.03;
constexpr double kWakeMargin = 0.25; // of the latency

constexpr std::array<int64_t, 5> kChunks = {2, 4, 8, 16, 32};

struct Extent {
  double rows;
  double inner;
  double columns;
};

double flops(const Extent& extent) {
  return 2 * extent.rows * extent.inner * extent.columns;
}

class Model {
 public:
  Model(const OverlapCase& overlap, const Link& link, const Compute& compute)
      : overlap_(overlap),
        link_(link),
        compute_(compute),
        full_{
            static_cast<double>(overlap.rows), static_cast<double>(overlap.inner),
            static_cast<double>(overlap.columns)},
        others_(static_cast<double>(overlap.members - 1)),
        element_bytes_(static_cast<double>(overlap.element_bytes)) {}

  double received_bytes() const {
    return others_ * member_bytes();
  }
  double collective_seconds() const {
    return link_.latency_seconds + received_bytes() / link_.bytes_per_second + shuffle_seconds();
  }
  double matmul_seconds() const {
    return matmul_seconds(full_);
  }
  double unfused_seconds() const {
    return collective_seconds() + matmul_seconds();
  }

  /// The largest number of chunks into which a member's shard can be divided.
  int64_t most_chunks() const {
    const auto size = overlap_.dim == OverlapDim::Rows ? overlap_.rows
        : overlap_.dim == OverlapDim::Inner            ? overlap_.inner
                                                       : overlap_.columns;
    return std::max<int64_t>(size / overlap_.members, 1);
  }

  double fused_seconds(int64_t chunks) const {
    const auto pace = pace_of(chunks);
    const auto seconds = overlap_.members == 2 && overlap_.kind == OverlapKind::MatmulScatter
        ? scatter_between_two_seconds(pace)
        : ring_seconds(pace);
    // First the members tell each other of their posted receives.
    return link_.latency_seconds + seconds;
  }

 private:
  /// Seconds, if a member's shard is divided into `count` chunks.
  struct Pace {
    double count;
    double transfer; // of a chunk
    double chunk;    // to compute with a chunk that is sent or received, and to handle its message
    double own;      // to compute with the own shard
  };

  Pace pace_of(int64_t chunks) const {
    const auto count = static_cast<double>(chunks);
    const auto chunk_bytes = member_bytes() / count;
    const auto blocks = static_cast<double>(overlap_.members == 2 ? std::min(chunks, kOwnBlocks) : chunks);
    return {
        .count = count,
        .transfer = compute_.message_seconds + chunk_bytes / link_.bytes_per_second,
        .chunk = matmul_seconds(chunk_extent(count)) + adding_seconds(chunk_bytes) + compute_.message_seconds +
            chunk_bytes / compute_.message_bytes_per_second,
        .own = blocks * (matmul_seconds(chunk_extent(blocks)) + adding_seconds(member_bytes() / blocks))};
  }

  /// The arrival time of chunk c of hop h of a gather is linear in c and h, and so is the compute time that then
  /// remains. So the chunk that determines the total time is the first or the last one of the first or the last hop. A
  /// scatter is the same backwards, except that a member computes its own chunks between those of the others: one
  /// follows its last message.
  double ring_seconds(const Pace& pace) const {
    const auto& [count, transfer, chunk, own] = pace;
    // The next hop of a shard begins with a chunk that has completed the hop before.
    const auto hop = std::max(count * transfer, link_.latency_seconds + transfer);
    const auto arrival = [&](double h, double c) { return link_.latency_seconds + h * hop + (c + 1) * transfer; };
    const auto until_end = [&](double h, double c) { return arrival(h, c) + ((others_ - h) * count - c) * chunk; };
    const auto busy = own + others_ * count * chunk;
    auto seconds = std::max(
        {busy, until_end(0, 0), until_end(0, count - 1), until_end(others_ - 1, 0), until_end(others_ - 1, count - 1)});
    if (overlap_.kind == OverlapKind::MatmulScatter) {
      const auto first = chunk + until_end(others_ - 1, count - 1);
      const auto last = busy - chunk + link_.latency_seconds + transfer;
      seconds = std::max({seconds, first, last});
    }
    return seconds;
  }

  /// A member computes the other's chunks first, and adds the received terms when all have arrived.
  double scatter_between_two_seconds(const Pace& pace) const {
    const auto& [count, transfer, chunk, own] = pace;
    const auto sent = chunk + std::max(count * transfer, (count - 1) * chunk + transfer);
    return std::max(count * chunk + own, sent + link_.latency_seconds) + summing_seconds();
  }

  /// The sizes of the matmul of one chunk, if a member's shard is divided into that many chunks.
  Extent chunk_extent(double chunks) const {
    auto extent = full_;
    auto& divided = overlap_.dim == OverlapDim::Rows ? extent.rows
        : overlap_.dim == OverlapDim::Inner          ? extent.inner
                                                     : extent.columns;
    divided /= static_cast<double>(overlap_.members) * chunks;
    return extent;
  }

  double member_bytes() const {
    const bool gathers = overlap_.kind == OverlapKind::GatherMatmul;
    return element_bytes_ * full_.rows * (gathers ? full_.inner : full_.columns) /
        static_cast<double>(overlap_.members);
  }

  double matmul_seconds(const Extent& extent) const {
    const auto matmuls = static_cast<double>(overlap_.matmuls);
    const auto bytes = element_bytes_ *
        (matmuls * extent.rows * extent.inner + extent.inner * extent.columns + extent.rows * extent.columns);
    return matmuls * compute_.call_seconds + flops(extent) / compute_.flops_per_second +
        bytes / compute_.bytes_per_second;
  }

  /// The time of a collective apart from sending: shards of rows are received in place, others are copied; those of a
  /// scatter are summed.
  double shuffle_seconds() const {
    const auto copied = overlap_.dim == OverlapDim::Rows ? 0 : 2 * (others_ + 1) * member_bytes();
    return copied / compute_.bytes_per_second + (overlap_.kind == OverlapKind::MatmulScatter ? summing_seconds() : 0);
  }

  /// The time to sum the terms of all members: to read them, add them and write the sum.
  double summing_seconds() const {
    return (others_ + 2) * member_bytes() / compute_.bytes_per_second;
  }

  /// The time to add the product of a chunk to a partial sum, in a scatter round the ring or in a gather of the inner
  /// dim.
  double adding_seconds(double chunk_bytes) const {
    if (overlap_.kind == OverlapKind::MatmulScatter) {
      return overlap_.members == 2 ? 0 : chunk_bytes / compute_.bytes_per_second;
    }
    return overlap_.dim == OverlapDim::Inner ? element_bytes_ * full_.rows * full_.columns / compute_.bytes_per_second
                                             : 0;
  }

  const OverlapCase& overlap_;
  const Link& link_;
  const Compute& compute_;
  Extent full_;
  double others_;
  double element_bytes_;
};

void check_rates(const Link& link, const Compute& compute) {
  TORCH_CHECK_VALUE(
      link.latency_seconds >= 0 && link.bytes_per_second > 0,
      "[choose_overlap] a link with a rate is required, but got ", to_string(link), ".");
  TORCH_CHECK_VALUE(
      compute.flops_per_second > 0 && compute.bytes_per_second > 0 && compute.message_bytes_per_second > 0,
      "[choose_overlap] a device with rates is required, but got ", to_string(compute), ".");
}

std::string chunks_text(int64_t chunks) {
  return chunks == 1 ? "undivided shards" : std::to_string(chunks) + " chunks";
}

std::string reason_of(const Model& model, const OverlapChoice& choice, const Link& link) {
  if (choice.fuse) {
    return chunks_text(choice.chunks) + " take " + seconds_text(choice.fused_seconds) + " instead of " +
        seconds_text(choice.unfused_seconds);
  }
  const auto matmul = model.matmul_seconds();
  if (matmul < link.latency_seconds) {
    return "the matmul takes " + seconds_text(matmul) + ", less than the latency of a message, " +
        seconds_text(link.latency_seconds);
  }
  const auto collective = model.collective_seconds();
  if (collective < kMargin * matmul) {
    return "the collective takes " + seconds_text(collective) + ", next to nothing compared with the matmul's " +
        seconds_text(matmul);
  }
  return chunks_text(choice.chunks) + " would take " + seconds_text(choice.fused_seconds) +
      ", which is not clearly less than the " + seconds_text(choice.unfused_seconds) + " of one after the other";
}

} // namespace

bool too_small_to_overlap(const OverlapCase& overlap) {
  const auto rows = static_cast<double>(overlap.rows);
  const auto inner = static_cast<double>(overlap.inner);
  const auto columns = static_cast<double>(overlap.columns);
  const auto sent = rows * (overlap.kind == OverlapKind::GatherMatmul ? inner : columns);
  const auto others = static_cast<double>(overlap.members - 1);
  const auto received =
      sent * static_cast<double>(overlap.element_bytes) * others / static_cast<double>(overlap.members);
  return overlap.members < 2 || received < kFewBytes || flops({rows, inner, columns}) < kFewFlops;
}

OverlapChoice choose_overlap(const OverlapCase& overlap, const Link& link, const Compute& compute) {
  check_rates(link, compute);
  const Model model(overlap, link, compute);
  OverlapChoice choice{
      .fuse = false, .chunks = 1, .unfused_seconds = model.unfused_seconds(), .fused_seconds = 0, .reason = {}};
  if (overlap.members < 2) {
    choice.fused_seconds = choice.unfused_seconds;
    choice.reason = "a group of one sends nothing";
    return choice;
  }
  choice.fused_seconds = model.fused_seconds(1);
  const auto most = model.most_chunks();
  for (const auto chunks : kChunks) {
    if (chunks > most) {
      break;
    }
    const auto seconds = model.fused_seconds(chunks);
    if (seconds < choice.fused_seconds) {
      choice.chunks = chunks;
      choice.fused_seconds = seconds;
    }
  }
  if (too_small_to_overlap(overlap)) {
    choice.reason = "too little is sent or computed for any link";
    return choice;
  }
  choice.fuse = choice.fused_seconds * (1 + kMargin) + kWakeMargin * link.latency_seconds < choice.unfused_seconds;
  choice.reason = reason_of(model, choice, link);
  return choice;
}

} // namespace weft
