#include "archive/run_writer.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/record_part.h"
#include "archive/run_folder.h"
#include "archive/run_state.h"

namespace isobit::archive {

namespace {

RunKind kind_of(const std::string& experiment) {
  RunKind kind = kExperimentRun;
  if (keeps_predictions(experiment)) kind.logs.push_back(kPredictionsLog);
  return kind;
}

}  // namespace

struct RunWriter::Impl {
  RunFolder run;
  std::optional<Checkpoint> checkpoint;
  std::int64_t saved = 0;  // the newest checkpoint's step
};

RunWriter::RunWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunWriter::RunWriter(RunWriter&&) noexcept = default;
RunWriter& RunWriter::operator=(RunWriter&&) noexcept = default;
RunWriter::~RunWriter() = default;

const std::string& RunWriter::id() const { return impl_->run.id(); }
const std::filesystem::path& RunWriter::folder() const { return impl_->run.path(); }
const std::string& RunWriter::experiment() const { return impl_->run.input(kExperimentFile); }
const std::string& RunWriter::data() const { return impl_->run.input(kDataFile); }
const std::optional<Checkpoint>& RunWriter::checkpoint() const { return impl_->checkpoint; }

RunWriter RunWriter::create(const std::filesystem::path& runs, const RunInputs& inputs) {
  std::map<std::string, std::string> files = {
      {kExperimentFile, inputs.experiment}, {kEnvironmentFile, inputs.environment}, {kDataFile, inputs.data}};
  add_collected_parts(files);
  return RunWriter(
      std::make_unique<Impl>(Impl{RunFolder::create(runs, inputs.name, std::move(files), kind_of(inputs.experiment),
                                                    inputs.ending, inputs.contract),
                                  {},
                                  0}));
}

RunWriter RunWriter::resume(const std::filesystem::path& run, const std::string& environment,
                            const std::string& contract) {
  // Whether the text is the run's own is found out when the run is resumed.
  const std::filesystem::path experiment = run / kExperimentFile;
  const RunKind kind =
      is_there(experiment) ? kind_of(read_file(experiment, largest_file(kExperimentFile))) : kExperimentRun;
  auto impl = std::make_unique<Impl>(Impl{RunFolder::resume(run, environment, kind, contract), {}, 0});
  if (const auto& newest = impl->run.checkpoint()) {
    impl->saved = newest->step;
    impl->checkpoint.emplace(newest->step, Safetensors::read(impl->run.path() / newest->file));
  }
  return RunWriter(std::move(impl));
}

void RunWriter::append_step(const StepLine& line) {
  impl_->run.append_step(line.step, format_line(line), RunFolder::Wait::for_more);
}
void RunWriter::append_metrics(const MetricsLine& line) { impl_->run.append(kMetricsLog, format_line(line)); }
void RunWriter::append_timing(const TimingLine& line) { impl_->run.append(kTimingsLog, format_line(line)); }
void RunWriter::append_predictions(const PredictionsLine& line) {
  impl_->run.append(kPredictionsLog, format_line(line));
}
void RunWriter::flush() { impl_->run.flush(); }
void RunWriter::write_part(const std::string& name, const std::string& json) { impl_->run.write_part(name, json); }

void RunWriter::write_checkpoint(std::span<const TensorView> tensors, const std::string& state, const Retention& keep,
                                 const std::string& weights_sha256) {
  const std::int64_t step = impl_->run.steps();
  if (step <= impl_->saved)  // such a record would be sealed, and then refused by every reader
    throw std::logic_error(fmt::format("a checkpoint of step {} after that of step {}", step, impl_->saved));
  const std::string header = safetensors_header(tensors, {{"state", state}});
  std::vector<std::span<const std::byte>> pieces{std::as_bytes(std::span(header.data(), header.size()))};
  for (const TensorView& tensor : tensors) pieces.push_back(tensor.data);
  impl_->run.write_checkpoint(".safetensors", pieces, keep, weights_sha256);
  impl_->saved = step;
}

void RunWriter::finish(const std::string& weights, const std::string& sha256) { impl_->run.finish(weights, sha256); }
void RunWriter::fail(const std::string& reason) noexcept { impl_->run.fail(reason); }

}  // namespace isobit::archive
