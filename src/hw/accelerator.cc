// Hardware parameters: presets, scaling, and what makes no sense.
#include <algorithm>
#include <cmath>

#include "attenio/hw.h"

namespace attenio {
namespace {

Status Positive(const char* what, int64_t value) {
  if (value > 0) return {};
  return Status::Error(Code::kInvalidArgument, "accelerator: %s is %lld, must be positive", what,
                       static_cast<long long>(value));
}

Status NotNegative(const char* what, int64_t value) {
  if (value >= 0) return {};
  return Status::Error(Code::kInvalidArgument, "accelerator: %s is %lld, must not be negative", what,
                       static_cast<long long>(value));
}

Status PositiveReal(const char* what, double value) {
  if (std::isfinite(value) && value > 0) return {};
  return Status::Error(Code::kInvalidArgument, "accelerator: %s is %g, must be positive and finite", what, value);
}

Status Rating(const char* what, const ComponentRating& rating) {
  for (const double value : {rating.area_mm2, rating.power_mw}) {
    if (!(std::isfinite(value) && value >= 0)) {
      return Status::Error(Code::kInvalidArgument, "accelerator: area or power of the %s is %g, must not be negative",
                           what, value);
    }
  }
  return {};
}

// Large enough for any hardware, small enough that no product of two of them overflows.
constexpr int64_t kMost = int64_t{1} << 40;

}  // namespace

Status Validate(const Accelerator& a) {
  const std::pair<const char*, int64_t> counts[] = {
      {"mac_lines", a.mac_lines},     {"macs_per_line", a.macs_per_line},     {"exp_modules", a.exp_modules},
      {"cache_bytes", a.cache_bytes}, {"memory_channels", a.memory_channels}, {"element_bytes", a.element_bytes},
      {"spill_rows", a.spill_rows},   {"mac_exp_cycles", a.mac_exp_cycles},
  };
  for (const auto& [what, value] : counts) {
    if (Status s = Positive(what, value); !s.ok()) return s;
    if (value > kMost) {
      return Status::Error(Code::kInvalidArgument, "accelerator: %s is %lld, more than 2^40", what,
                           static_cast<long long>(value));
    }
  }
  if (a.mac_lines > kMost / a.macs_per_line) {
    return Status::Error(Code::kInvalidArgument, "accelerator: mac_lines x macs_per_line is more than 2^40");
  }
  const std::pair<const char*, int64_t> delays[] = {{"kv_buffer_bytes", a.kv_buffer_bytes},
                                                    {"memory_latency_cycles", a.memory_latency_cycles},
                                                    {"softmax_overlap_cycles", a.softmax_overlap_cycles}};
  for (const auto& [what, value] : delays) {
    if (Status s = NotNegative(what, std::min(value, kMost)); !s.ok()) return s;
  }
  for (const auto& [what, value] :
       {std::pair{"channel_bytes_per_second", a.channel_bytes_per_second}, std::pair{"clock_hz", a.clock_hz},
        std::pair{"demand_efficiency", a.demand_efficiency}}) {
    if (Status s = PositiveReal(what, value); !s.ok()) return s;
  }
  if (a.demand_efficiency > 1) {
    return Status::Error(Code::kInvalidArgument, "accelerator: demand_efficiency is %g, must not exceed 1",
                         a.demand_efficiency);
  }
  if (!(std::isfinite(a.memory_pj_per_byte) && a.memory_pj_per_byte >= 0)) {
    return Status::Error(Code::kInvalidArgument, "accelerator: memory_pj_per_byte is %g, must not be negative",
                         a.memory_pj_per_byte);
  }
  for (const auto& [what, rating] : {std::pair{"PE array", a.pe}, std::pair{"EXP unit", a.exp},
                                     std::pair{"KV buffer", a.kv_buffer}, std::pair{"cache", a.cache}}) {
    if (Status s = Rating(what, rating); !s.ok()) return s;
  }
  return {};
}

Accelerator FusemaxCloud() {
  Accelerator a;
  a.name = "fusemax-cloud";
  a.mac_lines = 256;
  a.macs_per_line = 256;
  a.exp_modules = 256;
  a.kv_buffer_bytes = 0;
  a.cache_bytes = int64_t{16} << 20;
  a.memory_channels = 1;
  a.channel_bytes_per_second = 400.0 * (1 << 30);
  a.clock_hz = 940e6;
  a.demand_efficiency = 1;  // the artifact divides traffic by the peak bandwidth
  a.decoupled = true;
  a.spill_when_cheaper = true;
  a.pe = a.exp = a.kv_buffer = a.cache = {};
  return a;
}

Result<Accelerator> ScaledAttenio(double peak_flops) {
  Accelerator a;
  const double factor = peak_flops / a.peak_flops();
  const double most = static_cast<double>(kMost) / static_cast<double>(a.cache_bytes);
  if (!(std::isfinite(factor) && factor * static_cast<double>(a.mac_lines) >= 1 && factor <= most)) {
    return Status::Error(Code::kInvalidArgument,
                         "accelerator: a peak of %g flop/s is not between one line of MACs (%g) and %g", peak_flops,
                         a.peak_flops() / static_cast<double>(a.mac_lines), most * a.peak_flops());
  }
  a.mac_lines = std::llround(factor * static_cast<double>(a.mac_lines));
  // Everything follows the whole number of lines, so that the machine stays as balanced as the paper's.
  const double scale = static_cast<double>(a.mac_lines) / static_cast<double>(Accelerator{}.mac_lines);
  const auto whole = [scale](int64_t value) {
    return std::max<int64_t>(1, std::llround(scale * static_cast<double>(value)));
  };
  a.name = "attenio-scaled";
  a.exp_modules = whole(a.exp_modules);
  a.cache_bytes = whole(a.cache_bytes);
  a.channel_bytes_per_second *= scale;  // wider channels: their number need not be whole
  for (ComponentRating* rating : {&a.pe, &a.exp, &a.cache}) {
    rating->area_mm2 *= scale;
    rating->power_mw *= scale;
  }
  return a;
}

}  // namespace attenio
