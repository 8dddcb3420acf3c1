#include "scale/membership.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

namespace isobit::scale {

namespace {

constexpr std::int64_t kMostGrains = 1 << 17, kMostSteps = std::int64_t{1} << 62;  // of a step, of a run

// Of whoever has the key and is of another mind.
void require_step(std::int64_t step) {
  if (step < 0 || step > kMostSteps) throw WireError("a step that no run has");
}
void require_grains(std::int64_t grains) {
  if (grains < 1 || grains > kMostGrains) throw WireError("a step of impossibly many grains");
}

}  // namespace

void Membership::join(WorkerId id, const Join& join, Replies& out) {
  if (identity_.empty()) identity_ = join.identity;
  if (join.identity != identity_) {
    out.emplace_back(id, Refused{"the job is " + identity_ + "\n  this worker is " + join.identity});
    return;
  }
  if (recorded_) {
    out.emplace_back(id, Refused{"the job has ended"});
    return;
  }
  workers_[id].about = join;
  out.emplace_back(id, Admitted{id, job_});
}

void Membership::request(WorkerId id, const Request& request, Replies& out) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) throw WireError("a request of somebody who is no worker of the job");
  std::visit(
      [&](const auto& each) {
        using Kind = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<Kind, Fail>) {
          fail(each.failure, out);
          out.emplace_back(id, Done{});
        } else if constexpr (std::is_same_v<Kind, Alive>) {
          found->second.grains = each.grains;
        } else if constexpr (std::is_same_v<Kind, Join> || std::is_same_v<Kind, Put> || std::is_same_v<Kind, Get>) {
          throw WireError("a request that is not made here");
        } else if (failure_) {
          out.emplace_back(id, Failed{*failure_});
        } else {
          handle(id, found->second, each, out);
        }
      },
      request);
}

bool Membership::in_group(WorkerId id, std::int64_t generation) const {
  return open_ && generation == generation_ && std::find(group_.begin(), group_.end(), id) != group_.end();
}

bool Membership::joiners() const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& each) {
    return each.second.regroup && std::find(group_.begin(), group_.end(), each.first) == group_.end();
  });
}

// ---- groups

void Membership::handle(WorkerId id, Worker& worker, const Regroup& request, Replies& out) {
  if (recorded_) {
    worker.ended = true;
    out.emplace_back(id, Done{});
    return;
  }
  require_step(request.steps_done);
  worker.regroup = request;
  worker.can_record = request.can_record;
  worker.steps_done = request.steps_done;
  form(out);
}

void Membership::handle(WorkerId id, Worker&, const Lost& request, Replies& out) {
  if (in_group(id, request.generation)) end_generation(out);
  out.emplace_back(id, Done{});
}

void Membership::drop(WorkerId id, Replies& out) {
  const bool member = std::find(group_.begin(), group_.end(), id) != group_.end();
  if (workers_.erase(id) == 0) return;
  if (member && open_) end_generation(out);
  form(out);
}

void Membership::stop_waiting(Replies& out) {
  expected_ = 0;
  form(out);
}

void Membership::expect(std::int64_t workers, Replies& out) {
  expected_ = std::min(expected_, workers);
  form(out);
}

void Membership::fail(const Failure& failure, Replies& out) {
  if (recorded_) return;  // what is complete stays so, whatever somebody meets who comes too late
  if (!failure_) failure_ = failure;
  for (auto& [id, worker] : workers_) {
    if (worker.regroup || worker.finish || worker.evaluated || worker.ending) out.emplace_back(id, Failed{*failure_});
    worker.regroup.reset(), worker.finish.reset(), worker.evaluated.reset(), worker.ending = false;
  }
}

// Whoever waits for the others is told to regroup; the rest hear it when they ask next.
void Membership::end_generation(Replies& out) {
  open_ = false;
  for (auto& [id, worker] : workers_) {
    if (worker.finish || worker.evaluated || worker.ending) out.emplace_back(id, Again{});
    worker.finish.reset(), worker.evaluated.reset(), worker.ending = false;
  }
}

bool Membership::unrecorded() const {
  if (open_ || recorded_ || failure_) return false;
  const auto waits = [](const auto& each) { return each.second.regroup.has_value(); };
  const auto may_record = [](const auto& each) { return !each.second.ended && each.second.can_record.value_or(true); };
  return std::any_of(workers_.begin(), workers_.end(), waits) &&
         std::none_of(workers_.begin(), workers_.end(), may_record);
}

// A group of all who live, once all of them ask for one.
void Membership::form(Replies& out) {
  if (failure_ || open_) return;
  std::vector<std::pair<WorkerId, Formed>> members;
  for (auto& [id, worker] : workers_) {
    if (worker.ended) continue;
    if (!worker.regroup) {
      // Admitted, but still making its network: it joins later, where others have worked already.
      const bool member = std::find(group_.begin(), group_.end(), id) != group_.end();
      if (!member && expected_ == 0) continue;
      return;
    }
    members.emplace_back(id, Formed{});
  }
  if (members.empty() || static_cast<std::int64_t>(members.size()) < expected_) return;
  if (std::none_of(members.begin(), members.end(), [&](const auto& each) { return *workers_[each.first].can_record; }))
    return;
  expected_ = 0;
  ++generation_;
  open_ = true;
  steps_.clear();
  group_.clear();
  for (std::size_t i = 0; i < evaluation_.parts; ++i) {  // claimed by somebody who is gone
    if (evaluation_.values.count(static_cast<std::int64_t>(i)) == 0)
      evaluation_.free.insert(static_cast<std::int64_t>(i));
  }
  for (const auto& [id, formed] : members) group_.push_back(id);
  decide_sums(members);
  for (auto& [id, formed] : members) {
    workers_[id].regroup.reset();
    out.emplace_back(id, formed);
  }
}

// Who is farthest, whose sums stay, and who records.
void Membership::decide_sums(std::vector<std::pair<WorkerId, Formed>>& members) {
  Formed common;
  common.generation = generation_;
  common.size = static_cast<std::int64_t>(members.size());
  common.steps_done = -1;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const std::int64_t done = workers_[members[rank].first].regroup->steps_done;
    if (done <= common.steps_done) continue;
    common.steps_done = done;
    common.source = static_cast<std::int64_t>(rank);
  }
  // Not where somebody merely wants to stop: of those who are as far, some may be in the next step already.
  common.stop = last_ && common.steps_done >= *last_;
  WorkerId recorder = -1;
  held_.clear();
  first_ = common.steps_done + 1;
  steps_done_ = common.steps_done;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    auto& [id, formed] = members[rank];
    Worker& worker = workers_[id];
    const Regroup& asked = *worker.regroup;
    if (*worker.can_record && (recorder < 0 || id == recorder_))
      recorder = id, common.recorder = static_cast<std::int64_t>(rank);
    if (asked.steps_done < common.steps_done) {
      common.behind.push_back(static_cast<std::int64_t>(rank));
      formed.keep = false;
    } else {
      formed.keep = std::none_of(asked.held.begin(), asked.held.end(), [&](auto grain) { return held_.count(grain); });
      if (formed.keep) held_.insert(asked.held.begin(), asked.held.end());
    }
    worker.steps_done = common.steps_done;
  }
  if (recorder != recorder_) recorder_ = recorder, ++recordings_;
  common.recordings = recordings_;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const bool keep = members[rank].second.keep;
    members[rank].second = common;
    members[rank].second.rank = static_cast<std::int64_t>(rank);
    members[rank].second.keep = keep;
  }
}

// ---- steps

Membership::Step& Membership::step(std::int64_t number, std::int64_t grains) {
  const auto found = steps_.find(number);
  if (found != steps_.end()) return found->second;
  Step& step = steps_[number];
  for (std::int64_t grain = grains - 1; grain >= 0; --grain) {
    if (number != first_ || held_.count(grain) == 0) step.free.push_back(grain);
  }
  return step;
}

// How many grains one claim brings: what is wanted, at most half of an even share of what is left, so that the ends of
// a step stay short however unlike the workers are. One who is alone shares with nobody. One of a step ahead.
std::int64_t Membership::share(const Step& step, const Claim& request) const {
  if (request.step > steps_done_ + 1) return 1;
  const auto left = static_cast<std::int64_t>(step.free.size()), workers = static_cast<std::int64_t>(group_.size());
  return std::clamp<std::int64_t>(request.most, 1,
                                  std::max<std::int64_t>(1, workers == 1 ? left : left / (2 * workers)));
}

void Membership::handle(WorkerId id, Worker& worker, const Claim& request, Replies& out) {
  require_grains(request.grains);
  if (!in_group(id, request.generation)) {
    out.emplace_back(id, request.ahead ? Reply(Granted{}) : Reply(Again{}));
    return;
  }
  if (request.step < first_ || request.step > steps_done_ + 2)
    throw WireError("a claim in a step that is not under way");
  Step& now = step(request.step, request.grains);
  if (request.ahead) {
    // The last grains go to whoever is free first, not to whoever asks first.
    // No grain of the next step is due while one of this step is left.
    const auto current = steps_.find(steps_done_ + 1);
    const bool early = request.step > steps_done_ + 1 && (current == steps_.end() || !current->second.free.empty());
    const bool tail = now.free.size() <= group_.size() && request.step == steps_done_ + 1 && now.begun;
    if (early || tail || now.free.empty() || (!now.begun && joiners())) {
      out.emplace_back(id, Granted{});
      return;
    }
  } else if (!now.begun) {
    if (joiners()) {
      end_generation(out);
      out.emplace_back(id, Again{});
      form(out);
      return;
    }
    now.begun = true;
  }
  if (now.free.empty()) {
    out.emplace_back(id, Granted{});
    return;
  }
  Granted granted;
  for (std::int64_t count = share(now, request); count > 0; --count) {
    const std::int64_t grain = now.free.back();
    now.free.pop_back();
    ++granted_;
    if (!given_.emplace(request.step, grain).second) ++granted_again_;
    if (granted.index) {
      granted.further.push_back(grain);
    } else {
      granted.index = grain;
    }
  }
  worker.steps_done = std::max(worker.steps_done, request.step - 1);
  out.emplace_back(id, granted);
}

void Membership::handle(WorkerId id, Worker&, const GiveBack& request, Replies& out) {
  const auto found = steps_.find(request.step);
  const bool now = in_group(id, request.generation) && found != steps_.end();
  if (now && given_.erase({request.step, request.grain}) != 0) {  // none that nobody has
    found->second.free.push_back(request.grain);
    --granted_;
  }
  out.emplace_back(id, Done{});
}

void Membership::handle(WorkerId id, Worker& worker, const Finish& request, Replies& out) {
  require_step(request.step);
  require_grains(request.grains);
  if (!in_group(id, request.generation)) {
    out.emplace_back(id, Again{});
    return;
  }
  worker.finish = request;
  const bool all =
      std::all_of(group_.begin(), group_.end(), [&](WorkerId each) { return workers_[each].finish.has_value(); });
  if (all) close_step(out);
}

void Membership::close_step(Replies& out) {
  const Finish& first = *workers_[group_[0]].finish;
  Reduce reduce;
  std::set<std::int64_t> held;
  std::size_t together = 0;
  const Failure* failed = nullptr;
  bool same = true;
  for (const WorkerId id : group_) {
    const Finish& each = *workers_[id].finish;
    same = same && each.step == first.step && each.grains == first.grains &&
           (each.tops.empty() || first.tops.empty() || each.tops.size() == first.tops.size());
    held.insert(each.held.begin(), each.held.end());
    together += each.held.size();
    reduce.counts.push_back(static_cast<std::int64_t>(each.held.size()));
    reduce.packed.push_back(each.packed);
    stop_ = stop_ || each.stop;
    if (each.failure && (failed == nullptr || each.failure->grain < failed->grain)) failed = &*each.failure;
    if (reduce.tops.size() < each.tops.size()) reduce.tops.resize(each.tops.size());
    for (std::size_t i = 0; i < each.tops.size(); ++i) reduce.tops[i] = std::max(reduce.tops[i], each.tops[i]);
  }
  if (failed != nullptr) return fail(Failure(*failed), out);
  const bool alone = first.grains == 1;
  const bool whole = alone || (together == held.size() && static_cast<std::int64_t>(together) == first.grains &&
                               *held.begin() == 0 && *held.rbegin() == first.grains - 1);
  if (!same || !whole) return end_generation(out);  // what is missing is handed out anew
  reduce.stop = stop_;
  if (stop_) last_ = first.step;
  steps_done_ = first.step;
  while (!steps_.empty() && steps_.begin()->first <= steps_done_) steps_.erase(steps_.begin());
  while (!given_.empty() && given_.begin()->first <= steps_done_) given_.erase(given_.begin());
  for (const WorkerId id : group_) {
    workers_[id].finish.reset();
    workers_[id].steps_done = steps_done_;
    out.emplace_back(id, reduce);
  }
}

// ---- evaluation: parts' results are few bytes, and stay here until the next one

void Membership::handle(WorkerId id, Worker&, const ClaimPart& request, Replies& out) {
  if (request.parts < 0 || request.parts > (1 << 20)) throw WireError("an evaluation of impossibly many parts");
  const bool member = in_group(id, request.generation);
  if (evaluation_.step != request.step && member) {
    evaluation_ = {request.step, {}, {}, static_cast<std::size_t>(request.parts)};
    for (std::int64_t i = 0; i < request.parts; ++i) evaluation_.free.insert(i);
  }
  const bool same = evaluation_.step == request.step;  // a former group's parts count, too
  if (same && evaluation_.parts != static_cast<std::size_t>(request.parts))
    throw WireError("an evaluation of other parts than the others'");
  if (same && request.done && request.done->index >= 0 && request.done->index < request.parts) {
    evaluation_.values[request.done->index] = request.done->value;
    evaluation_.free.erase(request.done->index);
    answer_evaluated(out);
  }
  if (!member) {
    out.emplace_back(id, Again{});
    return;
  }
  if (evaluation_.free.empty()) {
    out.emplace_back(id, Granted{});
    return;
  }
  const std::int64_t part = *evaluation_.free.begin();
  evaluation_.free.erase(evaluation_.free.begin());
  out.emplace_back(id, Granted{part, {}});
}

void Membership::handle(WorkerId id, Worker& worker, const Evaluated& request, Replies& out) {
  if (!in_group(id, request.generation)) {
    out.emplace_back(id, Again{});
    return;
  }
  worker.evaluated = request.step;
  answer_evaluated(out);
}

void Membership::answer_evaluated(Replies& out) {
  if (evaluation_.values.size() != evaluation_.parts) return;
  AllParts all;
  for (const auto& [index, value] : evaluation_.values) all.values.push_back(value);
  for (auto& [id, worker] : workers_) {
    if (worker.evaluated != evaluation_.step) continue;
    worker.evaluated.reset();
    out.emplace_back(id, all);
  }
}

// ---- the end

void Membership::handle(WorkerId id, Worker& worker, const End& request, Replies& out) {
  // Another one than the recorder had it once, and lost it.
  if (request.recorded && id == recorder_) recorded_ = true;
  if (recorded_) {
    worker.ended = true;
    out.emplace_back(id, Done{});
    for (auto& [other, each] : workers_) {
      if (!each.ending && !each.regroup) continue;
      each.ending = false, each.regroup.reset(), each.ended = true;
      out.emplace_back(other, Done{});
    }
    return;
  }
  if (!in_group(id, request.generation)) {
    out.emplace_back(id, Again{});
    return;
  }
  worker.ending = true;
}

std::vector<WorkerView> Membership::workers() const {
  std::vector<WorkerView> all;
  for (const auto& [id, worker] : workers_) {
    WorkerView view{id,
                    worker.about.name,
                    worker.about.cpu,
                    WorkerView::State::admitted,
                    worker.grains,
                    worker.steps_done,
                    id == recorder_};
    const bool member = std::find(group_.begin(), group_.end(), id) != group_.end();
    if (worker.ended) {
      view.state = WorkerView::State::ended;
    } else if (worker.finish || worker.evaluated || worker.ending) {
      view.state = WorkerView::State::finished;
    } else if (worker.regroup) {
      view.state = WorkerView::State::waiting;
    } else if (member) {
      view.state = WorkerView::State::computing;
    }
    all.push_back(view);
  }
  return all;
}

}  // namespace isobit::scale
