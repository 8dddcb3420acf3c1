// Hands out the grains of a step to whoever is free.
//
// A worker claims the grain it computes next, and one more ahead whose samples are prepared meanwhile, also of the step
// after this one. What it claimed and cannot compute it gives back, and another worker takes it over. Which worker
// computes which grain, and when, changes no bit. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace isobit::grains {

class GrainSource {
 public:
  virtual ~GrainSource() = default;

  // A grain of `step` that nobody has claimed. Without one: waits while other workers hold claims that they may give
  // back, and returns nothing once every grain is done or the step was stopped.
  [[nodiscard]] virtual std::optional<std::int64_t> claim(std::int64_t step) = 0;
  // The same without waiting, of this step or the next.
  [[nodiscard]] virtual std::optional<std::int64_t> claim_ahead(std::int64_t step) = 0;
  virtual void done(std::int64_t step, std::int64_t grain) = 0;
  virtual void give_back(std::int64_t step, std::int64_t grain) = 0;
  // Whoever waits returns with nothing: a worker failed.
  virtual void stop(std::int64_t step) = 0;
};

// For the workers of one process.
class LocalGrainSource final : public GrainSource {
 public:
  // The grains of a step in the order in which they shall be handed out; empty beyond the last step.
  using Order = std::function<std::vector<std::int64_t>(std::int64_t step)>;
  explicit LocalGrainSource(Order order) : order_(std::move(order)) {}

  [[nodiscard]] std::optional<std::int64_t> claim(std::int64_t step) override;
  [[nodiscard]] std::optional<std::int64_t> claim_ahead(std::int64_t step) override;
  void done(std::int64_t step, std::int64_t grain) override;
  void give_back(std::int64_t step, std::int64_t grain) override;
  void stop(std::int64_t step) override;
  // Forgets all claims, for steps to be done anew. Precondition: no worker is in a step.
  void reset();

 private:
  struct Step {
    std::vector<std::int64_t> free;  // handed out from the end
    std::set<std::int64_t> claimed;
    bool stopped = false;
  };
  Step& of(std::int64_t step);
  [[nodiscard]] std::optional<std::int64_t> take(Step& step);

  Order order_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Step> steps_;  // this one and the next
};

}  // namespace isobit::grains
