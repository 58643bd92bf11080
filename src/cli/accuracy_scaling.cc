#include "cli/accuracy_scaling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/accuracy_data.h"
#include "cli/accuracy_method.h"
#include "cli/contender.h"

namespace attenio::cli {
namespace {

struct Point {
  double n = 0, value = 0;
};

// Of the least-squares line through (log n, log value).
std::optional<double> Slope(const std::vector<Point>& points) {
  if (points.size() < 3) return std::nullopt;
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Point& p : points) {
    const double a = std::log(p.n), b = std::log(p.value);
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  const double count = static_cast<double>(points.size());
  return (count * xy - x * y) / (count * xx - x * x);
}

// Where the values pass 1, on straight lines between the logarithms; the last such place.
std::optional<double> Crossing(const std::vector<Point>& gains) {
  std::optional<double> at;
  for (size_t i = 1; i < gains.size(); ++i) {
    const double a = std::log(gains[i - 1].value), b = std::log(gains[i].value);
    if (a > 0 || b <= 0) continue;
    at = gains[i - 1].n * std::pow(gains[i].n / gains[i - 1].n, -a / (b - a));
  }
  return at;
}

class Scaling {
 public:
  Scaling(const ScalingOptions& options, const DefaultExecutor& executor) : o_(options), executor_(executor) {}

  int Run() {
    for (int64_t n = 256; n <= o_.longest; n *= 2) {
      Measure(n);
      if (n < 8192) Measure(n + n / 2);  // the crossing
    }
    Result("slope of exact attention", Slope(exact_), "n >= 4096");
    Result("slope of the polynomial path", Slope(poly_), fmt::format("n >= 8 r = {}", 8 * features_));
    const std::optional<double> measured = Crossing(gains_), predicted = Crossing(predicted_);
    Result("crossover, measured n", measured, "same time");
    Result("crossover, predicted n", predicted, "same time");
    return kExitOk;
  }

 private:
  // The best of the runs: a slope is about the program, whatever else the machine does.
  double Best(Method* method, Problem* problem) const {
    Times times;
    while (times.all.size() < static_cast<size_t>(o_.repeats) || (times.all.size() < 25 && times.all.back() < 0.01)) {
      const double start = Seconds();
      method->Run(problem, executor_.parallel());
      times.Add(Seconds() - start);
    }
    return times.min();
  }

  void Measure(int64_t n) {
    DataOptions data;
    data.distribution = "bounded";
    data.n = n;
    data.d = o_.d;
    data.bound = o_.bound;
    data.seed = o_.seed;
    Problem problem = Generate(data);
    MethodOptions m;
    m.workers = executor_.workers();
    m.max_error = o_.max_error;
    m.name = "poly-always";
    const std::unique_ptr<Method> poly = MakeMethod(m, problem.desc);
    Require(poly->call()->status());
    const double seconds = Best(poly.get(), &problem);
    const ApproxReport& report = poly->call()->report();
    if (report.exact_rows > 0)
      Refuse("--scaling: {} of {} rows cannot be certified: {}", report.exact_rows, report.rows, report.reason);
    features_ = report.features;
    const double length = static_cast<double>(n);
    if (n >= 8 * features_) poly_.push_back({length, seconds});
    predicted_.push_back({length, report.predicted_gain});
    double exact = 0;
    if (n <= o_.longest_exact) {
      m.name = "exact";
      exact = Best(MakeMethod(m, problem.desc).get(), &problem);
      if (n >= 4096) exact_.push_back({length, exact});
      gains_.push_back({length, exact / seconds});
    }
    Row(n, exact, seconds, report.predicted_gain);
  }

  void Row(int64_t n, double exact, double poly, double predicted) {
    if (!o_.json && !headed_)
      fmt::print("{:>9}{:>14}{:>14}{:>10}{:>12}\n", "n", "exact ms", "poly ms", "x exact", "predicted x");
    headed_ = true;
    if (o_.json) {
      nlohmann::ordered_json line{
          {"n", n}, {"d", o_.d}, {"exact_ms", nullptr}, {"poly_ms", poly * 1e3}, {"predicted_gain", predicted}};
      if (exact > 0) line["exact_ms"] = exact * 1e3;
      fmt::print("{}\n", line.dump());
    } else if (exact > 0) {
      fmt::print("{:>9}{:>14.3f}{:>14.3f}{:>10.2f}{:>12.2f}\n", n, exact * 1e3, poly * 1e3, exact / poly, predicted);
    } else {
      fmt::print("{:>9}{:>14}{:>14.3f}{:>10}{:>12.2f}\n", n, "-", poly * 1e3, "-", predicted);
    }
    std::fflush(stdout);
  }

  void Result(const char* item, std::optional<double> value, const std::string& condition) const {
    if (!value) return;
    if (o_.json) {
      fmt::print("{}\n", nlohmann::ordered_json{{"item", item}, {"value", *value}, {"condition", condition}}.dump());
    } else {
      fmt::print("{}: {:.4g} ({})\n", item, *value, condition);
    }
  }

  const ScalingOptions& o_;
  const DefaultExecutor& executor_;
  int64_t features_ = 0;
  bool headed_ = false;
  std::vector<Point> exact_, poly_, gains_, predicted_;
};

}  // namespace

int RunScaling(const ScalingOptions& options, const DefaultExecutor& executor) {
  return Scaling(options, executor).Run();
}

}  // namespace attenio::cli
