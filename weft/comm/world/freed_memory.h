#pragma once

namespace weft {

/// Makes malloc keep the memory that a step frees for the next step, as far as it does so by itself in a program that has freed
/// one large block.
///
/// glibc maps blocks above one threshold anew for every allocation, and returns the end of its heap above another one to the
/// kernel, so that the temporaries of each training step are paged in again: 18,000 pages and an eighth of the time in a step
/// of a decoder of dim 512. Both thresholds grow with the blocks that are freed, up to 32 MiB and 64 MiB. What the user sets
/// (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_) and other allocators stay in force.
void keep_freed_memory();

} // namespace weft
