#include "hw/energy.h"

namespace attenio::hw {

void AddEnergy(const Accelerator& a, Projection* p) {
  const auto millijoule = [&a](double milliwatt, double cycles) { return milliwatt * cycles / a.clock_hz; };
  const auto pe = static_cast<double>(p->pe_busy);
  p->energy_mj.pe = millijoule(a.pe.power_mw, pe);
  p->energy_mj.exp = millijoule(a.exp.power_mw, static_cast<double>(p->exp_busy));
  p->energy_mj.kv_buffer = millijoule(a.kv_buffer.power_mw, pe);  // feeds the array
  p->energy_mj.cache =
      millijoule(a.cache.power_mw, static_cast<double>(p->cycles));  // serves one unit or another, always on
  p->energy_mj.memory = p->bytes.total() * a.memory_pj_per_byte * 1e-9;
  const double per_second = 1 / p->seconds;
  p->power_mw = {p->energy_mj.pe * per_second, p->energy_mj.exp * per_second, p->energy_mj.kv_buffer * per_second,
                 p->energy_mj.cache * per_second, p->energy_mj.memory * per_second};
}

}  // namespace attenio::hw
