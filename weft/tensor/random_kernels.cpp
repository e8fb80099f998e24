#include "weft/tensor/random_kernels.h"

#include "weft/tensor/random_dropout.h"
#include "weft/tensor/random_fallback.h"
#include "weft/tensor/random_in_place.h"
#include "weft/tensor/random_like.h"

namespace weft {

void register_random(torch::Library& library) {
  register_random_in_place(library);
  register_random_like(library);
  register_random_dropout(library);
  register_random_fallback(library);
}

} // namespace weft
