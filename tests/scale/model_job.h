// A job in small, for enumeration: the real Membership, and workers that do what ElasticSteps, Trainer and
// SharedRecording do, without arithmetic, threads or sockets.
//
// A World is a value: copied, stepped by one event, compared by its digest(). What a worker does between a reply and
// its next request is one event; so are an exchange's success and failure in one member, a crash, the host's notice of
// it, a worker dropped that goes on, a joiner, the wish to stop. Promises are checked as events happen: Violation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <ostream>
#include <string>
#include <vector>

#include "scale/membership.h"

namespace isobit::scale {

class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How large the job is, and how often what may go wrong.
struct Scenario {
  const char* name = "";
  int workers = 2, grains = 3, steps = 2;
  int batch = 1;             // grains that a worker asks for at once
  int checkpoint_after = 1;  // this step, and the last one
  bool evaluates = false;
  int crashes = 0, losses = 0, cuts = 0, joins = 0, stops = 0;
  int readers = 0;  // of `workers`, the last ones, which cannot write the record; joiners can
};
// For GoogleTest, which prints its bytes otherwise.
inline void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }

struct ModelWorker {
  enum class Phase {
    regroup,      // wait for a group
    meet,         // connect with it
    share,        // state, from the farthest
    lost,         // has told of a failed exchange
    claim,        // wait for a grain
    give_back,    // one of the next step, for that
    ahead,        // for one ahead, of this step
    ahead_later,  // of the next
    finish,       // wait at the end of a step
    exchange,     // sums
    part,         // wait for a part of an evaluation
    parts,        // for all of them
    checkpoint,   // about to write it
    seal,         // about to complete the record
    end,          // wait for that
    gone          // ended in order
  };
  enum class Caller { begin, finish, evaluate, end };

  Phase phase = Phase::regroup;
  Caller caller = Caller::begin;
  bool alive = true, noticed = false, dropped = false, can_record = true;
  WorkerId id = 0;
  std::int64_t waits_since = -1;  // for a group of which it is no member: the steps done by then
  std::int64_t done = 0, before = 0, generation = 0;
  bool known = false, agreed = false;  // the result of step `done`; that the job stops
  std::set<std::int64_t> held;         // grains of step done + 1 in its sums
  std::optional<std::int64_t> now;
  std::optional<std::pair<std::int64_t, std::int64_t>> ahead;  // step, grain
  std::vector<std::int64_t> batch;                             // granted beside it, of step done + 1
  bool void_claims = false, taken = false, forget = false;
  bool recorder = false, writes = false;
  std::int64_t recordings = 0, number = 0, base = 0, next_base = 0;
  bool ends_in_checkpoint = false;  // what it remembers of the record
  std::optional<PartResult> part;
  std::optional<Formed> formed;
  std::optional<Reduce> agreed_sums;
  std::optional<Reply> inbox;
};

class World {
 public:
  explicit World(const Scenario& scenario);

  struct Event {
    enum class Kind { turn, succeed, fail, link_lost, notice, patience, give_up, crash, lose, cut, join, stop };
    Kind kind = Kind::turn;
    int worker = -1;
    [[nodiscard]] std::string text() const;
  };
  // All that can happen; those up to `give_up` need no bad luck.
  [[nodiscard]] std::vector<Event> events() const;
  void happen(const Event& event);
  // Everybody has ended, or is dead.
  [[nodiscard]] bool over() const;
  void check_end() const;
  [[nodiscard]] std::string digest() const;

 private:
  using Phase = ModelWorker::Phase;
  struct Arrival {
    std::int64_t done = 0, base = 0, next_base = 0;
    bool known = false, ends_in_checkpoint = false;
    std::set<std::int64_t> held;
  };
  using OperationName = std::pair<std::int64_t, std::int64_t>;  // generation, number
  struct Record {
    std::int64_t number = -1, checkpoint = 0, lines = 0;  // number: of who began last
    bool sealed = false;
  };

  void admit(int w);
  void ask(int w, const Request& request);
  void deliver(const Replies& replies);
  void check_claim(const Claim& claim, const Replies& replies) const;
  void check_joiners(std::int64_t steps_done) const;
  void join_again(int w);
  void turn(int w);

  void regroup(int w, ModelWorker::Caller caller);
  void ask_regroup(int w);
  void regrouped(int w);
  void enter(int w, Phase phase);
  void succeed(int w);
  void fail(int w);
  void record_or_go_on(int w);
  bool begin_record(int w);
  [[nodiscard]] OperationName operation(int w) const;
  [[nodiscard]] bool all_arrived(int w) const;
  [[nodiscard]] bool bound_to_fail(int w) const;

  void claim_next(int w);
  void claim_ahead(int w);
  void start_step(int w);
  void compute(int w);
  void finish(int w);
  void after_step(int w);
  void after_evaluation(int w);
  void ask_part(int w);
  void end(int w);
  bool may_write(int w);

  Scenario scenario_;
  Membership host_;
  std::vector<ModelWorker> workers_;
  std::map<std::int64_t, std::vector<int>> groups_;  // by generation
  std::map<OperationName, std::map<int, Arrival>> operations_;
  std::set<std::int64_t> failed_;  // generations of which somebody lost an exchange
  Record record_;
  WorkerId next_id_ = 1;
  int crashes_, losses_, cuts_, joins_, stops_, disturbances_ = 0;
  bool gave_up_ = false;
};

}  // namespace isobit::scale
