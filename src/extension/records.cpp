#include "extension/records.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "archive/experiment_text.h"
#include "archive/files.h"
#include "archive/log_lines.h"
#include "archive/record_part.h"
#include "archive/run_folder.h"
#include "archive/run_state.h"
#include "archive/runs.h"
#include "archive/secret_scan.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "archive/weights_digest.h"
#include "aten/check_mode.h"

struct isobit_record {
  isobit::archive::RunFolder run;
  std::string folder;
  std::vector<std::int64_t> saved;  // the steps of all checkpoints that it ever had, ascending
};

namespace {

namespace archive = isobit::archive;
using archive::RunFolder;

constexpr std::int64_t kKeptCheckpoints = 2;  // the newest, and one to fall back on

thread_local std::string message, place, answer;
thread_local int code = 0;

// What a check computes, or a process that it started, is not certified. (The variable only takes away.)
bool is_check() { return isobit::aten::check_mode::on() || std::getenv("ISOBIT_CHECK") != nullptr; }

// Exceptions do not cross a C interface.
template <class Function>
const char* reported(Function&& function) {
  place.clear();
  code = 0;
  try {
    if (is_check()) throw std::logic_error("no record within isobit check: what it computes is not certified");
    function();
    return nullptr;
  } catch (const archive::FileError& error) {
    code = error.code();
    place = error.place();
    message = error.what();
  } catch (const archive::UserError& error) {
    place = error.place();
    message = error.what();
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "unknown error";
  }
  return message.c_str();
}

std::string text_of(const char* content, std::int64_t size) { return {content, static_cast<std::size_t>(size)}; }

// A program that keeps predictions has a log more.
archive::RunKind kind_of(const std::string& experiment) {
  archive::RunKind kind = archive::kScriptRun;
  if (archive::keeps_predictions(experiment)) kind.logs.push_back(archive::kPredictionsLog);
  return kind;
}

void note_saved(std::vector<std::int64_t>& saved, std::int64_t step) {
  if (saved.empty() || saved.back() != step) saved.push_back(step);
}

void open(RunFolder run, isobit_record** record) {
  std::string folder = run.path().string();
  std::vector<std::int64_t> saved;
  const std::string log = archive::read_file(run.path() / archive::kCheckpointsLog);
  for (const auto& line : archive::parse_unfinished_log<archive::CheckpointLine>(log))
    note_saved(saved, line.entry.step);
  *record = new isobit_record{std::move(run), std::move(folder), std::move(saved)};
}

// Follows from the steps that were saved alone, so that a run that was resumed keeps what any other keeps.
archive::Retention retention(const std::vector<std::int64_t>& saved, std::int64_t segments) {
  if (segments <= 1) return kKeptCheckpoints;
  std::size_t every = 1;
  while (saved.size() / every >= 2 * static_cast<std::size_t>(segments)) every *= 2;
  return {kKeptCheckpoints, [&saved, every](std::int64_t step) {
            const auto place = std::lower_bound(saved.begin(), saved.end(), step) - saved.begin();
            return (static_cast<std::size_t>(place) + 1) % every == 0;
          }};
}

}  // namespace

int isobit_record_problem(const char** about) {
  if (about != nullptr) *about = place.c_str();
  return code;
}

const char* isobit_record_create(const char* runs, const char* name, const char* const* names,
                                 const char* const* contents, const std::int64_t* sizes, std::int64_t count,
                                 const char* contract, const char* ending, isobit_record** record) {
  return reported([=] {
    std::map<std::string, std::string> inputs;
    for (std::int64_t i = 0; i < count; ++i) inputs[names[i]] = text_of(contents[i], sizes[i]);
    archive::add_collected_parts(inputs);
    const archive::RunKind kind = kind_of(inputs[archive::kExperimentFile]);
    open(RunFolder::create(runs, name, std::move(inputs), kind, ending, contract), record);
  });
}

const char* isobit_record_resume(const char* folder, const char* environment, const char* contract,
                                 isobit_record** record) {
  return reported([=] {
    const std::filesystem::path experiment = std::filesystem::path(folder) / archive::kExperimentFile;
    const bool there = archive::is_there(experiment);
    const auto kind = there ? kind_of(archive::read_file(experiment, archive::largest_file(archive::kExperimentFile)))
                            : archive::kScriptRun;
    open(RunFolder::resume(folder, environment, kind, contract), record);
  });
}

const char* isobit_record_id(const isobit_record* record) { return record->run.id().c_str(); }
const char* isobit_record_folder(const isobit_record* record) { return record->folder.c_str(); }

const char* isobit_record_checkpoint(const isobit_record* record, std::int64_t* step) {
  const auto& checkpoint = record->run.checkpoint();
  *step = checkpoint ? checkpoint->step : 0;
  return checkpoint ? checkpoint->file.c_str() : nullptr;
}

std::int64_t isobit_record_size(const isobit_record* record, const char* log) {
  try {
    return static_cast<std::int64_t>(record->run.size(log));
  } catch (const std::exception&) {
    return -1;
  }
}

const char* isobit_record_step(isobit_record* record, std::int64_t step, std::int64_t epoch, std::uint32_t loss,
                               const char* batch, const char* gradients, const char* weights, const char* optimizer) {
  return reported([=] {
    record->run.append_step(step,
                            format_line(archive::StepLine{step, epoch, loss, batch, weights, optimizer, gradients}));
  });
}

const char* isobit_record_metrics(isobit_record* record, std::int64_t step, std::int64_t epoch, const char* set,
                                  const char* const* names, const double* values, std::int64_t count) {
  return reported([=] {
    archive::MetricsLine line{step, epoch, set, {}};
    for (std::int64_t i = 0; i < count; ++i) line.values[names[i]] = values[i];
    record->run.append(archive::kMetricsLog, format_line(line));
  });
}

const char* isobit_record_outside(isobit_record* record, std::int64_t after, std::int64_t until, const char* where,
                                  const char* call) {
  return reported([=] {
    record->run.append(archive::kOutsideLog, format_line(archive::OutsideLine{after, until, where, call}));
  });
}

const char* isobit_record_predictions(isobit_record* record, std::int64_t step, std::int64_t epoch, const char* set,
                                      const std::int64_t* classes, const std::int64_t* targets, std::int64_t count) {
  return reported([=] {
    std::string bytes;
    for (std::int64_t i = 0; i < count; ++i) {
      for (int byte = 0; byte < 8; ++byte)
        bytes += static_cast<char>(static_cast<std::uint64_t>(targets[i]) >> (8 * byte));
    }
    const archive::PredictionsLine line{step, epoch, set, {classes, classes + count}, archive::sha256(bytes)};
    record->run.append(archive::kPredictionsLog, format_line(line));
  });
}

const char* isobit_record_evaluation(isobit_record* record, std::int64_t step, std::int64_t epoch, std::int64_t tensors,
                                     const char* batches) {
  return reported([=] {
    record->run.append(archive::kEvaluationsLog, format_line(archive::EvaluationLine{step, epoch, tensors, batches}));
  });
}

const char* isobit_record_save(isobit_record* record, const char* content, std::int64_t size, const char* sha256,
                               std::int64_t segments) {
  return reported([=] {
    const auto piece = std::as_bytes(std::span(content, static_cast<std::size_t>(size)));
    note_saved(record->saved, record->run.steps());
    record->run.write_checkpoint(".pt", std::span(&piece, 1), retention(record->saved, segments), sha256);
  });
}

const char* isobit_record_part(isobit_record* record, const char* name, const char* content, std::int64_t size) {
  return reported([=] { record->run.write_part(name, text_of(content, size)); });
}

const char* isobit_record_replace(isobit_record* record, const char* name, const char* content, std::int64_t size) {
  return reported([=] { record->run.replace(name, text_of(content, size)); });
}

const char* isobit_record_finish(isobit_record* record, const char* weights, const char* sha256) {
  return reported([=] { record->run.finish(weights, sha256); });
}

void isobit_record_fail(isobit_record* record, const char* reason) { record->run.fail(reason); }

void isobit_record_close(isobit_record* record) { delete record; }

const char* isobit_record_weights_sha256(const char* const* names, const char* const* dtypes,
                                         const std::int64_t* dimensions, const std::int64_t* extents,
                                         const void* const* elements, const std::int64_t* sizes, std::int64_t count,
                                         char* hex) {
  return reported([=] {
    std::vector<archive::TensorView> tensors;
    const std::int64_t* extent = extents;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span data(static_cast<const std::byte*>(elements[i]), static_cast<std::size_t>(sizes[i]));
      tensors.push_back({names[i], dtypes[i], {extent, extent + dimensions[i]}, data});
      extent += dimensions[i];
    }
    const std::string digest = archive::weights_sha256(tensors);
    digest.copy(hex, digest.size());
    hex[digest.size()] = 0;
  });
}

const char* isobit_record_redacted(const char* text, const char** redacted) {
  return reported([=] {
    static const archive::SecretScan scan({}, archive::environment_variables(), "");
    answer = scan.redacted(text);
    *redacted = answer.c_str();
  });
}

const char* isobit_record_find(const char* runs, const char* word, const char** folder) {
  return reported([=] {
    answer = archive::find_run(archive::runs_folder(runs), word).string();
    *folder = answer.c_str();
  });
}
