#include "io/runs.h"

#include <utility>

namespace attenio::io {

Wide FloorSum(Wide n, Wide a, Wide b, Wide m) {
  Wide sum = 0;
  while (n > 0) {
    const Wide slope = a / m, offset = b / m;  // whole parts; one division each, as they cost most here
    sum += n * (n - 1) / 2 * slope + n * offset;
    a -= slope * m;
    b -= offset * m;
    const Wide top = a * n + b;  // what is left: points below a line; count them along the other axis, from the far end
    n = top / m;
    b = top - n * m;
    std::swap(a, m);
  }
  return sum;
}

}  // namespace attenio::io
