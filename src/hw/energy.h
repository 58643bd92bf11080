// Energy and power of a projection from the ratings of the components.
#ifndef ATTENIO_SRC_HW_ENERGY_H_
#define ATTENIO_SRC_HW_ENERGY_H_

#include "attenio/hw.h"

namespace attenio::hw {

// Fills energy_mj and power_mw from the busy cycles, the bytes and the time.
void AddEnergy(const Accelerator& accelerator, Projection* projection);

}  // namespace attenio::hw

#endif  // ATTENIO_SRC_HW_ENERGY_H_
