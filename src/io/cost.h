// Closed forms as papers state them, in words, for a fast memory of `M` words (any type that holds the number exactly): for the
// reproduction of published figures and as tests of the general machinery. n queries, m keys, d dims; a tile is queries x keys.
#ifndef ATTENIO_SRC_IO_COST_H_
#define ATTENIO_SRC_IO_COST_H_

#include <cstdint>

#include "attenio/io.h"

namespace attenio::io {

// Tall-and-skinny A (n x d) times B (d x n), d < M < n d: n d + n^2 d (d + 1) / (M - d) + n^2. AttenIO (ASPLOS 2026) Sec. 3: the
// optimum among schedules that cut the computation into a x b x 1 products with A resident, not over all schedules.
double TallSkinnyWords(int64_t n, int64_t d, int64_t M);
// The same product by square tiles: 2 n^2 d / sqrt(M) + n^2 (Hong and Kung 1981; constant of Kwasniewski et al. 2019).
double SquareTileWords(int64_t n, int64_t d, int64_t M);

// Largest a with a d + b d + a b + a d + 3 a <= M at b = 1: floor((M - d) / (2 d + 4)). AttenIO Sec. 3.
int64_t AttenioRows(int64_t M, int64_t d);
// 2 n d (1 + ceil(n / a)). AttenIO Sec. 3: the optimum of its class.
double AttenioWords(int64_t n, int64_t d, int64_t M);

// Tiles as FlashAttention's papers choose them (Dao et al. 2022, Algorithm 1; AttenIO Sec. 5): min(ceil(M / 4d), d) queries,
// ceil(M / 4d) keys; key-resident in the first version, query-resident in the second.
LevelTile Flash1Tile(int64_t M, int64_t d);
LevelTile Flash2Tile(int64_t M, int64_t d);
// 2 n d (1 + ceil(n / Br)) with that tile. AttenIO Sec. 5.
double Flash2Words(int64_t n, int64_t d, int64_t M);

// Unfused, scores and probabilities written and read: 4 n^2 + 2 n^2 d / sqrt(M) + 2 n d. AttenIO Sec. 5 ("Standard").
double StandardWords(int64_t n, int64_t d, int64_t M);
// Unfused at its best to leading order, scores written once: 4 n m d / sqrt(S) + n m below sqrt(S) = 2 d, above
// 2 n m + 2 n d + 2 m d ceil(n / a).
double UnfusedLeadingWords(int64_t n, int64_t m, int64_t d, int64_t S);

// FLAT keeps R = floor(M / (n + 2 d)) rows of scores, at least one: 2 n d (1 + n / R). AttenIO Sec. 5; Kao et al. 2023.
double FlatWords(int64_t n, int64_t d, int64_t M);
// FLAT when a row does not fit and is spilled, `rows` at a time: 4 n^2 + 2 n d (1 + n / rows).
double FlatSpilledWords(int64_t n, int64_t d, int64_t rows);

// Score-resident to leading order at its best tile sqrt(2 S / 3) x sqrt(3 S / 2): 2 sqrt(6) n m d / sqrt(S).
double ScoreResidentLeadingWords(int64_t n, int64_t m, int64_t d, int64_t S);

// Inner boundary of a nest: a strip of `rows` rows inside a tile that walks blocks of `block` keys:
// 2 m d ceil(n / rows) + ceil(m / block) n (3 d + 4) - n (d + 2), statistics written back as a cache does.
double NestedWords(int64_t n, int64_t m, int64_t d, int64_t rows, int64_t block);

// Key block of the upper level with the least cost of both boundaries, where tau_inner and tau_outer are the costs of a word:
// R / (1 + sqrt(2 tau_outer / (3 tau_inner))), R = S / 2d, for a scratchpad; (R / 2) / (1 + sqrt(tau_outer / (3 tau_inner)))
// under LRU, where the block is reserved twice. To leading order.
enum class Replacement : uint8_t { kExplicit, kLru };
double BestUpperBlock(double S, double d, double tau_inner, double tau_outer, Replacement replacement);

// `threads` query tiles of one KV head that sweep K and V in step through a shared cache: 2 n d + 2 m d ceil(n / (threads rows)).
double SharedSweepWords(int64_t n, int64_t m, int64_t d, int64_t rows, int64_t threads);

}  // namespace attenio::io

#endif  // ATTENIO_SRC_IO_COST_H_
