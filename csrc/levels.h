// The kernels of the instruction set in use.
#pragma once

#include "capi.h"

namespace fastweights {

const Kernels& kernels_for(std::int64_t element_bytes);

}  // namespace fastweights
