#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace weft {

/// The number of the next item of some work; none when there are no more, or when another thread has failed.
using NextItem = std::function<std::optional<size_t>()>;

/// Runs `work` on this thread and on others, `threads` in all. Its calls of next() give the items 0, 1, ..., count - 1, each to one
/// thread. Returns when all threads have ended, and raises the first error of any. Where the system refuses more threads, those
/// that there are do the work.
///
///   share_work(4, files.size(), [&](const NextItem& next) {
///     while (const auto i = next()) {
///       read(files[*i]);
///     }
///   });
void share_work(size_t threads, size_t count, const std::function<void(const NextItem& next)>& work);

} // namespace weft
