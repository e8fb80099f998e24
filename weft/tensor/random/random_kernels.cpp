#include "weft/tensor/random/random_kernels.h"

#include "weft/tensor/random/random_dropout.h"
#include "weft/tensor/random/random_fallback.h"
#include "weft/tensor/random/random_in_place.h"
#include "weft/tensor/random/random_like.h"
#include "weft/tensor/random/random_multinomial.h"

namespace weft {

void register_random(torch::Library& library) {
  register_random_in_place(library);
  register_random_like(library);
  register_random_dropout(library);
  register_random_multinomial(library);
  register_random_fallback(library);
}

} // namespace weft
