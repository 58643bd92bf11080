#include "cli/peaks.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/math.h"
#include "cli/command.h"
#include "kernels/peak.h"
#include "kernels/rates.h"

namespace attenio::cli {
namespace {

constexpr double kSlice = 0.015;  // seconds of one measurement: many time slices of the scheduler, still short
constexpr int kRepeats = 3;

std::atomic<uint64_t> sink;  // keeps the loops

// Calls work(task) for one task per worker, `repeats` times as often as a first trial says fits into kSlice; best units / s.
template <class Work>
double BestRate(const Parallel& parallel, double units, Work work) {
  struct Call {
    Work& work;
    int64_t repeats;
  } call{work, 1};
  const auto run = [&] {
    const double start = Seconds();
    parallel.run(
        parallel.context, parallel.workers,
        [](void* c, int64_t task, int) {
          Call& here = *static_cast<Call*>(c);
          for (int64_t i = 0; i < here.repeats; ++i) here.work(task);
        },
        &call);
    return std::max(Seconds() - start, 1e-9);
  };
  run();
  call.repeats = std::clamp<int64_t>(static_cast<int64_t>(kSlice / run()), 1, 1 << 20);
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    best = std::max(best, units * static_cast<double>(parallel.workers * call.repeats) / run());
  }
  return best;
}

}  // namespace

PeakMeter::PeakMeter(const Parallel& parallel, double read_bytes) : parallel_(parallel) {
  const int64_t wanted = static_cast<int64_t>(std::clamp(read_bytes, 0x1p20, 0x1p29));
  part_ = RoundUp(CeilDiv(wanted, parallel.workers), 1024);
  memory_.resize(static_cast<size_t>(part_ * parallel.workers + 64));
  std::memset(memory_.data(), 1, memory_.size());
  data_ = memory_.data() + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
}

Peaks PeakMeter::Measure(const std::string& kernel) const {
  constexpr int64_t kIterations = 20000;  // a tenth of a millisecond
  const PeakLoops* loops = PeakLoopsFor(kernel);
  if (loops == nullptr) return {};
  Peaks peaks;
  const auto keep = [](auto value) { sink.fetch_add(static_cast<uint64_t>(value), std::memory_order_relaxed); };
  const auto products = [&](double flops, float (*run)(int64_t)) {
    return BestRate(parallel_, flops * static_cast<double>(kIterations), [=](int64_t) { keep(run(kIterations)); });
  };
  peaks.fma_flops = products(loops->flops_per_iteration, loops->fma);
  double instruction_flops = loops->flops_per_product;
  if (loops->dot != nullptr && kernel.rfind("bf16-avx512", 0) == 0) {
    peaks.dot_flops = products(loops->flops_per_dot_iteration, loops->dot);
    instruction_flops = 2 * loops->flops_per_product;  // a dot product of pairs in every f32 lane
  }
  const ProductLoop tensor = TensorBf16Loop(), loads = TensorBf16LoadLoop();
  if (tensor.run != nullptr && kernel.find("amx") != std::string::npos) {
    peaks.tensor_flops = products(tensor.flops_per_iteration, tensor.run);
    peaks.tensor_l1_flops = products(loads.flops_per_iteration, loads.run);
    instruction_flops = tensor.flops_per_iteration / 4;
  }
  constexpr int64_t kAdds = 80000;
  if (DependentAdds(8) > 0) {
    const double clock = BestRate(parallel_, kAdds, [=](int64_t) { keep(DependentAdds(kAdds)); });
    peaks.product_cycles = clock * instruction_flops / ProductFlops(peaks);
  }
  alignas(64) static constexpr float kZeros[1024] = {};
  if (SumOfExp2(kZeros, 64) > 0) {
    peaks.exp_rate = BestRate(parallel_, 1024, [=](int64_t) { keep(SumOfExp2(kZeros, 1024)); });
  }
  peaks.read_bytes = BestRate(parallel_, static_cast<double>(part_),
                              [this, loops, keep](int64_t task) { keep(loops->read(data_ + task * part_, part_)); });
  return peaks;
}

bool QuietProducts(double product_cycles) {
  constexpr double kMargin = 16.5 / 16;
  for (const double ideal : {0.5, 1.0, 16.0}) {
    if (product_cycles > 0 && product_cycles >= ideal / kMargin && product_cycles <= ideal * kMargin) return true;
  }
  return false;
}

}  // namespace attenio::cli
