#include "weft/overlap/rates.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace weft {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

/// Units from the largest down, as printing needs them; units that are only parsed come last.
constexpr std::array<Unit, 4> kTimes = {{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
constexpr std::array<Unit, 5> kBytes = {{{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}}};
constexpr std::array<Unit, 3> kBits = {{{"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"kbit/s", 1e3 / 8}}};
constexpr std::array<Unit, 5> kFlops = {
    {{"Pflop/s", 1e15}, {"Tflop/s", 1e12}, {"Gflop/s", 1e9}, {"Mflop/s", 1e6}, {"flop/s", 1}}};

/// Reads numbers with units between commas.
class Reader {
 public:
  Reader(std::string_view where, std::string_view text, std::string_view form)
      : where_(where), text_(text), rest_(text), form_(form) {}

  double time() {
    return next({kTimes}, /*may_be_zero=*/true);
  }
  double bytes() {
    return next({kBytes, kBits}, false);
  }
  double flops() {
    return next({kFlops}, false);
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  void expect_end() {
    check(at_end());
  }

 private:
  double next(std::initializer_list<c10::ArrayRef<Unit>> kinds, bool may_be_zero) {
    if (started_) {
      skip_spaces();
      check(rest_.starts_with(','));
      rest_.remove_prefix(1);
    }
    started_ = true;
    skip_spaces();
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    check(error == std::errc() && std::isfinite(value) && (may_be_zero ? value >= 0 : value > 0));
    rest_.remove_prefix(end - rest_.data());
    skip_spaces();
    const auto name = rest_.substr(0, std::min(rest_.find_first_of(", "), rest_.size()));
    for (const auto units : kinds) {
      for (const auto& unit : units) {
        if (unit.name == name) {
          rest_.remove_prefix(name.size());
          return value * unit.factor;
        }
      }
    }
    check(false);
    return 0;
  }

  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
  }

  void check(bool ok) const {
    TORCH_CHECK_VALUE(
        ok, "[", where_, "] ", form_, " is required, but got '", text_, "', which is not so from '", rest_, "' on.");
  }

  std::string_view where_;
  std::string_view text_;
  std::string_view rest_;
  std::string_view form_;
  bool started_ = false;
};

std::string text_of(double value, c10::ArrayRef<Unit> units) {
  const auto* unit = std::find_if(units.begin(), units.end() - 1, [&](const Unit& u) { return value >= u.factor; });
  std::array<char, 40> text{};
  const auto length = std::snprintf(text.data(), text.size(), "%.4g", value / unit->factor);
  return std::string(text.data(), length).append(unit->name);
}

} // namespace

Link parse_link(std::string_view text) {
  Reader reader("parse_link", text, "a latency and a rate, as in '50us,125MB/s',");
  Link link{};
  link.latency_seconds = reader.time();
  link.bytes_per_second = reader.bytes();
  reader.expect_end();
  return link;
}

Compute parse_compute(std::string_view text) {
  Reader reader(
      "parse_compute", text,
      "the rates of matmuls and of memory and the time of a call, as in '100Gflop/s,27GB/s,1us', and perhaps the time "
      "of a "
      "message and the rate of messages, as in '...,15us,2GB/s',");
  Compute compute{};
  compute.flops_per_second = reader.flops();
  compute.bytes_per_second = reader.bytes();
  compute.call_seconds = reader.time();
  if (!reader.at_end()) {
    compute.message_seconds = reader.time();
    compute.message_bytes_per_second = reader.bytes();
  }
  reader.expect_end();
  return compute;
}

std::string to_string(const Link& link) {
  return seconds_text(link.latency_seconds) + "," + text_of(link.bytes_per_second, kBytes);
}

std::string to_string(const Compute& compute) {
  auto text = text_of(compute.flops_per_second, kFlops) + "," + text_of(compute.bytes_per_second, kBytes) + "," +
      seconds_text(compute.call_seconds);
  if (std::isfinite(compute.message_bytes_per_second)) {
    text += "," + seconds_text(compute.message_seconds) + "," + text_of(compute.message_bytes_per_second, kBytes);
  }
  return text;
}

std::string seconds_text(double seconds) {
  return text_of(seconds, kTimes);
}

} // namespace weft
