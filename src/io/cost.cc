#include "io/cost.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace attenio::io {
namespace {

double Real(int64_t x) { return static_cast<double>(x); }

}  // namespace

double TallSkinnyWords(int64_t n, int64_t d, int64_t M) {
  return Real(n) * Real(d) + Real(n) * Real(n) * Real(d) * Real(d + 1) / Real(M - d) + Real(n) * Real(n);
}

double SquareTileWords(int64_t n, int64_t d, int64_t M) {
  return 2 * Real(n) * Real(n) * Real(d) / std::sqrt(Real(M)) + Real(n) * Real(n);
}

int64_t AttenioRows(int64_t M, int64_t d) { return M < d ? 0 : (M - d) / (2 * d + 4); }

double AttenioWords(int64_t n, int64_t d, int64_t M) { return 2 * Real(n) * Real(d) * (1 + Real(CeilDiv(n, AttenioRows(M, d)))); }

LevelTile Flash1Tile(int64_t M, int64_t d) {
  const int64_t keys = CeilDiv(M, 4 * d);
  return {"cache", Dataflow::kKeyResident, std::min(keys, d), keys};
}

LevelTile Flash2Tile(int64_t M, int64_t d) {
  const int64_t keys = CeilDiv(M, 4 * d);
  return {"cache", Dataflow::kQueryResident, std::min(keys, d), keys};
}

double Flash2Words(int64_t n, int64_t d, int64_t M) {
  return 2 * Real(n) * Real(d) * (1 + Real(CeilDiv(n, Flash2Tile(M, d).queries)));
}

double StandardWords(int64_t n, int64_t d, int64_t M) {
  return 4 * Real(n) * Real(n) + 2 * Real(n) * Real(n) * Real(d) / std::sqrt(Real(M)) + 2 * Real(n) * Real(d);
}

double UnfusedLeadingWords(int64_t n, int64_t m, int64_t d, int64_t S) {
  const double root = std::sqrt(Real(S));
  if (root < 2 * Real(d)) return 4 * Real(n) * Real(m) * Real(d) / root + Real(n) * Real(m);
  return 2 * Real(n) * Real(m) + 2 * Real(n) * Real(d) + 2 * Real(m) * Real(d) * Real(CeilDiv(n, AttenioRows(S, d)));
}

double FlatWords(int64_t n, int64_t d, int64_t M) {
  const int64_t rows = std::max<int64_t>(1, M / (n + 2 * d));
  return 2 * Real(n) * Real(d) * (1 + Real(n) / Real(rows));
}

double FlatSpilledWords(int64_t n, int64_t d, int64_t rows) {
  return 4 * Real(n) * Real(n) + 2 * Real(n) * Real(d) * (1 + Real(n) / Real(rows));
}

double ScoreResidentLeadingWords(int64_t n, int64_t m, int64_t d, int64_t S) {
  return 2 * std::sqrt(6.0) * Real(n) * Real(m) * Real(d) / std::sqrt(Real(S));
}

double NestedWords(int64_t n, int64_t m, int64_t d, int64_t rows, int64_t block) {
  return 2 * Real(m) * Real(d) * Real(CeilDiv(n, rows)) + Real(CeilDiv(m, block)) * Real(n) * Real(3 * d + 4) -
         Real(n) * Real(d + 2);
}

double BestUpperBlock(double S, double d, double tau_inner, double tau_outer, Replacement replacement) {
  const double r = S / (2 * d);
  if (replacement == Replacement::kExplicit) return r / (1 + std::sqrt(2 * tau_outer / (3 * tau_inner)));
  return r / 2 / (1 + std::sqrt(tau_outer / (3 * tau_inner)));
}

double SharedSweepWords(int64_t n, int64_t m, int64_t d, int64_t rows, int64_t threads) {
  return 2 * Real(n) * Real(d) + 2 * Real(m) * Real(d) * Real(CeilDiv(n, threads * rows));
}

}  // namespace attenio::io
