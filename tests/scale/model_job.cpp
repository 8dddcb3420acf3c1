// The World's events, exchanges, failures and digest; model_worker.cpp has what a worker does.
#include "scale/model_job.h"

#include <algorithm>

namespace isobit::scale {

using Kind = World::Event::Kind;

struct MembershipState {  // what the tests see of it beside its replies
  // All that its replies depend on (granted_ and the like are for people).
  template <class Text>
  static void write(const Membership& host, Text& to);
  // Grains of a step that somebody still has to be given; all of them where nobody has asked.
  static std::size_t free_grains(const Membership& host, std::int64_t step, int grains) {
    const auto found = host.steps_.find(step);
    if (found != host.steps_.end()) return found->second.free.size();
    return static_cast<std::size_t>(grains) - (step == host.first_ ? host.held_.size() : 0);
  }
};

std::string World::Event::text() const {
  static constexpr const char* kNames[] = {"turn",    "succeed", "fail", "link_lost", "notice", "patience",
                                           "give_up", "crash",   "lose", "cut",       "join",   "stop"};
  return std::string(kNames[static_cast<int>(kind)]) + " " + std::to_string(worker);
}

World::World(const Scenario& scenario)
    : scenario_(scenario),
      host_("job", "{}", scenario.workers),
      crashes_(scenario.crashes),
      losses_(scenario.losses),
      cuts_(scenario.cuts),
      joins_(scenario.joins),
      stops_(scenario.stops) {
  workers_.resize(static_cast<std::size_t>(scenario.workers));
  for (int w = 0; w < scenario.workers; ++w) {
    workers_[static_cast<std::size_t>(w)].can_record = w < scenario.workers - scenario.readers;
    admit(w), ask_regroup(w);
  }
}

// ---- the host

void World::admit(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.id = next_id_++;
  worker.dropped = false;
  Replies replies;
  host_.join(worker.id, {"job", "model", "cpu"}, replies);
  if (std::holds_alternative<Refused>(replies.at(0).second)) worker.phase = Phase::gone;
}

// A dropped worker's connection is gone; what it asked for is answered with Again by ElasticSteps itself.
void World::join_again(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.generation = -1;
  admit(w);
  if (worker.phase != Phase::gone) worker.inbox = Again{};
}

void World::ask(int w, const Request& request) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.dropped) return join_again(w);
  Replies replies;
  host_.request(worker.id, request, replies);
  if (const auto* claim = std::get_if<Claim>(&request)) check_claim(*claim, replies);
  deliver(replies);
}

void World::deliver(const Replies& replies) {
  for (const auto& [id, reply] : replies) {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      ModelWorker& worker = workers_[w];
      if (worker.id != id) continue;
      if (const auto* formed = std::get_if<Formed>(&reply)) {
        std::vector<int>& group = groups_[formed->generation];
        group.resize(static_cast<std::size_t>(formed->size));
        group.at(static_cast<std::size_t>(formed->rank)) = static_cast<int>(w);
      }
      if (std::holds_alternative<Reduce>(reply)) check_joiners(worker.done + 1);
      if (!worker.alive || worker.dropped) continue;
      if (worker.inbox) throw Violation("two replies to one request");
      worker.inbox = reply;
    }
  }
}

// What the host owes beside bits: work is handed out in the order of the steps, and nobody waits longer than a step.
void World::check_claim(const Claim& claim, const Replies& replies) const {
  for (const auto& [id, reply] : replies) {
    const auto* granted = std::get_if<Granted>(&reply);
    if (granted == nullptr || !granted->index) continue;
    for (std::int64_t step = host_.steps_done() + 1; step < claim.step; ++step) {
      if (MembershipState::free_grains(host_, step, scenario_.grains) > 0)
        throw Violation("a grain of the next step was handed out while one is left");
    }
  }
}

void World::check_joiners(std::int64_t steps_done) const {
  for (const ModelWorker& worker : workers_) {
    const bool waits = worker.alive && !worker.dropped && worker.phase == Phase::regroup && !worker.inbox;
    if (waits && worker.waits_since >= 0 && steps_done > worker.waits_since + 1)
      throw Violation("a joiner waits while steps begin without it");
  }
}

// ---- exchanges: who succeeds and who fails is anybody's guess once all have come

World::OperationName World::operation(int w) const {
  const ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.phase == Phase::meet) return {worker.generation, 0};
  if (worker.phase == Phase::share) return {worker.generation, 1};
  return {worker.generation, 2 + worker.done};
}

bool World::all_arrived(int w) const {
  const OperationName name = operation(w);
  const auto found = operations_.find(name);
  return found != operations_.end() && found->second.size() == groups_.at(name.first).size();
}

// Somebody of the group will not come, or has left.
bool World::bound_to_fail(int w) const {
  const std::int64_t generation = operation(w).first;
  if (failed_.count(generation) != 0) return true;
  const std::vector<int>& group = groups_.at(generation);
  return std::any_of(group.begin(), group.end(), [&](int other) {
    const ModelWorker& each = workers_[static_cast<std::size_t>(other)];
    const auto* formed = each.inbox ? std::get_if<Formed>(&*each.inbox) : nullptr;
    const bool comes = each.generation == generation || (formed != nullptr && formed->generation == generation);
    return !each.alive || !comes || each.phase == Phase::gone;
  });
}

void World::enter(int w, Phase phase) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.phase = phase;
  operations_[operation(w)][w] = {worker.done, worker.base, worker.next_base, worker.known, worker.ends_in_checkpoint,
                                  worker.held};
}

// ---- events

std::vector<World::Event> World::events() const {
  std::vector<Event> all;
  const auto add = [&](Kind kind, std::size_t w) { all.push_back({kind, static_cast<int>(w)}); };
  bool somebody_died = false;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    const ModelWorker& worker = workers_[w];
    const int number = static_cast<int>(w);
    if (!worker.alive) {
      somebody_died = true;
      if (!worker.noticed) add(Kind::notice, w);
      continue;
    }
    if (worker.phase == Phase::gone) continue;
    const bool exchanges =
        worker.phase == Phase::meet || worker.phase == Phase::share || worker.phase == Phase::exchange;
    const bool local = worker.phase == Phase::checkpoint || worker.phase == Phase::seal;
    if (exchanges) {
      if (all_arrived(number)) add(Kind::succeed, w);
      if (bound_to_fail(number) || (worker.dropped && worker.phase == Phase::meet))
        add(Kind::fail, w);
      else if (losses_ > 0)
        add(Kind::lose, w);
    } else if (local || worker.inbox) {
      add(Kind::turn, w);
    } else if (worker.dropped) {
      add(Kind::link_lost, w);
    }
    if (crashes_ > 0) add(Kind::crash, w);
    if (cuts_ > 0 && !worker.dropped) add(Kind::cut, w);
  }
  if (host_.generation() == 0 && somebody_died) add(Kind::patience, 0);
  if (host_.unrecorded()) add(Kind::give_up, 0);
  if (joins_ > 0 && !host_.recorded()) add(Kind::join, 0);
  if (stops_ > 0) add(Kind::stop, 0);
  return all;
}

void World::happen(const Event& event) {
  const int w = event.worker;
  Replies replies;
  if (event.kind == Kind::join) {
    --joins_, ++disturbances_;
    workers_.emplace_back();
    admit(static_cast<int>(workers_.size()) - 1);
    if (workers_.back().phase != Phase::gone) ask_regroup(static_cast<int>(workers_.size()) - 1);
    return;
  }
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  switch (event.kind) {
    case Kind::turn: turn(w); break;
    case Kind::succeed: succeed(w); break;
    case Kind::lose: --losses_, ++disturbances_; [[fallthrough]];
    case Kind::fail: fail(w); break;
    case Kind::link_lost: join_again(w); break;
    case Kind::notice:
      worker.noticed = true;
      if (!worker.dropped) host_.drop(worker.id, replies);
      break;
    case Kind::patience: host_.stop_waiting(replies); break;
    case Kind::give_up:
      gave_up_ = true;
      host_.fail({Failure::Kind::user_error, 0, "folder", "nobody can write it", ""}, replies);
      break;
    case Kind::crash: --crashes_, ++disturbances_, worker.alive = false; break;
    case Kind::cut:
      --cuts_, ++disturbances_;
      worker.dropped = true;
      host_.drop(worker.id, replies);
      break;
    case Kind::stop: --stops_, host_.stop(); break;
    case Kind::join: break;
  }
  deliver(replies);
  if (host_.failure() && !gave_up_) throw Violation("the job failed: " + host_.failure()->message);
  // Each disturbance ends one group, and its consequences (a record that is ahead, a worker that rejoins) two more.
  if (host_.generation() > 1 + 3 * disturbances_) throw Violation("groups are formed without need");
}

bool World::over() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const ModelWorker& worker) {
    return worker.phase == Phase::gone || (!worker.alive && worker.noticed);
  });
}

void World::check_end() const {
  const bool anybody =
      std::any_of(workers_.begin(), workers_.end(), [](const ModelWorker& worker) { return worker.alive; });
  if (!anybody) return;  // resumed from the record
  if (gave_up_) return;  // the same
  if (!host_.recorded()) throw Violation("workers left a job that has not ended");
  if (scenario_.stops == 0 && !record_.sealed) throw Violation("the job has ended, its record is not complete");
  if (!record_.sealed && record_.checkpoint != record_.lines)
    throw Violation("a job that was stopped left no checkpoint of its last step");
}

// ---- the digest

namespace {

// Numbers, and rows of numbers behind their length: two different states never have the same text.
class Text {
 public:
  template <class T>
  void number(T value) {
    const auto wide = static_cast<std::int64_t>(value);
    if (wide >= -100 && wide < 100) return text_.push_back(static_cast<char>(wide));
    text_.push_back(127);
    text_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
  }
  template <class T>
  void numbers(const T& values) {
    number(values.size());
    for (const auto& each : values) number(each);
  }
  void optional(const std::optional<std::int64_t>& value) { number(value.has_value()), number(value.value_or(0)); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write(const Formed& formed, Text& to) {
  to.number(formed.generation), to.number(formed.rank), to.number(formed.size), to.number(formed.recorder);
  to.number(formed.recordings), to.number(formed.source), to.number(formed.steps_done), to.numbers(formed.behind);
  to.number(formed.keep), to.number(formed.stop);
}

void write(const std::optional<Reply>& reply, Text& to) {
  to.number(reply ? static_cast<int>(reply->index()) : -1);
  if (!reply) return;
  if (const auto* formed = std::get_if<Formed>(&*reply)) write(*formed, to);
  if (const auto* granted = std::get_if<Granted>(&*reply)) to.optional(granted->index), to.numbers(granted->further);
  if (const auto* reduce = std::get_if<Reduce>(&*reply)) to.number(reduce->stop);
  if (const auto* parts = std::get_if<AllParts>(&*reply)) {
    for (const Bytes& value : parts->values) to.numbers(value);
  }
}

}  // namespace

template <class To>
void MembershipState::write(const Membership& host, To& to) {
  for (const auto& [id, worker] : host.workers_) {
    to.number(id), to.number(worker.ending), to.number(worker.can_record ? int{*worker.can_record} : -1),
        to.number(worker.ended);
    to.number(worker.regroup.has_value()), to.number(worker.finish.has_value()), to.optional(worker.evaluated);
    if (worker.regroup) to.number(worker.regroup->steps_done), to.numbers(worker.regroup->held);
    if (worker.finish) to.number(worker.finish->step), to.numbers(worker.finish->held);
  }
  to.number(host.expected_), to.number(host.generation_), to.number(host.open_), to.numbers(host.group_);
  to.number(host.steps_.size()), to.optional(host.last_), to.number(host.given_.size());
  for (const auto& [number, grain] : host.given_) to.number(number), to.number(grain);
  for (const auto& [number, step] : host.steps_) to.number(number), to.number(step.begun), to.numbers(step.free);
  to.numbers(host.held_), to.number(host.first_);
  to.number(host.evaluation_.step), to.numbers(host.evaluation_.free);
  for (const auto& [index, value] : host.evaluation_.values) to.number(index), to.numbers(value);
  to.number(host.recorder_), to.number(host.recordings_), to.number(host.steps_done_), to.number(host.stop_);
  to.number(host.recorded_), to.number(host.failure_.has_value());
}

std::string World::digest() const {
  Text to;
  MembershipState::write(host_, to);
  for (const ModelWorker& each : workers_) {
    to.number(each.alive), to.number(each.noticed);
    if (!each.alive) {  // the rest is gone with it
      to.number(each.noticed ? 0 : each.id);
      continue;
    }
    to.number(each.phase), to.number(each.caller), to.number(each.dropped), to.number(each.id), to.number(each.done);
    to.number(each.before), to.number(each.generation), to.number(each.known), to.number(each.agreed);
    to.numbers(each.held), to.optional(each.now);
    to.numbers(each.batch);
    to.number(each.ahead ? each.ahead->first : -1), to.number(each.ahead ? each.ahead->second : -1);
    to.number(each.void_claims), to.number(each.taken), to.number(each.forget), to.number(each.recorder);
    to.number(each.writes), to.number(each.recordings), to.number(each.number), to.number(each.base);
    to.number(each.next_base), to.number(each.ends_in_checkpoint), to.number(each.part ? each.part->index : -1);
    to.number(each.can_record), to.number(each.waits_since);
    if (each.formed) write(*each.formed, to);
    to.number(each.agreed_sums ? each.agreed_sums->stop : -1);
    write(each.inbox, to);
  }
  for (const auto& [name, arrivals] : operations_) {
    const bool anybody = std::any_of(workers_.begin(), workers_.end(), [&](const ModelWorker& each) {
      return each.alive && each.generation == name.first;
    });
    if (!anybody) continue;  // nobody will ask
    to.number(name.first), to.number(name.second);
    for (const auto& [w, arrival] : arrivals) to.number(w), to.number(arrival.done), to.numbers(arrival.held);
  }
  to.numbers(failed_);
  to.number(record_.number), to.number(record_.checkpoint), to.number(record_.lines), to.number(record_.sealed);
  to.number(crashes_), to.number(losses_), to.number(cuts_), to.number(joins_), to.number(stops_);
  return to.take();
}

}  // namespace isobit::scale
