#include "weft/comm/communication_scope.h"

#include <utility>

namespace weft {

namespace {

thread_local bool may_communicate = true;

} // namespace

CommunicationScope::CommunicationScope(bool is_allowed) : outer_(std::exchange(may_communicate, is_allowed)) {}

CommunicationScope::~CommunicationScope() {
  may_communicate = outer_;
}

bool CommunicationScope::is_allowed() {
  return may_communicate;
}

} // namespace weft
