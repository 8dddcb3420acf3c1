// A worker's part in the steps of its job: claims grains from the host, exchanges sums with the others of its group,
// and comes back into a new group when one of them is lost, or itself was (docs/design/workers.md).
//
// What is recorded is the matter of a Recording, of which one worker's writes: the recorder's. Errors: Failure of the
// job as the exception it was (NotFinite, UserError), UserError where the host is gone for good. One thread; the source
// of grains may be asked from several.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "scale/exact_reduce.h"
#include "scale/exchange.h"
#include "scale/link.h"
#include "train/shared_steps.h"
#include "train/trainer.h"

namespace isobit::scale {

// What every worker keeps of the record, and one of them writes.
class Recording {
 public:
  virtual ~Recording() = default;
  // Whether this worker could write the record.
  [[nodiscard]] virtual bool can_record() const = 0;
  // From now on this worker writes; `recordings` counts who did so before. `caller`'s state becomes that of the
  // record's newest checkpoint where it is behind that: true.
  virtual bool begin(std::int64_t recordings, const train::SharedSteps::Caller& caller) = 0;
  // Another one does, or nobody knows.
  virtual void end() = 0;
  // What a worker that takes over the state must know of the steps before, and the taking over.
  [[nodiscard]] virtual std::string notes() const = 0;
  virtual void take_notes(const std::string& notes, std::int64_t steps_done) = 0;
};

class ElasticSteps final : public train::SharedSteps {
 public:
  // `grains`: of a step; 0 beyond the last. `stop`: this worker was asked to; `agreed`: set when all stop.
  struct Settings {
    Link::Options link;
    std::function<std::int64_t(std::int64_t step)> grains;
    const std::atomic<bool>* stop = nullptr;
    std::atomic<bool>* agreed = nullptr;
    Recording* recording = nullptr;
  };
  // Joins. UserError where the host refuses or is not there.
  explicit ElasticSteps(Settings settings);
  ~ElasticSteps() override;

  [[nodiscard]] const std::string& job() const { return link_->job(); }
  void set_recording(Recording* recording) { settings_.recording = recording; }
  void set_grains(std::function<std::int64_t(std::int64_t)> grains) { settings_.grains = std::move(grains); }

  // The first group; the result of the step whose state was taken over, where its record is not complete yet.
  [[nodiscard]] std::shared_ptr<train::StepResult> begin(const Caller& caller);
  // Nothing is left to compute: waits until the record is complete. The recorder calls `record` and says so.
  void end(const Caller& caller, const std::function<void()>& record);
  // This worker cannot go on, and so nobody can.
  void fail(const std::exception_ptr& error) noexcept;
  [[nodiscard]] bool records() const { return recorder_; }
  // Whether the host still counts this worker among the job's; if not, it joins anew.
  [[nodiscard]] bool alive();

  [[nodiscard]] grains::GrainSource& source() override { return source_; }
  [[nodiscard]] Outcome finish(const train::StepOrder& order, grains::GrainSums* sums, const std::exception_ptr& error,
                               const Caller& caller) override;
  void finished(const train::StepResult& result) override;
  [[nodiscard]] std::vector<train::Evaluator::Part> evaluate(
      std::int64_t step, std::int64_t parts, const std::function<train::Evaluator::Part(std::int64_t)>& compute,
      const Caller& caller) override;
  [[nodiscard]] std::int64_t generation() const override { return claims_; }

 private:
  class Source final : public grains::GrainSource {
   public:
    explicit Source(ElasticSteps& steps) : steps_(steps) {}
    [[nodiscard]] std::optional<std::int64_t> claim(std::int64_t step) override { return steps_.claim(step, false); }
    [[nodiscard]] std::optional<std::int64_t> claim_ahead(std::int64_t step) override {
      return steps_.claim(step, true);
    }
    void done(std::int64_t, std::int64_t) override;
    void give_back(std::int64_t step, std::int64_t grain) override;
    void stop(std::int64_t) override;

   private:
    ElasticSteps& steps_;
  };
  struct Regrouped {
    bool taken = false, forget = false;
    std::shared_ptr<train::StepResult> result;
  };

  // Granted, and claimed by no thread of this process yet: a claim's way to the host takes as long as a small grain, so
  // that one asks for what it computes in kBatchSeconds. All of one step.
  struct Batch {
    std::int64_t step = 0;
    std::deque<std::int64_t> grains;
  };
  [[nodiscard]] std::optional<std::int64_t> claim(std::int64_t step, bool ahead);
  [[nodiscard]] std::optional<std::int64_t> take_from_batch(std::int64_t step);
  [[nodiscard]] std::int64_t wanted(std::int64_t step) const;
  void grain_done();
  void give_back(std::int64_t step, std::int64_t grain);
  [[nodiscard]] Reply ask(const Request& request);
  void join_again();
  [[nodiscard]] Regrouped regroup(const Caller& caller, const std::vector<std::int64_t>& held);
  [[nodiscard]] bool form(const Caller& caller, const Formed& formed, Regrouped& result);
  void share_state(const Caller& caller, const Formed& formed, Regrouped& result);
  [[nodiscard]] Outcome outcome_of(const Regrouped& regrouped);

  Settings settings_;
  std::mutex mutex_;  // of the link, and of what threads claim from
  Batch batch_;
  double grain_seconds_ = 0;  // of late; 0: unknown
  std::chrono::steady_clock::time_point claimed_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Exchange> exchange_;
  Source source_{*this};
  std::int64_t generation_ = 0, claims_ = 0, recordings_ = 0;
  bool recorder_ = false, stopped_ = false, ended_ = false;
  std::shared_ptr<train::StepResult> last_;
  ReduceMemory memory_;
};

}  // namespace isobit::scale
