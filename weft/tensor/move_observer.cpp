#include "weft/tensor/move_observer.h"

namespace weft {

namespace {

thread_local MoveObserver* current = nullptr;

} // namespace

MoveObserver* MoveObserver::of_thread() {
  return current;
}

MoveObserver::MoveObserver() : outer_(current) {
  current = this;
}

MoveObserver::~MoveObserver() {
  current = outer_;
}

} // namespace weft
