#include "weft/tensor/impl/move_observer.h"

namespace weft {

namespace {

thread_local MoveObserver* current_observer = nullptr;

} // namespace

MoveObserver* MoveObserver::of_thread() {
  return current_observer;
}

MoveObserver::MoveObserver() : outer_(current_observer) {
  current_observer = this;
}

MoveObserver::~MoveObserver() {
  current_observer = outer_;
}

} // namespace weft
