#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/text.h"

#include <ATen/core/Formatting.h>

#include <dlfcn.h>

// Replaces the at::print of ATen, which `stream << tensor` calls. ATen's reads the memory of the global tensor, which
// no rank has. The linker of a program that links Weft finds this one first. Where torch comes first, as in Python,
// ATen's is called and raises. docs/decisions/0007-printing.md explains why.
std::ostream& at::print(std::ostream& stream, const at::Tensor& tensor, int64_t linesize) {
  if (weft::is_dtensor(tensor)) {
    return stream << weft::to_string(tensor);
  }
  using Print = std::ostream& (*)(std::ostream&, const at::Tensor&, int64_t);
  static const auto torch_print = reinterpret_cast<Print>(dlsym(RTLD_NEXT, "_ZN2at5printERSoRKNS_6TensorEl"));
  TORCH_CHECK(torch_print != nullptr, "[print] this torch has no at::print(std::ostream&, const Tensor&, int64_t).");
  return torch_print(stream, tensor, linesize);
}
