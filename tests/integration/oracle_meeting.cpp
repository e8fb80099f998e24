#include "tests/integration/oracle_meeting.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::testing {

namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Shapes and ranks differ between ranks; what is said of them must not.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0 || c == ',' || c == ' '; });
  return text;
}

} // namespace

Verdict judge(const std::vector<RankOutcome>& ranks) {
  const auto raised = [](const RankOutcome& rank) { return rank.kind == RankOutcome::Kind::Raised; };
  const auto count = std::count_if(ranks.begin(), ranks.end(), raised);
  const auto same_error = [&](const RankOutcome& rank) {
    return without_numbers(first_line(rank.text)) == without_numbers(first_line(ranks[0].text));
  };
  if (count == static_cast<int64_t>(ranks.size()) && std::all_of(ranks.begin(), ranks.end(), same_error)) {
    return {Verdict::Kind::Refused, ranks[0].text};
  }
  if (count > 0) {
    std::string text = "ranks disagree:";
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      text += c10::str("\n  rank ", rank, ": ", raised(ranks[rank]) ? first_line(ranks[rank].text) : "no error");
    }
    return {Verdict::Kind::Disagree, text};
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].kind == RankOutcome::Kind::Wrong) {
      return {Verdict::Kind::Wrong, c10::str("on rank ", rank, " ", ranks[rank].text)};
    }
  }
  return {};
}

} // namespace weft::testing
