// A kernel that computes nothing: it records which (row, key) pairs the executor hands it. Rows and keys are told apart by the
// value of their first element, so packing, tiling and addressing are all part of what is recorded.
#ifndef ATTENIO_TESTS_SUPPORT_RECORDING_KERNEL_H_
#define ATTENIO_TESTS_SUPPORT_RECORDING_KERNEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/math.h"
#include "kernels/kernels.h"

namespace attenio::testing {

// Visits per (row id, key id); shared by every recording kernel. Not for two tests at once.
struct Recording {
  int64_t keys = 0;
  std::vector<std::atomic<int>> visits;
  static Recording& Get() {
    static Recording recording;
    return recording;
  }
  void Reset(int64_t row_ids, int64_t key_ids) {
    keys = key_ids;
    visits = std::vector<std::atomic<int>>(static_cast<size_t>(row_ids * key_ids));
  }
  int Visits(int64_t row_id, int64_t key_id) const { return visits[static_cast<size_t>(row_id * keys + key_id)]; }
};

template <int64_t kRows, int64_t kKeys>
KernelSet RecordingKernel() {
  const auto pack = [](const PackArgs& args) {
    for (int64_t r = 0; r < args.rows; ++r) static_cast<float*>(args.packed)[r] = args.source.Row<float>(r)[0];
  };
  const auto block = [](const BlockArgs& a) {
    for (int64_t r = 0; r < a.rows; ++r) {
      for (int64_t j = a.keys_begin; j < a.keys_end; ++j) {
        const Modifiers* m = a.modifiers;
        const int64_t key = a.first_key + j;
        if (m != nullptr && m->begin != nullptr && (key < m->begin[r] || key >= m->end[r])) continue;
        const auto row_id = static_cast<int64_t>(static_cast<const float*>(a.q)[r]);
        const auto key_id = static_cast<int64_t>(static_cast<const float*>(a.k)[j]);
        ++Recording::Get().visits[static_cast<size_t>(row_id * Recording::Get().keys + key_id)];
      }
    }
  };
  return {.name = "recording",
          .quantum = {kRows, kKeys, 1},
          .probability_type = DType::kF32,
          .accepts = [](DType, int64_t, int64_t) -> const char* { return nullptr; },
          .q_row_bytes = [](int64_t) -> int64_t { return 4; },
          .k_row_bytes = [](int64_t) -> int64_t { return 4; },
          .v_row_bytes = [](int64_t) -> int64_t { return 4; },
          .scratch_bytes = [](int64_t, int64_t, int64_t, int64_t) -> int64_t { return 0; },
          .pack_q = pack,  // the multiplier is left out: ids, not scores
          .pack_k = pack,
          .pack_v = [](const PackArgs&) { return true; },
          .block = block};
}

}  // namespace attenio::testing

#endif  // ATTENIO_TESTS_SUPPORT_RECORDING_KERNEL_H_
