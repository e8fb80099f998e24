#pragma once

namespace weft {

/// Operators of other libraries than ATen (TORCH_LIBRARY, torch.library), whenever they are defined. On distributed
/// tensors they run as ATen's do: by a registered rule (register_rule), or else on replicated operands. Composite ones,
/// whose kernel calls other operators and has no derivative of its own (CompositeImplicitAutograd), run as these.
///
/// Random operators get a generator that is the same on all ranks if they take one, else they raise, because their
/// replicas would differ. So do collectives, which mean this rank's local tensor.
///
/// Registers the kernels of operators that have none for the dispatch key of distributed tensors.
void register_foreign_operators();

/// Gives operators that were defined since the last call a kernel of their own where they have one for all keys
/// (CompositeExplicitAutograd), as those of torch.library.custom_op: it would be called with distributed tensors.
void adopt_new_operators();

} // namespace weft
