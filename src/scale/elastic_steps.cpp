#include "scale/elastic_steps.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "archive/user_error.h"
#include "scale/state_message.h"
#include "train/state_taken.h"

namespace isobit::scale {
namespace {

using train::StepResult;
using Part = train::Evaluator::Part;

constexpr double kBatchSeconds = 0.02;  // long beside a claim's way, some 0.1 ms; short beside a step
constexpr double kMostOfABatch = 1024;

Failure failure_of(const std::exception_ptr& error, std::int64_t grain) {
  Failure failure;
  failure.grain = grain;
  try {
    std::rethrow_exception(error);
  } catch (const grains::NotFinite& not_finite) {
    failure.kind = Failure::Kind::not_finite;
    failure.message = not_finite.what();
    failure.grain = not_finite.grain();
  } catch (const archive::UserError& user) {
    failure = {Failure::Kind::user_error, grain, user.place(), user.problem(), user.remedy()};
  } catch (const std::exception& other) {
    failure.message = other.what();
  }
  return failure;
}

[[noreturn]] void raise(const Failure& failure) {
  if (failure.kind == Failure::Kind::not_finite) throw grains::NotFinite(failure.message, failure.grain);
  if (failure.kind == Failure::Kind::user_error)
    throw archive::UserError(failure.place, failure.message, failure.remedy);
  throw std::runtime_error(failure.message);
}

[[noreturn]] void throw_ended() {
  throw archive::UserError("job", "has ended without this worker", "look at the run: isobit show last");
}

Bytes bytes_of(const Part& part) {
  std::vector<std::int64_t> words = {std::bit_cast<std::int64_t>(part.loss), std::bit_cast<std::int64_t>(part.weight),
                                     part.counts.correct, part.counts.targets,
                                     std::bit_cast<std::int64_t>(part.counts.error)};
  words.insert(words.end(), part.classes.begin(), part.classes.end());
  Bytes bytes(words.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

Part part_of(const Bytes& bytes) {
  constexpr std::size_t kFixed = 5;  // then the classes, where predictions are kept
  std::vector<std::int64_t> words(bytes.size() / sizeof(std::int64_t));
  if (words.size() < kFixed || bytes.size() != words.size() * sizeof(std::int64_t))
    throw WireError("a part of an evaluation that isobit does not send");
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return {std::bit_cast<double>(words[0]),
          std::bit_cast<double>(words[1]),
          {words[2], words[3], std::bit_cast<double>(words[4])},
          {words.begin() + kFixed, words.end()}};
}

}  // namespace

void ElasticSteps::Source::done(std::int64_t, std::int64_t) { steps_.grain_done(); }

void ElasticSteps::Source::give_back(std::int64_t step, std::int64_t grain) { steps_.give_back(step, grain); }

void ElasticSteps::Source::stop(std::int64_t) {
  const std::lock_guard lock(steps_.mutex_);
  steps_.stopped_ = true;
}

ElasticSteps::ElasticSteps(Settings settings) : settings_(std::move(settings)) {
  try {
    link_ = std::make_unique<Link>(settings_.link);
  } catch (const LinkLost& error) {
    throw archive::UserError(settings_.link.host.host + ":" + std::to_string(settings_.link.host.port), error.what(),
                             "start the job first, and use its address and its key");
  }
}

ElasticSteps::~ElasticSteps() = default;

// ---- the host

// What a worker hears that was dropped, or whose host is silent: a new group, of a new connection.
Reply ElasticSteps::ask(const Request& request) {
  const std::lock_guard lock(mutex_);
  try {
    return link_->ask(request);
  } catch (const LinkLost&) {
    join_again();
    return Again{};
  }
}

void ElasticSteps::join_again() {
  exchange_.reset();
  batch_.grains.clear();
  generation_ = -1;
  link_ = std::make_unique<Link>(settings_.link);
}

// Precondition of these two: the mutex is held.
std::optional<std::int64_t> ElasticSteps::take_from_batch(std::int64_t step) {
  if (batch_.grains.empty() || batch_.step != step) return std::nullopt;
  const std::int64_t grain = batch_.grains.front();
  batch_.grains.pop_front();
  claimed_ = std::chrono::steady_clock::now();
  return grain;
}

std::int64_t ElasticSteps::wanted(std::int64_t step) const {
  if (grain_seconds_ <= 0 || (!batch_.grains.empty() && batch_.step != step)) return 1;
  return static_cast<std::int64_t>(std::clamp(kBatchSeconds / grain_seconds_, 1.0, kMostOfABatch));
}

std::optional<std::int64_t> ElasticSteps::claim(std::int64_t step, bool ahead) {
  const std::int64_t grains = settings_.grains(step);
  if (grains <= 1) return std::nullopt;  // everybody computes it
  std::int64_t most = 1;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return std::nullopt;
    if (const auto grain = take_from_batch(step)) return grain;
    most = wanted(step);
  }
  const Reply reply = ask(Claim{generation_, step, grains, ahead, most});
  const auto* granted = std::get_if<Granted>(&reply);
  if (granted == nullptr) return std::nullopt;  // finish() hears why
  const std::lock_guard lock(mutex_);
  claimed_ = std::chrono::steady_clock::now();
  if (!granted->further.empty()) {
    batch_.step = step;
    batch_.grains.insert(batch_.grains.end(), granted->further.begin(), granted->further.end());
  }
  return granted->index;
}

// The newest claim was made just before this grain was begun.
void ElasticSteps::grain_done() {
  const std::lock_guard lock(mutex_);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - claimed_).count();
  grain_seconds_ = grain_seconds_ <= 0 ? seconds : 0.5 * (grain_seconds_ + seconds);
  link_->count_grain();
}

// Of a thread that stops: with what was granted beside it, since nobody may be left here to compute that. A grain that
// is not given back (this worker was dropped, or failed) is handed out again in the next group.
void ElasticSteps::give_back(std::int64_t step, std::int64_t grain) {
  Batch others;
  {
    const std::lock_guard lock(mutex_);
    if (batch_.step == step) others = std::exchange(batch_, {});
  }
  others.grains.push_back(grain);
  for (const std::int64_t each : others.grains) (void)ask(GiveBack{generation_, step, each});
}

// ---- groups

ElasticSteps::Regrouped ElasticSteps::regroup(const Caller& caller, const std::vector<std::int64_t>& held) {
  Regrouped result;
  const std::int64_t before = caller.steps_done();
  while (true) {
    const std::int64_t done = caller.steps_done();
    const bool can_record = settings_.recording != nullptr && settings_.recording->can_record();
    const Reply reply = ask(Regroup{done, done == before ? held : std::vector<std::int64_t>(), can_record});
    if (const auto* failed = std::get_if<Failed>(&reply)) raise(failed->failure);
    if (std::holds_alternative<Done>(reply)) {
      ended_ = true;
      return result;
    }
    const auto* formed = std::get_if<Formed>(&reply);
    if (formed == nullptr) continue;  // joined anew
    try {
      if (form(caller, *formed, result)) return result;
    } catch (const ExchangeLost& lost) {
      exchange_.reset();
      (void)ask(Lost{generation_, lost.what()});
    } catch (const LinkLost&) {
      const std::lock_guard lock(mutex_);
      join_again();
    }
  }
}

// False: the state of this worker has changed, and the others must hear of it.
bool ElasticSteps::form(const Caller& caller, const Formed& formed, Regrouped& result) {
  generation_ = formed.generation;
  ++claims_;
  stopped_ = false;
  exchange_.reset();
  {
    const std::lock_guard lock(mutex_);
    batch_.grains.clear();
    exchange_ = std::make_unique<Exchange>(*link_, formed.generation, formed.rank, formed.size);
  }
  const bool records = formed.rank == formed.recorder;
  // Before the others' steps are taken over: who was dropped, and joined anew, must not write them.
  if (recorder_ && (!records || recordings_ != formed.recordings)) {
    if (settings_.recording != nullptr) settings_.recording->end();
    recorder_ = false;
  }
  if (!formed.behind.empty()) share_state(caller, formed, result);
  result.forget = !formed.keep || result.taken;
  if (formed.stop && settings_.agreed != nullptr) *settings_.agreed = true;
  if (settings_.recording == nullptr) return true;
  const bool begins = records && !recorder_;
  recorder_ = records;
  recordings_ = formed.recordings;
  if (!begins || !settings_.recording->begin(formed.recordings, caller)) return true;
  result.taken = true;
  result.result = last_ = nullptr;
  (void)ask(Lost{generation_, "the record is ahead"});
  return false;
}

// From the one that is farthest to those behind. Weights, optimizer and sums have the bits that they would compute.
void ElasticSteps::share_state(const Caller& caller, const Formed& formed, Regrouped& result) {
  const bool source = formed.rank == formed.source;
  const bool behind = std::find(formed.behind.begin(), formed.behind.end(), formed.rank) != formed.behind.end();
  train::TrainingState state = caller.state();
  Bytes text;
  if (source) {
    const std::string notes = settings_.recording ? settings_.recording->notes() : "";
    text = encode_state(state.steps_done, state.sums, last_.get(), notes);
  }
  std::int64_t length = static_cast<std::int64_t>(text.size());
  wait(exchange_->broadcast({reinterpret_cast<std::uint8_t*>(&length), sizeof length}, formed.source));
  if (length < 0 || static_cast<std::size_t>(length) > kLongestFrame)
    throw WireError("a state that isobit does not send");
  text.resize(static_cast<std::size_t>(length));
  wait(exchange_->broadcast(text, formed.source));
  for (std::vector<trace::NamedTensor>* list : {&state.weights, &state.optimizer}) {
    for (trace::NamedTensor& each : *list) {
      // Into memory of its own: where the exchange fails midway, nothing has changed.
      at::Tensor values = source ? each.tensor.contiguous() : each.tensor.detach().clone();
      wait(exchange_->broadcast({static_cast<std::uint8_t*>(values.mutable_data_ptr()), values.nbytes()},
                                formed.source));
      each.tensor = values;
    }
  }
  if (!behind) return;
  DecodedState decoded = decode_state(text);
  state.steps_done = decoded.steps_done;
  state.sums = decoded.sums;
  caller.take_over(state);
  if (settings_.recording != nullptr) settings_.recording->take_notes(decoded.notes, decoded.steps_done);
  last_ = result.result = decoded.result;
  result.taken = true;
}

std::shared_ptr<StepResult> ElasticSteps::begin(const Caller& caller) {
  const Regrouped regrouped = regroup(caller, {});
  if (ended_) throw_ended();
  return regrouped.result;
}

// ---- steps

train::SharedSteps::Outcome ElasticSteps::outcome_of(const Regrouped& regrouped) {
  if (ended_) throw_ended();
  if (regrouped.taken) return TakenOver{regrouped.result};
  return MoreGrains{regrouped.forget};
}

train::SharedSteps::Outcome ElasticSteps::finish(const train::StepOrder& order, grains::GrainSums* sums,
                                                 const std::exception_ptr& error, const Caller& caller) {
  Finish request;
  request.generation = generation_;
  request.step = order.place.step;
  request.grains = order.grains;
  request.stop = settings_.stop != nullptr && *settings_.stop;
  Bytes packed;
  if (sums != nullptr) {
    for (const auto& [grain, kept] : sums->rest().by_grain) request.held.push_back(grain);
    request.tops = limb_bytes(sums->top_limbs());
    packed = pack(sums->rest(), caller.buffers());
    request.packed = static_cast<std::int64_t>(packed.size());
  }
  if (error) request.failure = failure_of(error, 0);
  const Reply reply = ask(request);
  if (const auto* failed = std::get_if<Failed>(&reply)) raise(failed->failure);
  const auto* agreed = std::get_if<Reduce>(&reply);
  if (agreed == nullptr) return outcome_of(regroup(caller, request.held));
  if (order.grains == 1) {
    if (agreed->stop && settings_.agreed != nullptr) *settings_.agreed = true;
    return Alone{};
  }
  try {
    grains::FinishedStep step =
        exact_reduce(*exchange_, *sums, caller.parameters(), caller.buffers(), packed, *agreed, memory_);
    if (agreed->stop && settings_.agreed != nullptr) *settings_.agreed = true;
    return step;
  } catch (const ExchangeLost& lost) {
    exchange_.reset();
    (void)ask(Lost{generation_, lost.what()});
    return outcome_of(regroup(caller, request.held));
  }
}

void ElasticSteps::finished(const StepResult& result) { last_ = std::make_shared<StepResult>(result); }

std::vector<Part> ElasticSteps::evaluate(std::int64_t step, std::int64_t parts,
                                         const std::function<Part(std::int64_t)>& compute, const Caller& caller) {
  std::optional<PartResult> done;
  while (true) {
    const Reply reply = ask(ClaimPart{generation_, step, parts, std::exchange(done, std::nullopt)});
    if (const auto* failed = std::get_if<Failed>(&reply)) raise(failed->failure);
    if (const auto* granted = std::get_if<Granted>(&reply)) {
      if (granted->index) {
        done = PartResult{*granted->index, bytes_of(compute(*granted->index))};
        continue;
      }
      const Reply all = ask(Evaluated{generation_, step});
      if (const auto* failed = std::get_if<Failed>(&all)) raise(failed->failure);
      if (const auto* values = std::get_if<AllParts>(&all)) {
        std::vector<Part> result;
        for (const Bytes& value : values->values) result.push_back(part_of(value));
        return result;
      }
    }
    const Regrouped regrouped = regroup(caller, {});
    if (ended_) throw_ended();
    if (regrouped.taken) throw train::StateTaken(regrouped.result);
  }
}

// ---- the end

void ElasticSteps::end(const Caller& caller, const std::function<void()>& record) {
  while (!ended_) {
    if (recorder_) record();
    const Reply reply = ask(End{generation_, recorder_});
    if (const auto* failed = std::get_if<Failed>(&reply)) raise(failed->failure);
    if (std::holds_alternative<Done>(reply)) return;
    (void)regroup(caller, {});
  }
}

bool ElasticSteps::alive() {
  const std::lock_guard lock(mutex_);
  try {
    (void)link_->ask(Put{"alive", {}});
    return true;
  } catch (const LinkLost&) {
    join_again();
    return false;
  }
}

void ElasticSteps::fail(const std::exception_ptr& error) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    (void)link_->ask(Fail{failure_of(error, 0)});
  } catch (const std::exception&) {  // then they hear that this worker is gone
  }
}

}  // namespace isobit::scale
