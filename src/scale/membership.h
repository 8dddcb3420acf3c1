// Who belongs to a job, which grains are taken, and what all have agreed on: the host's state, without input or output
// (docs/design/workers.md has the states, and what each failure does).
//
// A generation is a group of workers that compute steps together, by rank in the order in which they were admitted.
// It ends when one of them is gone, loses an exchange, or when others wait to join and a step begins; then every living
// worker asks for a new group, telling how many steps it has done and which grains of the next it holds. None is formed
// without somebody who can write the record: its checkpoints are due. Grains that nobody holds are handed out again.
// Steps commit in each worker by itself, so that after a failure some may be one step ahead: the others copy their
// state, which has the same bits. The host says when a group's workers may exchange their sums (Reduce): when all of
// them have come to the end of the step and hold, together, each grain once. Nothing here waits: a reply comes when
// what it waits for has happened. Every call may produce replies to any worker, in `out`. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scale/messages.h"

namespace isobit::scale {

using WorkerId = std::int64_t;
using Replies = std::vector<std::pair<WorkerId, Reply>>;

// What one can see of a worker.
struct WorkerView {
  WorkerId id = 0;
  std::string name, cpu;
  enum class State { admitted, waiting, computing, finished, ended } state = State::admitted;
  std::int64_t grains = 0, steps_done = 0;
  bool recorder = false;
};

class Membership {
 public:
  // `identity`: that workers must have; empty takes the first one's. `expected`: the first group waits for so many, or
  // for stop_waiting().
  Membership(std::string identity, std::string job, std::int64_t expected)
      : identity_(std::move(identity)), job_(std::move(job)), expected_(expected) {}

  // A connection that said Join. Its first reply is Admitted or Refused.
  void join(WorkerId id, const Join& join, Replies& out);
  // From an admitted worker. One that was dropped, or was never admitted: WireError.
  void request(WorkerId id, const Request& request, Replies& out);
  // Gone, or silent for too long.
  void drop(WorkerId id, Replies& out);
  // The first group is formed of those who are there.
  void stop_waiting(Replies& out);
  // The first group waits for so many at most.
  void expect(std::int64_t workers, Replies& out);
  // The step under way is the last one.
  void stop() { stop_ = true; }
  // Everybody is told this failure.
  void fail(const Failure& failure, Replies& out);
  // A group is wanted, and nobody who lives can write the record.
  [[nodiscard]] bool unrecorded() const;

  [[nodiscard]] std::vector<WorkerView> workers() const;
  [[nodiscard]] std::int64_t generation() const { return generation_; }
  [[nodiscard]] bool together() const { return open_; }                  // none of the generation's group is gone
  [[nodiscard]] std::int64_t steps_done() const { return steps_done_; }  // by all of the group
  [[nodiscard]] const std::optional<Failure>& failure() const { return failure_; }
  [[nodiscard]] bool recorded() const { return recorded_; }
  // Grains handed out, and how many of them again.
  [[nodiscard]] std::int64_t granted() const { return granted_; }
  [[nodiscard]] std::int64_t granted_again() const { return granted_again_; }

 private:
  friend struct MembershipState;  // of tests, which go through all states
  struct Worker {
    Join about;
    std::optional<Regroup> regroup;         // waits for a group
    std::optional<Finish> finish;           // waits at the end of a step
    std::optional<std::int64_t> evaluated;  // waits for the parts after this step
    bool ending = false;                    // waits for the record
    std::int64_t grains = 0, steps_done = 0;
    bool ended = false;
    std::optional<bool> can_record;  // nothing: has not said so yet
  };
  struct Step {
    std::vector<std::int64_t> free;  // handed out from the end
    bool begun = false;
  };
  struct Evaluation {
    std::int64_t step = -1;
    std::set<std::int64_t> free;
    std::map<std::int64_t, Bytes> values;
    std::size_t parts = 0;
  };

  void handle(WorkerId id, Worker& worker, const Regroup& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const Claim& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const GiveBack& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const Finish& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const Lost& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const ClaimPart& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const Evaluated& request, Replies& out);
  void handle(WorkerId id, Worker& worker, const End& request, Replies& out);

  [[nodiscard]] bool in_group(WorkerId id, std::int64_t generation) const;
  [[nodiscard]] bool joiners() const;
  Step& step(std::int64_t number, std::int64_t grains);
  [[nodiscard]] std::int64_t share(const Step& step, const Claim& request) const;
  void end_generation(Replies& out);
  void form(Replies& out);
  void decide_sums(std::vector<std::pair<WorkerId, Formed>>& members);
  void close_step(Replies& out);
  void answer_evaluated(Replies& out);

  std::string identity_, job_;
  std::int64_t expected_;
  std::map<WorkerId, Worker> workers_;  // admitted and alive
  std::int64_t generation_ = 0;
  bool open_ = false;                   // the generation's group is whole
  std::vector<WorkerId> group_;         // by rank
  std::map<std::int64_t, Step> steps_;  // of this generation
  std::set<std::int64_t> held_;         // of step first_, when the group was formed
  std::int64_t first_ = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> given_;  // (step, grain) since the last commit, for counting
  Evaluation evaluation_;
  WorkerId recorder_ = -1;
  std::int64_t recordings_ = 0, steps_done_ = 0, granted_ = 0, granted_again_ = 0;
  bool stop_ = false, recorded_ = false;
  std::optional<std::int64_t> last_;  // step, where all were told to stop
  std::optional<Failure> failure_;
};

}  // namespace isobit::scale
