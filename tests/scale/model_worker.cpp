// What a worker of the model does, from one reply to the next request: elastic_steps.cpp, trainer.cpp, grain_worker.cpp
// and shared_recording.cpp without what they compute.
#include <algorithm>

#include "scale/model_job.h"

namespace isobit::scale {

using Phase = ModelWorker::Phase;
using Caller = ModelWorker::Caller;

// ---- ElasticSteps::regroup

void World::regroup(int w, Caller caller) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.caller = caller;
  worker.before = worker.done;
  worker.taken = worker.forget = false;
  ask_regroup(w);
}

void World::ask_regroup(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.phase = Phase::regroup;
  worker.waits_since = host_.together() ? host_.steps_done() : -1;
  Regroup request{worker.done, {}, worker.can_record};
  if (worker.done == worker.before && worker.caller == Caller::finish)
    request.held.assign(worker.held.begin(), worker.held.end());
  ask(w, request);
}

void World::fail(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const std::int64_t generation = worker.generation;
  if (worker.dropped) {
    const bool sums = worker.phase == Phase::exchange;
    join_again(w);
    worker.inbox.reset();
    if (worker.phase == Phase::gone) return;
    return sums ? regroup(w, Caller::finish) : ask_regroup(w);
  }
  failed_.insert(generation);
  if (worker.phase == Phase::exchange) {
    worker.caller = Caller::finish;
    worker.before = worker.done;
    worker.taken = worker.forget = false;
  }
  worker.phase = Phase::lost;
  ask(w, Lost{generation, ""});
}

void World::succeed(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const auto& arrivals = operations_.at(operation(w));
  const std::vector<int>& group = groups_.at(worker.generation);
  if (worker.phase == Phase::exchange) {
    std::size_t together = 0;
    std::set<std::int64_t> grains;
    for (const auto& [other, arrival] : arrivals) {
      if (arrival.done != worker.done) throw Violation("an exchange of two steps");
      together += arrival.held.size();
      grains.insert(arrival.held.begin(), arrival.held.end());
    }
    if (together != grains.size() || static_cast<int>(together) != scenario_.grains)
      throw Violation("a step was committed whose grains are not each there once");
    ++worker.done;
    worker.known = true;
    worker.held.clear();
    worker.agreed = worker.agreed || worker.agreed_sums->stop;
    worker.agreed_sums.reset();
    return after_step(w);
  }
  const Formed& formed = *worker.formed;
  if (worker.phase == Phase::meet && !formed.behind.empty()) return enter(w, Phase::share);
  if (worker.phase == Phase::share &&
      std::find(formed.behind.begin(), formed.behind.end(), formed.rank) != formed.behind.end()) {
    const Arrival& source = arrivals.at(group.at(static_cast<std::size_t>(formed.source)));
    if (source.done <= worker.done) throw Violation("a state was taken over that is not ahead");
    worker.done = source.done;
    worker.known = source.known;
    worker.base = source.base, worker.next_base = source.next_base;
    worker.ends_in_checkpoint = source.ends_in_checkpoint;
    worker.taken = true;
  }
  record_or_go_on(w);
}

void World::record_or_go_on(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const Formed formed = *worker.formed;
  worker.formed.reset();
  worker.forget = !formed.keep || worker.taken;
  worker.agreed = worker.agreed || formed.stop;
  const bool records = formed.rank == formed.recorder;
  const bool same = worker.recorder && worker.recordings == formed.recordings;
  if (worker.recorder && !(records && same)) worker.writes = false;
  worker.recorder = records;
  worker.recordings = formed.recordings;
  if (records && !same && begin_record(w)) {
    worker.taken = true;
    worker.known = false;
    worker.phase = Phase::lost;
    return ask(w, Lost{worker.generation, "the record is ahead"});
  }
  if (worker.phase != Phase::gone) regrouped(w);
}

void World::regrouped(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.taken || worker.forget) worker.held.clear();
  const bool open = worker.taken && worker.known;
  switch (worker.caller) {
    case Caller::end: return end(w);
    case Caller::evaluate:
      if (!worker.taken) return ask_part(w);
      worker.part.reset();
      [[fallthrough]];
    case Caller::begin:
    case Caller::finish: return open ? after_step(w) : start_step(w);
  }
}

// ---- SharedRecording

// True: this worker took over the record's checkpoint.
bool World::begin_record(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.recordings <= record_.number) {  // the record is another one's already
    if (!worker.dropped) throw Violation("two writers of the record under one number");
    worker.writes = false;
    join_again(w);
    worker.inbox.reset();
    return false;
  }
  record_.number = worker.number = worker.recordings;
  worker.writes = !record_.sealed;
  if (record_.sealed) return false;
  if (record_.checkpoint > worker.done) {
    worker.done = worker.base = worker.next_base = record_.checkpoint;
    worker.ends_in_checkpoint = false;
    record_.lines = record_.checkpoint;
    return true;
  }
  if (record_.checkpoint < worker.base) throw Violation("no worker remembers the steps after the record's checkpoint");
  record_.lines = worker.done;
  if (worker.done > record_.checkpoint && worker.ends_in_checkpoint && worker.next_base == worker.done)
    record_.checkpoint = worker.done;
  return false;
}

bool World::may_write(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (!worker.writes) return false;
  if (worker.number == record_.number) return true;
  if (!worker.dropped) throw Violation("a worker of the job lost the record to another one");
  worker.writes = false;
  join_again(w);  // asked whether it is alive
  worker.inbox.reset();
  return false;
}

// ---- Trainer and GrainWorker

// The grain claimed ahead, with another one ahead of it; else one that is free.
void World::claim_next(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const std::int64_t step = worker.done + 1;
  if (worker.ahead && worker.ahead->first == step) {
    worker.now = worker.ahead->second;
    worker.ahead.reset();
    return claim_ahead(w);
  }
  worker.phase = Phase::claim;
  ask(w, Claim{worker.generation, step, scenario_.grains, false, scenario_.batch});
}

// From what was granted before, without asking; else the host.
void World::claim_ahead(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const std::int64_t step = worker.done + 1;
  if (!worker.batch.empty()) {
    worker.ahead = std::pair(step, worker.batch.back());
    worker.batch.pop_back();
    return compute(w);
  }
  worker.phase = Phase::ahead;
  ask(w, Claim{worker.generation, step, scenario_.grains, true, scenario_.batch});
}

void World::start_step(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.done == scenario_.steps) return end(w);
  if (worker.void_claims) worker.ahead.reset(), worker.batch.clear(), worker.void_claims = false;
  claim_next(w);
}

void World::compute(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (!worker.held.insert(*worker.now).second) throw Violation("a worker computed a grain twice");
  worker.now.reset();
  claim_next(w);
}

void World::finish(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.phase = Phase::finish;
  Finish request;
  request.generation = worker.generation;
  request.step = worker.done + 1;
  request.grains = scenario_.grains;
  request.held.assign(worker.held.begin(), worker.held.end());
  ask(w, request);
}

// execute(): the step's line, evaluation, checkpoint.
void World::after_step(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.held.clear();
  if (worker.next_base > worker.base && worker.done > worker.next_base) {
    worker.base = worker.next_base;
    if (worker.base > record_.checkpoint) throw Violation("a worker forgot steps that are in no checkpoint");
  }
  worker.ends_in_checkpoint = false;
  if (may_write(w)) {
    if (record_.lines + 1 < worker.done) throw Violation("a line was left out");
    const bool due = worker.done > scenario_.checkpoint_after;
    if (due && record_.checkpoint < scenario_.checkpoint_after)
      throw Violation("a checkpoint that is due was left out");
    record_.lines = worker.done;
  }
  if (worker.phase == Phase::gone) return;
  worker.part.reset();
  if (scenario_.evaluates) return ask_part(w);
  after_evaluation(w);
}

void World::ask_part(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  worker.phase = Phase::part;
  const ClaimPart request{worker.generation, worker.done, 2, std::exchange(worker.part, std::nullopt)};
  ask(w, request);
}

void World::after_evaluation(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  const bool interrupted = worker.agreed && worker.done < scenario_.steps;
  if (interrupted || worker.done == scenario_.checkpoint_after || worker.done == scenario_.steps) {
    worker.next_base = worker.done;
    worker.ends_in_checkpoint = true;
    worker.phase = Phase::checkpoint;
    return;
  }
  start_step(w);
}

void World::end(int w) { workers_[static_cast<std::size_t>(w)].phase = Phase::seal; }

// ---- one turn

void World::turn(int w) {
  ModelWorker& worker = workers_[static_cast<std::size_t>(w)];
  if (worker.phase == Phase::checkpoint) {
    if (may_write(w)) record_.checkpoint = worker.done;
    if (worker.phase == Phase::gone) return;
    return worker.agreed && worker.done < scenario_.steps ? end(w) : start_step(w);
  }
  if (worker.phase == Phase::seal) {
    if (worker.recorder && worker.done == scenario_.steps && may_write(w)) record_.sealed = true;
    if (worker.phase == Phase::gone) return;
    worker.phase = Phase::end;
    return ask(w, End{worker.generation, worker.recorder});
  }
  const Reply reply = *std::exchange(worker.inbox, std::nullopt);
  if (std::holds_alternative<Failed>(reply)) {
    worker.phase = Phase::gone;
    return;
  }
  const auto* granted = std::get_if<Granted>(&reply);
  const std::int64_t step = worker.done + 1;
  switch (worker.phase) {
    case Phase::regroup:
      if (std::holds_alternative<Done>(reply)) {
        worker.phase = Phase::gone;
      } else if (const auto* formed = std::get_if<Formed>(&reply)) {
        worker.formed = *formed;
        worker.waits_since = -1;
        worker.generation = formed->generation;
        worker.void_claims = true;
        enter(w, Phase::meet);
      } else {
        ask_regroup(w);
      }
      return;
    case Phase::lost: return ask_regroup(w);
    case Phase::claim:
      if (granted == nullptr || !granted->index) return finish(w);
      worker.now = *granted->index;
      worker.batch = granted->further;
      if (const auto back = std::exchange(worker.ahead, std::nullopt)) {
        worker.phase = Phase::give_back;
        return ask(w, GiveBack{worker.generation, back->first, back->second});
      }
      return claim_ahead(w);
    case Phase::give_back: return claim_ahead(w);
    case Phase::ahead:
    case Phase::ahead_later:
      if (granted != nullptr && granted->index) {
        worker.ahead = std::pair(worker.phase == Phase::ahead ? step : step + 1, *granted->index);
        if (worker.phase == Phase::ahead_later && !granted->further.empty())
          throw Violation("several grains of the next step for one worker");
        worker.batch = granted->further;
      } else if (worker.phase == Phase::ahead && step < scenario_.steps) {
        worker.phase = Phase::ahead_later;
        return ask(w, Claim{worker.generation, step + 1, scenario_.grains, true});
      }
      return compute(w);
    case Phase::finish:
      if (const auto* reduce = std::get_if<Reduce>(&reply)) {
        worker.agreed_sums = *reduce;
        return enter(w, Phase::exchange);
      }
      return regroup(w, Caller::finish);
    case Phase::part:
      if (granted == nullptr) return regroup(w, Caller::evaluate);
      if (granted->index) {
        worker.part = PartResult{*granted->index,
                                 {static_cast<std::uint8_t>(worker.done), static_cast<std::uint8_t>(*granted->index)}};
        return ask_part(w);
      }
      worker.phase = Phase::parts;
      return ask(w, Evaluated{worker.generation, worker.done});
    case Phase::parts:
      if (const auto* all = std::get_if<AllParts>(&reply)) {
        const auto done = static_cast<std::uint8_t>(worker.done);
        if (all->values != std::vector<Bytes>{{done, 0}, {done, 1}}) throw Violation("an evaluation of other parts");
        return after_evaluation(w);
      }
      return regroup(w, Caller::evaluate);
    case Phase::end:
      if (std::holds_alternative<Done>(reply)) {
        worker.phase = Phase::gone;
        return;
      }
      return regroup(w, Caller::end);
    default: throw std::logic_error("a turn of nobody's");
  }
}

}  // namespace isobit::scale
