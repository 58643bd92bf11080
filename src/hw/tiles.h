// Which tile a dataflow takes on an accelerator.
#ifndef ATTENIO_SRC_HW_TILES_H_
#define ATTENIO_SRC_HW_TILES_H_

#include "attenio/hw.h"

namespace attenio::hw {

// A validated run: everything that Timeline needs.
struct Run {
  Accelerator hw;
  Shape shape;
  HwDataflow dataflow = HwDataflow::kAttenio;
  Schedule schedule;
  HwOverlap overlap;
  bool spills = false;  // kFlat: the rows of a tile do not fit, their scores go through memory

  const LevelTile& tile() const { return schedule.levels[0]; }
};

// Checks hardware, shape and options and chooses the tile.
Result<Run> MakeRun(const Accelerator& accelerator, const Shape& shape, const ProjectOptions& options);

}  // namespace attenio::hw

#endif  // ATTENIO_SRC_HW_TILES_H_
