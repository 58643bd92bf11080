#include "cli/command.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace attenio::cli {

void RunOptions::AddTo(CLI::App& app) {
  app.add_option("--kernel", kernel, "Use this kernel (attenio info lists them)");
  app.add_option("--schedule", schedule, "Use this schedule, e.g. 512x128 or L2:query-resident:420x128");
  app.add_option("--threads", threads, "Threads (default: as many as OpenMP would use)")->check(CLI::Range(1, 1024));
}

Options RunOptions::ForPlan(int workers) const {
  if (!schedule.empty()) {
    const Result<Schedule> parsed = Schedule::Parse(schedule);
    if (!parsed.ok()) Refuse("--schedule: {}", parsed.status().message());
  }
  Options options;
  options.kernel = kernel;
  options.schedule = schedule;
  options.workers = workers;
  options.overlap = overlap;
  return options;
}

CLI::Validator Real(double least, double most) {
  const std::string range = fmt::format("a number from {:g} to {:g}", least, most);
  return CLI::Validator(
      [least, most, range](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (!text.empty() && *end == '\0' && std::isfinite(value) && value >= least && value <= most) return "";
        return text + ": expected " + range;
      },
      fmt::format("{:g} to {:g}", least, most));
}

void RequireKnownKernel(const std::string& kernel) {
  std::vector<std::string> names;
  for (const KernelInfo& info : Kernels()) names.push_back(info.name);
  if (!kernel.empty() && std::find(names.begin(), names.end(), kernel) == names.end()) {
    Refuse("--kernel {}: not one of {}", kernel, fmt::join(names, ", "));
  }
}

void Require(const Status& status) {
  if (!status.ok()) Refuse("{}", status.message());
}

DType ParseDType(const std::string& text, const char* option) {
  for (DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (text == Name(type)) return type;
  }
  Refuse("{} {}: expected f32, bf16 or f16", option, text);
}

void ParseWindow(const std::string& text, AttentionDesc* desc) {
  const char* const end = text.data() + text.size();
  const auto left = std::from_chars(text.data(), end, desc->window_left);
  if (left.ec == std::errc() && left.ptr != end && *left.ptr == ',') {
    const auto right = std::from_chars(left.ptr + 1, end, desc->window_right);
    if (right.ec == std::errc() && right.ptr == end && desc->window_left >= -1 && desc->window_right >= -1) return;
  }
  Refuse("--window {}: expected LEFT,RIGHT, each a number of keys or -1 for no limit", text);
}

PreparedPlan::PreparedPlan(const AttentionDesc& desc, const Options& options) {
  Result<Plan> plan = Plan::Create(desc, options);
  status_ = plan.status();
  if (!plan.ok()) return;
  plan_ = *plan;
  workspace_.resize(plan_->workspace_bytes());
}

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_ && last_ > 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::Update(int64_t done, int64_t total, const std::string& detail) {
  const double now = Seconds();
  if (!terminal_ || now - last_ < 0.1) return;  // a person reads no faster
  last_ = now;
  fmt::print(stderr, "\r\x1b[K{} {}/{} {}", what_, done, total, detail);
  std::fflush(stderr);
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace attenio::cli
