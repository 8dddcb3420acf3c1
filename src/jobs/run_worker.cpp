#include "jobs/run_worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "archive/environment.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "jobs/run_session.h"
#include "process/stop_signal.h"
#include "scale/elastic_steps.h"
#include "scale/job_key.h"
#include "scale/shared_recording.h"
#include "train/arithmetic.h"
#include "train/experiment_schema.h"
#include "train/recording.h"

namespace isobit::jobs {
namespace {

using archive::UserError;

scale::Link::Options link_options(const RunRequest& request, const std::string& identity) {
  scale::Link::Options link;
  link.host = scale::parse_address(request.workers.join, "--join");
  link.silence = request.workers.silence;
  link.key = scale::find_job_key(request.workers.key_file);
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  link.about = {identity, fmt::format("{}:{}", name, ::getpid()),
                request.execution.device == "cpu" ? archive::cpu_name() : request.execution.device_description()};
  return link;
}

class Worker {
 public:
  explicit Worker(const RunRequest& request)
      : experiment_(request.experiment),
        data_(train::load_data(experiment_)),
        steps_({link_options(request,
                             job_identity(experiment_, train::describe_data(experiment_, samples::Digests::cached))),
                {},
                &stop_.flag(),
                &agreed_,
                nullptr}),
        job_(archive::parse_json(steps_.job())),
        trainer_(experiment_, data_, shared(request)),
        recording_({job_.at("folder").get<std::string>(), environment(request), job_.at("job").get<std::string>(), 0,
                    experiment_.checkpoint.keep, train::contract_of(experiment_.arithmetic)},
                   trainer_.timetable(), [this] { return steps_.alive(); }) {
    steps_.set_recording(&recording_);
    steps_.set_grains([this](std::int64_t step) {
      if (step > trainer_.timetable().steps()) return std::int64_t{0};
      const std::int64_t size = experiment_.grain_size();
      return (trainer_.timetable().place(step).count + size - 1) / size;
    });
  }

  RunOutcome work() {
    const train::ArithmeticScope arithmetic(experiment_);
    const std::filesystem::path folder = job_.at("folder").get<std::string>();
    try {
      const auto open = steps_.begin(trainer_.caller());
      const auto outcome = train::execute(trainer_, trainer_.timetable().steps(), recording_, agreed_,
                                          open ? std::optional(*open) : std::nullopt);
      const bool finished = outcome == train::Outcome::finished;
      steps_.end(trainer_.caller(), [&] {
        if (finished) recording_.finish(trainer_);
      });
      return {finished ? 0 : process::kInterruptedExit, folder, ""};
    } catch (const std::exception& error) {
      steps_.fail(std::current_exception());
      recording_.fail(error.what());
      throw;
    }
  }

 private:
  // Of this worker, and how many began.
  [[nodiscard]] std::string environment(const RunRequest& request) const {
    return run_environment(request.execution, job_.at("workers").get<std::int64_t>(), experiment_.arithmetic);
  }
  train::Execution shared(const RunRequest& request) {
    train::Execution execution = request.execution.execution();
    execution.shared = &steps_;
    return execution;
  }

  train::Experiment experiment_;
  train::DataSets data_;
  process::StopSignal stop_;
  std::atomic<bool> agreed_ = false;
  scale::ElasticSteps steps_;
  nlohmann::json job_;
  train::Trainer trainer_;
  scale::SharedRecording recording_;
};

}  // namespace

std::string job_identity(const train::Experiment& experiment, const std::string& data_description) {
  train::Experiment anywhere = experiment;  // the data may lie elsewhere
  anywhere.data.path.clear();
  const std::string program = archive::program_version();
  return fmt::format("{}, {}, experiment {:.12}, data {:.12}", program.substr(0, program.find(',')),
                     train::contract_of(experiment.arithmetic), archive::sha256(train::to_toml(anywhere)),
                     archive::sha256(data_description));
}

void require_grains(const train::Experiment& experiment) {
  if (experiment.arithmetic.is_stock()) {
    throw UserError("arithmetic.kind", "workers share a step by exact sums, which stock PyTorch has not",
                    "leave --workers out, or set arithmetic.kind = \"isobit\"");
  }
  if (experiment.grain_size() < experiment.batch) return;
  throw UserError(
      "grain", "a step has one grain, so there is nothing to share between workers",
      fmt::format("set grain to a part of the batch: --set grain={} (another experiment, with other weights)",
                  std::max<std::int64_t>(1, experiment.batch / 8)));
}

RunOutcome run_worker(const RunRequest& request) {
  const bool quiet = std::getenv(kSpawnedVariable) != nullptr;
  // Whoever is gone before it was reached is reported at once, and the group is formed anew. The transport reads it
  // when it first connects; no thread but this one runs yet.
  ::setenv("GLOO_DISABLE_CONNECTION_RETRIES", "1", 0);
  require_grains(request.experiment);
  Worker worker(request);
  if (!quiet) fmt::print(stderr, "joined the job at {}\n", request.workers.join);
  try {
    const RunOutcome outcome = worker.work();
    if (!quiet) fmt::print(stderr, "the job has ended: {}\n", outcome.folder.string());
    return outcome;
  } catch (const std::exception& error) {
    if (!quiet) throw;
    return {1, {}, ""};
  }
}

}  // namespace isobit::jobs
