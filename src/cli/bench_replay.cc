#include "cli/bench_replay.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>

#include "cli/interrupt.h"

namespace attenio::cli {
namespace {

constexpr int kRepeats = 3;

// Costs of the tasks of some KV heads: [head][pack or tile], seconds.
struct HeadCosts {
  int64_t heads = 0, packs = 0, tiles = 0;
  std::vector<double> pack, tile;
};

AttentionDesc DescOf(const BenchCase& c, const BenchInput& input) {
  AttentionDesc d;
  d.batch = c.batch;
  d.q_heads = c.q_heads;
  d.kv_heads = c.kv_heads;
  d.q_len = c.q_len;
  d.kv_len = c.kv_len;
  d.qk_dim = c.qk_dim;
  d.v_dim = c.v_dim;
  d.dtype = c.dtype;
  d.causal = c.causal;
  d.softcap = input.softcap;
  if (!input.window.empty()) ParseWindow(input.window, &d);
  return d;
}

// One worker, phases that pack first and compute then.
HeadCosts Measure(const BenchCase& c, const BenchOptions& o, const std::string& schedule) {
  BenchCase part = c;
  part.batch = 1;
  part.kv_heads = std::min(c.kv_heads, o.replay_heads);
  part.q_heads = part.kv_heads * (c.q_heads / c.kv_heads);
  Problem problem = MakeProblem(part, o.input);
  RunOptions run = o.run;
  run.schedule = schedule;
  run.overlap.pack_ahead = false;
  const Result<Plan> plan = Plan::Create(problem.desc, run.ForPlan(1));
  Require(plan.status());
  std::vector<std::byte> workspace(plan->workspace_bytes());
  HeadCosts costs;
  costs.heads = part.kv_heads;
  for (int repeat = 0; repeat < kRepeats && Interrupted() == 0; ++repeat) {
    std::vector<double> pack, tile;
    for (int64_t phase = 0; phase < plan->phases(); ++phase) {
      const bool packs = plan->schedule().packing == Packing::kHead && phase % 2 == 0;
      for (int64_t task = 0; task < plan->tasks(phase); ++task) {
        const double start = Seconds();
        Require(plan->RunTask(problem.operands(), workspace, phase, task, 0));
        (packs ? pack : tile).push_back(Seconds() - start);
      }
    }
    const auto best = [repeat](std::vector<double>* all, const std::vector<double>& now) {
      if (repeat == 0) *all = now;
      for (size_t i = 0; i < now.size(); ++i) (*all)[i] = std::min((*all)[i], now[i]);
    };
    best(&costs.pack, pack);
    best(&costs.tile, tile);
  }
  costs.packs = static_cast<int64_t>(costs.pack.size()) / costs.heads;
  costs.tiles = static_cast<int64_t>(costs.tile.size()) / costs.heads;
  return costs;
}

// The whole plan's phases with the costs of the heads that were measured, over and over: tiles of a wave, then the packing
// of the next.
std::vector<std::vector<double>> Phases(const Plan& plan, const HeadCosts& costs) {
  std::vector<std::vector<double>> phases;
  int64_t to_compute = 0, packed = 0, computed = 0;  // heads
  const bool own = plan.schedule().packing == Packing::kBlock;
  for (int64_t phase = 0; phase < plan.phases(); ++phase) {
    const int64_t tasks = plan.tasks(phase);
    const int64_t tiles = own ? tasks : to_compute * costs.tiles;
    std::vector<double> list;
    for (int64_t t = 0; t < tasks; ++t) {
      const bool tile = t < tiles;
      const int64_t count = tile ? costs.tiles : costs.packs, index = tile ? t : t - tiles;
      const int64_t head = (tile ? computed : packed) + index / count;
      list.push_back((tile ? costs.tile : costs.pack)[static_cast<size_t>(head % costs.heads * count + index % count)]);
    }
    computed += tiles / std::max<int64_t>(1, costs.tiles);
    to_compute = costs.packs > 0 ? (tasks - tiles) / costs.packs : 0;
    packed += to_compute;
    phases.push_back(std::move(list));
  }
  return phases;
}

}  // namespace

double Makespan(const std::vector<std::vector<double>>& phases, int threads) {
  double now = 0;
  for (const std::vector<double>& tasks : phases) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free;
    for (int t = 0; t < threads; ++t) free.push(now);
    for (const double cost : tasks) {
      const double end = free.top() + cost;
      free.pop();
      free.push(end);
      now = std::max(now, end);
    }
  }
  return now;
}

void Replay(const BenchCase& c, const BenchOptions& o) {
  std::string measured;  // the schedule that `costs` are of
  HeadCosts costs;
  for (const int threads : o.replay_threads) {
    const Result<Plan> plan = Plan::Create(DescOf(c, o.input), o.run.ForPlan(threads));
    Require(plan.status());
    const std::string schedule = plan->schedule().ToString();
    if (schedule != measured) costs = Measure(c, o, schedule);
    measured = schedule;
    if (Interrupted() != 0) return;
    const std::vector<std::vector<double>> phases = Phases(*plan, costs);
    double sum = 0;
    size_t tasks = 0;
    for (const std::vector<double>& phase : phases) {
      sum = std::accumulate(phase.begin(), phase.end(), sum);
      tasks += phase.size();
    }
    const double ideal = sum / threads, makespan = Makespan(phases, threads);
    if (o.json) {
      const nlohmann::ordered_json line{{"impl", "exact"},
                                        {"case", c.name},
                                        {"replay_threads", threads},
                                        {"phases", phases.size()},
                                        {"tasks", tasks},
                                        {"heads_measured", costs.heads},
                                        {"ideal_ms", ideal * 1e3},
                                        {"makespan_ms", makespan * 1e3},
                                        {"makespan_over_ideal", makespan / ideal},
                                        {"kernel", plan->kernel()},
                                        {"schedule", schedule},
                                        {"status", "ok"}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print(
          "{:<28} {:>4} threads  {:>6} tasks in {} phases  ideal {:>10.3f} ms  makespan {:>10.3f} ms  x {:.3f}  {}\n",
          c.name, threads, tasks, phases.size(), ideal * 1e3, makespan * 1e3, makespan / ideal, schedule);
    }
    std::fflush(stdout);
  }
}

}  // namespace attenio::cli
