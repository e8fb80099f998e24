#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/text.h"

#include <ATen/core/Formatting.h>

#include <dlfcn.h>

// What `stream << tensor` calls in every program. ATen's own reads the whole tensor's memory, which a distributed one does
// not have on any rank. A program that links Weft finds this one first; where torch comes first, as in Python, ATen's
// raises. docs/decisions/0007-printing.md says why.
std::ostream& at::print(std::ostream& stream, const at::Tensor& tensor, int64_t linesize) {
  if (weft::is_dtensor(tensor)) {
    return stream << weft::to_string(tensor);
  }
  using Print = std::ostream& (*)(std::ostream&, const at::Tensor&, int64_t);
  static const auto torch_print = reinterpret_cast<Print>(dlsym(RTLD_NEXT, "_ZN2at5printERSoRKNS_6TensorEl"));
  TORCH_CHECK(torch_print != nullptr, "[print] this torch has no at::print(std::ostream&, const Tensor&, int64_t).");
  return torch_print(stream, tensor, linesize);
}
