#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

namespace weft {

/// As redistribute, but a second call for the same tensor, unchanged, and the same layout from another place returns
/// the first result without communication. So an input of three modules is gathered once, and the sum of its gradients
/// is reduced once.
///
/// `place` identifies the caller: the input of one module. A second call from the same place means that the module is
/// called again. Since then the tensor may have been written to in ways that no counter sees (by numpy, to the memory
/// of to_local()), so that the values are communicated again. Such writes between two modules of one forward are not
/// noticed. All ranks decide alike, because the decision depends only on the program's calls.
///
/// The tensor keeps a result that has memory of its own. A result that shares the tensor's memory is a new view at
/// every call; the gradients of all these views are added up before they are communicated.
at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout, const void* place);

} // namespace weft
