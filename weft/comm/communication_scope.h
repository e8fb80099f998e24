#pragma once

namespace weft {

/// Whether this thread may communicate now. It may not while its operators are recorded to be replayed, because a
/// recorder does not see what a group does: collectives raise then, before they send anything. The recorder allows
/// those that it records, and checks allow themselves those that change no tensor.
class CommunicationScope {
 public:
  explicit CommunicationScope(bool is_allowed);
  ~CommunicationScope();
  CommunicationScope(const CommunicationScope&) = delete;
  CommunicationScope& operator=(const CommunicationScope&) = delete;

  static bool is_allowed();

 private:
  bool outer_;
};

} // namespace weft
