#include "cli/bench_serve.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/contender.h"

namespace attenio::cli {
namespace {

using nlohmann::ordered_json;

class Server {
 public:
  explicit Server(const ServeOptions& options) : options_(options), executor_(options.run.threads) {}

  void Free() {
    contender_.reset();
    problem_ = {};
    held_.clear();
  }

  ordered_json Answer(const std::string& name, double seconds) {
    ordered_json line{{"impl", options_.impl}, {"case", name}, {"threads", executor_.workers()}};
    const std::string obstacle = held_ == name ? "" : Hold(name);
    if (!obstacle.empty()) {
      Free();
      line["skip"] = obstacle;
      return line;
    }
    if (last_ < 0.2) contender_->Run();  // caches are warm and threads awake, as in a run of one program alone
    const Times times = Measure(contender_.get(), seconds);
    const double median = last_ = times.median();
    line.update({{"median_ms", median * 1e3},
                 {"min_ms", times.min() * 1e3},
                 {"max_ms", times.max() * 1e3},
                 {"runs", times.all.size()},
                 {"gflops", case_.Flops() / median * 1e-9},
                 {"gbps", case_.KvBytes() / median * 1e-9},
                 {"note", contender_->kernel()},
                 {"sig", Signature(case_, problem_.out)}});
    return line;
  }

 private:
  // Makes inputs and implementation of a case; what stands against it, else empty.
  std::string Hold(const std::string& name) {
    Free();
    for (const BenchCase& c : options_.cases) {
      if (c.name != name) continue;
      case_ = c;
      problem_ = MakeProblem(c);
      contender_ = MakeContender(options_.impl, &problem_, options_.run, &executor_);
      const std::string obstacle = contender_->Obstacle();
      if (!obstacle.empty()) return obstacle;
      const double start = Seconds();
      contender_->Run();
      last_ = Seconds() - start;
      if (last_ > kLongestRun) return fmt::format("one run took {:.0f} s", last_);
      held_ = name;
      return "";
    }
    return "no such case";
  }

  const ServeOptions& options_;
  DefaultExecutor executor_;
  BenchCase case_{};
  Problem problem_;
  std::unique_ptr<Contender> contender_;
  std::string held_;
  double last_ = 0;  // seconds of the latest run
};

}  // namespace

void Serve(const ServeOptions& options, std::istream& input) {
  Server server(options);
  for (std::string line; std::getline(input, line);) {
    std::istringstream words(line);
    std::string name;
    double seconds = 0;
    if (!(words >> name)) continue;
    if (name == "-") {
      server.Free();
      continue;
    }
    ordered_json answer;
    if (words >> seconds) {
      answer = server.Answer(name, seconds);
    } else {
      answer = {{"impl", options.impl}, {"case", name}, {"skip", "expected CASE SECONDS"}};
    }
    fmt::print("{}\n", answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  }
}

}  // namespace attenio::cli
