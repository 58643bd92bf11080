// Keys in groups that lie close together: the blocks of block-wise approximation.
#ifndef ATTENIO_SRC_APPROX_CLUSTER_H_
#define ATTENIO_SRC_APPROX_CLUSTER_H_

#include <cstdint>

#include "approx/head.h"

namespace attenio::approx {

// Keys per group that the number of groups aims at, and the most groups: the centres cost every query row as much as that many
// keys.
inline constexpr int64_t kGroupKeys = 128;
inline constexpr int64_t kMaxGroups = 256;

// Groups of keys, all arrays in the workspace. Vectors are relative to the centre of all keys. Group g holds the keys
// order[begin[g] .. begin[g + 1]) and, packed, the slots padded[g] .. padded[g + 1] (multiples of 16).
struct Groups {
  int64_t count = 0;          // groups
  float* centres = nullptr;   // qk_dim x kMaxGroups, transposed; mean of the keys of each group
  float* radius = nullptr;    // largest distance of a key of the group from its centre
  int64_t* begin = nullptr;   // count + 1
  int64_t* padded = nullptr;  // count + 1
  int64_t* order = nullptr;   // keys by group, ascending inside
  float* values = nullptr;    // kMaxGroups x columns: sum of the centred values of each group
  double reach = 0;           // largest |key - centre of all|

  int64_t size(int64_t group) const { return begin[group + 1] - begin[group]; }
};

// Number of groups for `keys` keys.
int64_t GroupCount(int64_t keys);

// k-means++ seeds over a sample of the keys and three rounds on the sample. Leaves centres, and radii and sizes as the sample
// shows them (radii too small). Deterministic.
void SeedGroups(const Head& head, const Findings& findings, Groups* groups);

// Assigns all keys, sorts and packs them; centres become the means, radii true.
void FinishGroups(const Head& head, const Findings& findings, Groups* groups);

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_CLUSTER_H_
