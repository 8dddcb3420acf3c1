#include "jobs/run_workers.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "archive/log_lines.h"
#include "archive/runs.h"
#include "archive/user_error.h"
#include "jobs/run_session.h"
#include "jobs/run_worker.h"
#include "jobs/worker_processes.h"
#include "jobs/workers_progress.h"
#include "kernels/threads.h"
#include "process/stop_signal.h"
#include "scale/exchange.h"
#include "scale/host.h"
#include "scale/job_key.h"
#include "train/recording.h"

namespace isobit::jobs {
namespace {

namespace fs = std::filesystem;
using archive::UserError;
using Clock = std::chrono::steady_clock;

constexpr int kMostDeaths = 5;  // of workers within kShort seconds of their start: then no more are started
constexpr double kShort = 5;

// What the launcher keeps of the run; the workers have networks and data of their own.
struct Job {
  train::Experiment experiment;
  fs::path folder;
  std::int64_t done = 0, steps = 0;
};

// The record's folder, new or to be resumed. Its first recorder opens it again.
Job prepare(const RunRequest& request) {
  if (request.resumed.empty()) require_grains(request.experiment);
  const RunSession session = open_session(request);
  if (!request.resumed.empty()) require_grains(session.experiment);
  return {session.experiment, session.writer->folder(), session.trainer->steps_done(),
          session.trainer->timetable().steps()};
}

// Where this machine's own workers find the host: they exchange with others by the way that leads there.
std::string local_address(const scale::HostOptions& host, int port) {
  const bool any = host.address == "0.0.0.0" || host.address == "::";
  const std::string address = any ? "127.0.0.1" : host.address;
  const bool bracketed = address.find(':') != std::string::npos;
  return bracketed ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

std::vector<std::string> worker_words(const RunRequest& request, const Job& job, const std::string& host) {
  const int threads = request.execution.threads > 0
                          ? request.execution.threads
                          : std::max(1, kernels::available_cpus() / static_cast<int>(request.workers.count));
  std::vector<std::string> words = {
      "isobit", "run", (job.folder / "experiment.toml").string(), "--join", host, "--threads", std::to_string(threads)};
  const std::vector<std::string> same = request.execution.words();
  words.insert(words.end(), same.begin(), same.end());
  words.insert(words.end(), {"--silence", std::to_string(request.workers.silence)});
  return words;
}

scale::HostOptions host_options(const RunRequest& request, const Job& job) {
  scale::HostOptions host;
  if (!request.workers.listen.empty()) {
    const bool port = request.workers.listen.find(':') != std::string::npos && request.workers.listen.back() != ']';
    const scale::Address address =
        scale::parse_address(port ? request.workers.listen : request.workers.listen + ":0", "--listen");
    host.address = address.host, host.port = address.port;
  }
  const bool given = std::getenv(scale::kKeyVariable) != nullptr || !request.workers.key_file.empty();
  host.key = given ? scale::find_job_key(request.workers.key_file) : scale::make_key();
  host.identity = job_identity(job.experiment, train::describe_data(job.experiment, samples::Digests::cached));
  host.expected = request.workers.all();
  host.job = nlohmann::json{{"folder", fs::absolute(job.folder).string()},
                            {"job", scale::make_key().substr(0, 16)},
                            {"workers", host.expected}}
                 .dump();
  host.folder = job.folder.string();
  host.silence = request.workers.silence;
  return host;
}

class Launcher {
 public:
  Launcher(const RunRequest& request, Job job)
      : request_(request),
        job_(std::move(job)),
        host_options_(host_options(request, job_)),
        host_(host_options_),
        processes_(worker_words(request, job_, local_address(host_options_, host_.port())),
                   {std::string(scale::kKeyVariable) + "=" + host_options_.key, std::string(kSpawnedVariable) + "=1"}),
        progress_(job_.done, job_.steps, job_.folder / archive::kMetricsLog) {
    if (request.workers.listening) {
      request.workers.listening(local_address(host_options_, host_.port()));
    } else if (!request.workers.listen.empty())
      fmt::print(stderr, "workers join with: isobit run FILE.toml --join {}:{}\n", host_options_.address, host_.port());
  }

  scale::HostView run() {
    const process::StopSignal stop;
    for (std::int64_t i = 0; i < request_.workers.count; ++i) processes_.start();
    while (true) {
      scale::HostView view = host_.view();
      if (stop.flag()) host_.stop();
      look_after(view);
      if (is_over(view, stop.flag())) return host_.view();
      progress_.show(view);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  [[nodiscard]] const std::string& last_words() const { return last_words_; }

 private:
  // Workers that joined from elsewhere hear the end from the host, too.
  bool is_over(const scale::HostView& view, bool stopped) {
    if (processes_.running() > 0 || !(view.recorded || view.failure || exhausted_ || stopped)) return false;
    const auto now = Clock::now();
    if (!over_) over_ = now;
    const bool patient = now - *over_ < std::chrono::seconds(request_.workers.silence);
    return view.workers.empty() || ((view.recorded || view.failure) && !patient);
  }

  void look_after(const scale::HostView& view) {
    for (const WorkerProcesses::Ended& ended : processes_.collect()) {
      const bool orderly = WIFEXITED(ended.status) && (view.recorded || view.failure || host_.view().recorded);
      if (orderly) continue;
      if (!ended.said.empty()) last_words_ = ended.said;
      if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == 2) early_ = kMostDeaths;  // it says what is wrong
      if (ended.seconds < kShort && ++early_ >= kMostDeaths) {
        exhausted_ = true;
        progress_.say(fmt::format("worker {} ended with {}; no other is started", ended.pid, how_it_ended(ended)));
        host_.expect(static_cast<std::int64_t>(processes_.running()));
        continue;
      }
      progress_.say(fmt::format("worker {} ended with {}; another one is started", ended.pid, how_it_ended(ended)));
      processes_.start();
    }
  }

  const RunRequest& request_;
  Job job_;
  scale::HostOptions host_options_;
  scale::Host host_;
  WorkerProcesses processes_;
  WorkersProgress progress_;
  std::string last_words_;
  int early_ = 0;
  bool exhausted_ = false;
  std::optional<Clock::time_point> over_;
};

RunOutcome report(const Job& job, const scale::HostView& view, bool json, double seconds) {
  const archive::RunSummary summary = archive::summarize(job.folder);
  if (summary.state == archive::RunState::damaged) {
    throw UserError(job.folder.string(), "the job's record is damaged: " + summary.note,
                    "see what changed files there, and start the job anew");
  }
  const bool finished = summary.state == archive::RunState::finished;
  if (json) {
    nlohmann::ordered_json result{{"id", summary.id},
                                  {"folder", job.folder.string()},
                                  {"name", summary.name},
                                  {"state", finished       ? "finished"
                                            : view.failure ? "failed"
                                                           : "interrupted"},
                                  {"steps", summary.steps},
                                  {"weights", summary.weights},
                                  {"weights_sha256", summary.weights_sha256}};
    result["metrics"] = nlohmann::ordered_json::object();
    for (const archive::MetricsLine& line : summary.metrics) {
      for (const auto& [name, value] : line.values) result["metrics"][line.set][name] = value;
    }
    result["training_seconds"] = seconds;
    result["grains"] = view.granted;
    result["grains_computed_again"] = view.granted_again;
    fmt::print("{}\n", result.dump());
  } else if (finished) {
    fmt::print("sha256  {}\nweights {}\n", summary.weights_sha256, summary.weights);
  }
  if (finished) return {0, job.folder, summary.weights};
  if (view.failure) return {1, job.folder, ""};
  fmt::print(stderr, "isobit: interrupted after step {}; resume with: isobit run --resume {}\n", summary.steps,
             job.folder.string());
  return {process::kInterruptedExit, job.folder, ""};
}

}  // namespace

RunOutcome run_workers(const RunRequest& request) {
  if (!scale::Exchange::available() && request.workers.count > 1)
    throw UserError("--workers", "this build of isobit has no transport between workers",
                    "install Debian's libgloo-dev and build it again");
  const Job job = prepare(request);
  const auto start = Clock::now();
  std::string last_words;
  const scale::HostView view = [&] {
    Launcher launcher(request, job);
    scale::HostView seen = launcher.run();
    last_words = launcher.last_words();
    return seen;
  }();
  const RunOutcome outcome =
      report(job, view, request.json, std::chrono::duration<double>(Clock::now() - start).count());
  if (outcome.code == 0) return outcome;  // whatever somebody met once the record was complete
  const std::string go_on = "isobit run --resume " + job.folder.string();
  if (view.failure && view.failure->kind == scale::Failure::Kind::not_finite) {
    fmt::print(stderr, "isobit: {}: {} (lower optimizer.lr, or check the data; the step changed nothing)\n",
               job.folder.string(), view.failure->message);
  } else if (view.failure) {
    const std::string& remedy = view.failure->remedy;
    throw UserError(view.failure->place.empty() ? job.folder.string() : view.failure->place, view.failure->message,
                    remedy.empty() ? go_on : remedy + "; then " + go_on);
  } else if (outcome.code != 0 && !last_words.empty()) {
    fmt::print(stderr, "the last worker said:\n{}", last_words);
  }
  return outcome;
}

}  // namespace isobit::jobs
