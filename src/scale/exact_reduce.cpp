#include "scale/exact_reduce.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/exact_sum.h"
#include "kernels/threads.h"

namespace isobit::scale {
namespace {

using trace::NamedTensor;

enum class Form { none, single, digits };

Form form_of(std::int64_t grains) { return grains == 0 ? Form::none : grains == 1 ? Form::single : Form::digits; }
// Of so many elements; whole 64-bit words.
std::int64_t bytes_of(Form form, std::int64_t count) {
  return form == Form::none ? 0 : form == Form::single ? (count + 1) / 2 * 8 : count * 16;
}

// A stretch of one parameter's elements.
struct Stretch {
  std::size_t parameter = 0;
  std::int64_t first = 0, count = 0;
};

// Of the flat elements first .. first + count - 1.
std::vector<Stretch> stretches(const std::vector<std::int64_t>& starts, std::int64_t first, std::int64_t count) {
  std::vector<Stretch> all;
  auto at = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), first) - starts.begin()) - 1;
  for (; count > 0; ++at) {
    const std::int64_t inside = first - starts[at], here = std::min(count, starts[at + 1] - first);
    if (here > 0) all.push_back({at, inside, here});
    first += here, count -= here;
  }
  return all;
}

class Reduction {
 public:
  Reduction(Exchange& exchange, const grains::GrainSums& sums, const std::vector<NamedTensor>& parameters,
            const Reduce& agreed, ReduceMemory& memory)
      : exchange_(exchange), sums_(sums), agreed_(agreed), n_(exchange.size()), rank_(exchange.rank()) {
    starts_.push_back(0);
    for (const NamedTensor& each : parameters) starts_.push_back(starts_.back() + each.tensor.numel());
    for (const at::Tensor& gradient : sums.single()) singles_.push_back(gradient.cpu());
    for (const auto& accumulator : sums.digits()) {
      his_.push_back(accumulator.hi().tensor().cpu());
      los_.push_back(accumulator.lo().tensor().cpu());
    }
    require_agreement(parameters.size());
    results_ = memory.results(starts_.back());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].outgoing = &memory.outgoing[i], slots_[i].incoming = &memory.incoming[i];
      slots_[i].outgoing->resize(static_cast<std::size_t>(n_)),
          slots_[i].incoming->resize(static_cast<std::size_t>(n_));
    }
    for (const std::int64_t count : agreed.counts) {
      forms_.push_back(form_of(count));
      only_terms_ &= forms_.back() != Form::digits;
    }
  }

  // While one piece's digits travel, the next one's are laid out and the last one's are added: all members begin the
  // same exchanges in the same order. The sums are taken where they lie and arrive where they are to lie.
  std::vector<at::Tensor> run(std::int64_t piece, const std::vector<NamedTensor>& parameters) {
    const std::int64_t total = starts_.back(), pieces = (total + piece - 1) / piece;
    const auto begin = [&](std::int64_t i) {
      slot(i).first = i * piece;
      slot(i).count = std::min(piece, total - i * piece);
      send(slot(i));
    };
    if (pieces > 0) begin(0);
    for (std::int64_t i = 0; i < pieces; ++i) {
      if (i + 1 < pieces) begin(i + 1);
      add_and_gather(slot(i));
    }
    for (const auto& each : gathering_) wait(each);
    for (const Slot& each : slots_)
      for (const auto& sent : each.sending) wait(sent);
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      gradients.push_back(
          results_.narrow(0, starts_[i], starts_[i + 1] - starts_[i]).view(parameters[i].tensor.sizes()));
    return gradients;
  }

 private:
  using Pendings = std::vector<std::shared_ptr<Exchange::Pending>>;
  // Messages of one kind between two workers come in the order in which they were sent.
  enum Kind { kTerms = 1, kResults = 2 };

  // What the host says must be of these sums: memory is read and written by it.
  void require_agreement(std::size_t parameters) const {
    const std::vector<int> own = sums_.top_limbs();
    bool good = agreed_.counts.size() == static_cast<std::size_t>(n_) && agreed_.tops.size() == own.size() &&
                own.size() == parameters && agreed_.counts[static_cast<std::size_t>(rank_)] == sums_.grains_present();
    for (std::size_t i = 0; good && i < own.size(); ++i) good = top(i) >= own[i] && top(i) <= kernels::kHighestLimb;
    if (!good) throw WireError("a step of other sums than this worker's");
  }

  // A piece under way. What travels is waited for before its memory goes: the last members go first.
  struct Slot {
    std::int64_t first = 0, count = 0;
    std::vector<Bytes>*outgoing = nullptr, *incoming = nullptr;  // by rank
    Pendings sending, receiving;
  };

  Slot& slot(std::int64_t piece) { return slots_[static_cast<std::size_t>(piece % 2)]; }
  [[nodiscard]] Form form(std::int64_t rank) const { return forms_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int top(std::size_t parameter) const { return static_cast<int>(agreed_.tops[parameter]) - 8; }

  // The slice that a worker adds up: first element and length.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> slice_of(const Slot& slot, std::int64_t rank) const {
    const std::int64_t length = (slot.count + n_ - 1) / n_, begin = std::min(slot.count, rank * length);
    return {slot.first + begin, std::min(length, slot.count - begin)};
  }
  [[nodiscard]] std::span<std::uint8_t> result_bytes(const Slot& slot, std::int64_t rank) const {
    const auto [begin, length] = slice_of(slot, rank);
    return {reinterpret_cast<std::uint8_t*>(results_.mutable_data_ptr<float>() + begin),
            static_cast<std::size_t>(length) * 4};
  }
  // Beginning with the next one, so that not all send to the same worker first.
  template <class Action>
  void for_each_other(const Action& action) const {
    for (std::int64_t i = 1; i < n_; ++i) action((rank_ + i) % n_);
  }

  void send(Slot& slot) {
    for (const auto& each : slot.sending) wait(each);
    slot.sending.clear(), slot.receiving.clear();
    const std::int64_t mine = slice_of(slot, rank_).second;
    for_each_other([&](std::int64_t rank) {
      auto& bytes = (*slot.incoming)[static_cast<std::size_t>(rank)];
      bytes.resize(static_cast<std::size_t>(bytes_of(form(rank), mine)));
      if (!bytes.empty()) slot.receiving.push_back(exchange_.receive(bytes, rank, kTerms));
    });
    for_each_other([&](std::int64_t rank) {
      const auto terms = laid_out(slot, rank);
      if (!terms.empty()) slot.sending.push_back(exchange_.send(terms, rank, kTerms));
    });
  }

  // This worker's part of another one's slice: where it lies, if it is float32 of one parameter, else put together.
  [[nodiscard]] std::span<const std::uint8_t> laid_out(Slot& slot, std::int64_t rank) const {
    const auto [begin, length] = slice_of(slot, rank);
    if (length == 0 || form(rank_) == Form::none) return {};
    const std::vector<Stretch> parts = stretches(starts_, begin, length);
    if (form(rank_) == Form::single && parts.size() == 1)
      return {reinterpret_cast<const std::uint8_t*>(term(parts[0])), static_cast<std::size_t>(length) * 4};
    auto& bytes = (*slot.outgoing)[static_cast<std::size_t>(rank)];
    bytes.resize(static_cast<std::size_t>(bytes_of(form(rank_), length)));
    fill(bytes.data(), parts, length);
    return bytes;
  }

  void add_and_gather(Slot& slot) {
    for (const auto& each : slot.receiving) wait(each);
    for_each_other([&](std::int64_t rank) {
      const auto to = result_bytes(slot, rank);
      if (!to.empty()) gathering_.push_back(exchange_.receive(to, rank, kResults));
    });
    const auto [begin, length] = slice_of(slot, rank_);
    if (length == 0) return;
    std::int64_t at = 0;
    for (const Stretch& each : stretches(starts_, begin, length)) {
      float* out = results_.mutable_data_ptr<float>() + begin + at;
      only_terms_ ? add_terms(slot, each, at, out) : add_digits(slot, each, at, length, out);
      at += each.count;
    }
    const auto sums = result_bytes(slot, rank_);
    for_each_other([&](std::int64_t rank) { gathering_.push_back(exchange_.send(sums, rank, kResults)); });
  }

  [[nodiscard]] const float* term(const Stretch& each) const {
    return singles_[each.parameter].const_data_ptr<float>() + each.first;
  }

  // float32, or digits of the agreed top limb and of the one below, in two rows.
  void fill(std::uint8_t* to, const std::vector<Stretch>& parts, std::int64_t length) const {
    std::int64_t at = 0;
    for (const Stretch& each : parts) {
      if (form(rank_) == Form::single) {
        std::memcpy(to + at * 4, term(each), static_cast<std::size_t>(each.count) * 4);
      } else {
        auto* rows = reinterpret_cast<std::int64_t*>(to);
        const auto [hi, lo] = own_digits(each);
        row(rows + at, hi, each.count);
        row(rows + length + at, lo, each.count);
      }
      at += each.count;
    }
  }
  static void row(std::int64_t* to, const std::int64_t* from, std::int64_t count) {
    if (from == nullptr)
      std::fill_n(to, count, 0);
    else
      std::memcpy(to, from, static_cast<std::size_t>(count) * 8);
  }
  // This worker's digits of the agreed limbs; nullptr where all are 0.
  [[nodiscard]] std::pair<const std::int64_t*, const std::int64_t*> own_digits(const Stretch& each) const {
    const int below = top(each.parameter) - sums_.digits()[each.parameter].top();
    const std::int64_t* hi = his_[each.parameter].const_data_ptr<std::int64_t>() + each.first;
    const std::int64_t* lo = los_[each.parameter].const_data_ptr<std::int64_t>() + each.first;
    return {below == 0 ? hi : nullptr, below == 0 ? lo : below == 1 ? hi : nullptr};
  }

  // Where no worker has more than one grain. `at`: of the stretch within the slice.
  void add_terms(const Slot& slot, const Stretch& each, std::int64_t at, float* out) const {
    std::vector<const float*> terms;
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      if (form(rank) == Form::none) continue;
      const auto* received = reinterpret_cast<const float*>((*slot.incoming)[static_cast<std::size_t>(rank)].data());
      terms.push_back(rank == rank_ ? term(each) : received + at);
    }
    kernels::sum_terms(terms.data(), static_cast<std::int64_t>(terms.size()), top(each.parameter), out, each.count);
  }

  // In blocks whose digits stay in the cache.
  void add_digits(const Slot& slot, const Stretch& each, std::int64_t at, std::int64_t length, float* out) const {
    kernels::parallel_for(0, each.count, kSmallest, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int64_t, kBlock> hi, lo;
      for (std::int64_t first = begin; first < end; first += kBlock) {
        const Stretch block{each.parameter, each.first + first, std::min(kBlock, end - first)};
        hi.fill(0), lo.fill(0);
        for (std::int64_t rank = 0; rank < n_; ++rank)
          add_rank(slot, rank, block, at + first, length, hi.data(), lo.data());
        kernels::round_digits(hi.data(), lo.data(), top(each.parameter), out + first, block.count);
      }
    });
  }
  void add_rank(const Slot& slot, std::int64_t rank, const Stretch& block, std::int64_t at, std::int64_t length,
                std::int64_t* hi, std::int64_t* lo) const {
    const std::uint8_t* received = (*slot.incoming)[static_cast<std::size_t>(rank)].data();
    if (form(rank) == Form::single) {
      const float* x = rank == rank_ ? term(block) : reinterpret_cast<const float*>(received) + at;
      if (top(block.parameter) != kernels::kNoLimb) kernels::add_digits(x, top(block.parameter), hi, lo, block.count);
    } else if (form(rank) == Form::digits) {
      const auto* rows = reinterpret_cast<const std::int64_t*>(received);
      const auto [high, low] = rank == rank_ ? own_digits(block) : std::pair(rows + at, rows + length + at);
      add_row(hi, high, block.count);
      add_row(lo, low, block.count);
    }
  }
  static void add_row(std::int64_t* to, const std::int64_t* from, std::int64_t count) {
    for (std::int64_t i = 0; from != nullptr && i < count; ++i) to[i] += from[i];
  }

  static constexpr std::int64_t kBlock = 1024, kSmallest = 1 << 14;

  Exchange& exchange_;
  const grains::GrainSums& sums_;
  const Reduce& agreed_;
  std::int64_t n_, rank_;
  std::vector<Form> forms_;  // by rank
  bool only_terms_ = true;
  std::vector<std::int64_t> starts_;
  std::vector<at::Tensor> singles_, his_, los_;
  at::Tensor results_;  // of all parameters, one after the other
  std::array<Slot, 2> slots_;
  Pendings gathering_;
};

}  // namespace

at::Tensor ReduceMemory::results(std::int64_t elements) {
  if (!results_.defined() || results_.numel() != elements || results_.storage().use_count() != 1)
    results_ = at::empty({elements}, at::TensorOptions().dtype(at::kFloat));
  return results_;
}

Bytes limb_bytes(const std::vector<int>& limbs) {
  Bytes bytes;
  for (const int limb : limbs) bytes.push_back(static_cast<std::uint8_t>(limb + 8));
  return bytes;
}

std::vector<at::Tensor> reduce_gradients(Exchange& exchange, const grains::GrainSums& sums,
                                         const std::vector<NamedTensor>& parameters, const Reduce& agreed,
                                         ReduceMemory& memory, std::int64_t piece) {
  return Reduction(exchange, sums, parameters, agreed, memory).run(piece, parameters);
}

grains::FinishedStep exact_reduce(Exchange& exchange, grains::GrainSums& sums,
                                  const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                                  const Bytes& packed, const Reduce& agreed, ReduceMemory& memory) {
  if (exchange.size() == 1) return sums.finish();
  const auto possible = [](std::int64_t size) { return size >= 0 && size <= std::int64_t{kLongestFrame}; };
  if (agreed.packed.size() != static_cast<std::size_t>(exchange.size()) ||
      !std::all_of(agreed.packed.begin(), agreed.packed.end(), possible) ||
      agreed.packed[static_cast<std::size_t>(exchange.rank())] != static_cast<std::int64_t>(packed.size()))
    throw WireError("a step of other results than this worker's");
  const auto longest = static_cast<std::size_t>(*std::max_element(agreed.packed.begin(), agreed.packed.end()));
  Bytes own(packed), all(longest * static_cast<std::size_t>(exchange.size()));
  own.resize(longest);
  const auto rest = exchange.all_gather(own, all);
  // In large groups slices stay long enough that their number of messages does not count.
  const std::int64_t piece = std::max(kPiece, exchange.size() << 16);
  std::vector<at::Tensor> gradients = reduce_gradients(exchange, sums, parameters, agreed, memory, piece);
  wait(rest);
  for (std::int64_t rank = 0; rank < exchange.size(); ++rank) {
    if (rank == exchange.rank()) continue;
    const auto size = static_cast<std::size_t>(agreed.packed[static_cast<std::size_t>(rank)]);
    if (size > 0) sums.merge(unpack(std::span(all).subspan(static_cast<std::size_t>(rank) * longest, size), buffers));
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = gradients[i].to(parameters[i].tensor.device());
  return sums.finish(std::move(gradients));
}

}  // namespace isobit::scale
