#include "weft/tensor/random/random_cpu.h"

#include "weft/tensor/random/random_with_sampler.h"

#include <ATen/Parallel.h>

#include <algorithm>

#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))

namespace weft {

namespace {

/// The blocks of one group, indexed by word and then by lane, so that a compiler vectorizes over the lanes.
struct GroupBlocks {
  alignas(64) uint32_t words[4][kLanes];
};

WEFT_ALWAYS_INLINE void make_blocks_body(RandomCall call, int64_t group, GroupBlocks& blocks) {
  auto& w = blocks.words;
  const auto first = static_cast<uint64_t>(group) * kLanes;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    // A group begins at a multiple of kLanes: its lanes do not carry into the upper word.
    w[0][lane] = static_cast<uint32_t>(first) + static_cast<uint32_t>(lane);
    w[1][lane] = static_cast<uint32_t>(first >> 32);
    w[2][lane] = static_cast<uint32_t>(call.number);
    w[3][lane] = static_cast<uint32_t>(call.number >> 32);
  }
  auto key0 = static_cast<uint32_t>(call.seed);
  auto key1 = static_cast<uint32_t>(call.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      philox_round(w[0][lane], w[1][lane], w[2][lane], w[3][lane], key0, key1);
    }
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
}

template <class Sampler>
WEFT_ALWAYS_INLINE void sample_body(const Sampler& given, const GroupBlocks& blocks, typename Sampler::Value* values) {
  const auto& w = blocks.words;
  const Sampler sampler = given; // a copy, which the values cannot alias
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t words[4] = {w[0][lane], w[1][lane], w[2][lane], w[3][lane]};
    typename Sampler::Value out[Sampler::kPerBlock];
    sampler(words, out);
    for (int64_t k = 0; k < Sampler::kPerBlock; ++k) {
      values[k * kLanes + lane] = out[k];
    }
  }
}

/// The two halves of filling a group. They are functions of their own, because a compiler that sees them as one no
/// longer vectorizes the first.
template <class Sampler>
struct GroupFunctions {
  void (*make_blocks)(RandomCall call, int64_t group, GroupBlocks& blocks);
  void (*sample)(const Sampler& sampler, const GroupBlocks& blocks, typename Sampler::Value* values);
};

__attribute__((noinline)) void make_blocks(RandomCall call, int64_t group, GroupBlocks& blocks) {
  make_blocks_body(call, group, blocks);
}

template <class Sampler>
void sample(const Sampler& sampler, const GroupBlocks& blocks, typename Sampler::Value* values) {
  sample_body(sampler, blocks, values);
}

#ifdef __x86_64__
/// The same code on wider vectors. It has no fused multiplications: the numbers are the same bits.
__attribute__((target("avx2"), noinline)) void make_blocks_avx2(RandomCall call, int64_t group, GroupBlocks& blocks) {
  make_blocks_body(call, group, blocks);
}

template <class Sampler>
__attribute__((target("avx2"))) void sample_avx2(
    const Sampler& sampler,
    const GroupBlocks& blocks,
    typename Sampler::Value* values) {
  sample_body(sampler, blocks, values);
}

template <class Sampler>
GroupFunctions<Sampler> fastest_functions() {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? GroupFunctions<Sampler>{make_blocks_avx2, sample_avx2<Sampler>}
                  : GroupFunctions<Sampler>{make_blocks, sample<Sampler>};
}
#else
template <class Sampler>
GroupFunctions<Sampler> fastest_functions() {
  return {make_blocks, sample<Sampler>};
}
#endif

/// Writes ranges of elements, group by group. Keeps the last group of which only some numbers were used, because the
/// next row often needs the others.
template <class T, class Sampler>
class RangeWriter {
 public:
  RangeWriter(const Sampler& sampler, RandomCall call) : sampler_(sampler), call_(call) {}

  /// Writes the numbers of the elements begin, begin + 1, ... to `out`.
  void write(int64_t begin, int64_t count, T* out) {
    while (count > 0) {
      const auto group = begin / kSize;
      const auto offset = begin % kSize;
      const auto length = std::min(kSize - offset, count);
      if (std::is_same_v<T, Value> && length == kSize) {
        fill_group(group, reinterpret_cast<Value*>(out));
      } else {
        if (group != kept_group_) {
          fill_group(group, kept_);
          kept_group_ = group;
        }
        for (int64_t i = 0; i < length; ++i) {
          out[i] = static_cast<T>(kept_[offset + i]);
        }
      }
      begin += length;
      out += length;
      count -= length;
    }
  }

 private:
  using Value = typename Sampler::Value;
  static constexpr int64_t kSize = kLanes * Sampler::kPerBlock;

  void fill_group(int64_t group, Value* values) {
    GroupBlocks blocks;
    functions_.make_blocks(call_, group, blocks);
    functions_.sample(sampler_, blocks, values);
  }

  const Sampler& sampler_;
  RandomCall call_;
  GroupFunctions<Sampler> functions_ = fastest_functions<Sampler>();
  int64_t kept_group_ = -1;
  alignas(64) Value kept_[kSize];
};

/// Writes the local elements [begin, end).
template <class T, class Sampler>
void write_local_range(
    RangeWriter<T, Sampler>& writer,
    const LocalIndices& indices,
    int64_t begin,
    int64_t end,
    T* out) {
  auto row = begin / indices.row_length();
  auto position = begin % indices.row_length();
  while (begin < end) {
    const auto row_begin = indices.row_begin(row);
    auto run_position = position;
    for (const auto& run : indices.runs()) {
      if (run_position >= run.length) {
        run_position -= run.length;
        continue;
      }
      const auto count = std::min(run.length - run_position, end - begin);
      writer.write(row_begin + run.begin + run_position, count, out + begin);
      begin += count;
      run_position = 0;
    }
    ++row;
    position = 0;
  }
}

} // namespace

void fill_random_cpu(
    const at::Tensor& contiguous,
    const LocalIndices& indices,
    const Distribution& distribution,
    RandomCall call) {
  with_sampler(contiguous.scalar_type(), distribution, [&]<class T>(const auto& sampler) {
    auto* const out = contiguous.mutable_data_ptr<T>();
    constexpr int64_t kGrain = 32768;
    at::parallel_for(0, contiguous.numel(), kGrain, [&](int64_t begin, int64_t end) {
      RangeWriter<T, std::remove_cvref_t<decltype(sampler)>> writer(sampler, call);
      write_local_range(writer, indices, begin, end, out);
    });
  });
}

} // namespace weft
