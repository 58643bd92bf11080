// attenio report: a short version of every study on one page.
#include <ctime>

#include "attenio/version.h"
#include "cli/command.h"
#include "cli/report_figures.h"

namespace attenio::cli {
namespace {

struct ReportOptions {
  std::string folder = "attenio-report";
  int threads = 0;
};

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now))};
}

int Report(const ReportOptions& o) {
  const DefaultExecutor executor(o.threads);
  ReportPage page(o.folder, executor.workers());
  for (const auto section :
       {ReportMachine, ReportCorrectness, ReportSpeed, ReportTraffic, ReportAccuracy, ReportAccelerator}) {
    section(&page);
  }
  const std::string path = page.Write(
      "attenio on this machine",
      fmt::format(
          "attenio {}.{}.{}, {}, {} threads. Every figure comes from the command above it; the data lie beside this "
          "page as .jsonl, the pictures as .svg and .png.",
          ATTENIO_VERSION_MAJOR, ATTENIO_VERSION_MINOR, ATTENIO_VERSION_PATCH, Today(), executor.workers()));
  fmt::print("{}\n", path);
  for (const std::string& failure : page.failures()) fmt::print(stderr, "attenio: {}\n", failure);
  return page.failures().empty() ? kExitOk : kExitFailed;
}

}  // namespace

void AddReport(CLI::App& app, Action* action) {
  CLI::App* sub =
      app.add_subcommand("report", "One page about this machine: speed, traffic, accuracy, projections (some minutes)");
  const auto o = std::make_shared<ReportOptions>();
  sub->add_option("--out", o->folder, "Folder of the page, its data and its pictures")->capture_default_str();
  sub->add_option("--threads", o->threads, "Threads (default: as many as OpenMP would use)")
      ->check(CLI::Range(1, 1024));
  sub->callback([=] { *action = [=] { return Report(*o); }; });
}

}  // namespace attenio::cli
