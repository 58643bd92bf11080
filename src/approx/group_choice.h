// What every (query row, group of keys) pair takes: skip, mean, polynomial or exact.
#ifndef ATTENIO_SRC_APPROX_GROUP_CHOICE_H_
#define ATTENIO_SRC_APPROX_GROUP_CHOICE_H_

#include "approx/blockwise.h"
#include "approx/cluster.h"

namespace attenio::approx {

enum Kind : uint8_t { kSkip, kMean, kPoly, kExact };

// One row tile of a worker.
struct Tile {
  float *out, *den, *shift, *certified;  // kTileRows x columns; kTileRows each
  float* scores;                         // kTileRows x kMaxGroups: q . centre of each group
  uint8_t* kind;                         // kTileRows x kMaxGroups
};
Tile TileOf(const Head& head, int worker);

class GroupChoice {
 public:
  GroupChoice(const Head& head, const Groups& groups) : h_(head), groups_(groups) {}

  // Predicted time of exact attention over that of the groups, from a probe of the rows; 0 when too many cannot be certified.
  double PredictGain() const;

  // Chooses for the rows listed; tile rows local .. local + count get scores, kinds, shifts, and the sum of their means. Rows that
  // cannot be certified get certified = -1 and count as failed.
  void Decide(const int64_t* rows, int64_t count, const Tile& tile, int64_t local, const WorkerPiece& w, Tally* tally,
              int64_t* failed) const;

 private:
  // An error, and what it takes to lower it.
  struct Share {
    double mean, poly;
    int32_t group;
  };

  double Fail(int64_t local, const Tile& tile) const;
  double DecideRow(double norm, int64_t local, const Tile& tile, float* mean, Tally* tally) const;
  double Raise(Share* shares, int count, double budget, uint8_t* kind) const;

  const Head& h_;
  const Groups& groups_;
};

}  // namespace attenio::approx

#endif  // ATTENIO_SRC_APPROX_GROUP_CHOICE_H_
