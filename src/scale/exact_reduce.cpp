#include "scale/exact_reduce.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
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
  return form == Form::none ? 0 : form == Form::single ? (count + 1) / 2 * 8 : count * 8;
}

// Elements of a slice that are added at a time, while they stay in the cache. Sums of digits travel as binary64; a
// block that has one which is no such number begins with NaN, and its digits follow in a message of their own.
constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t blocks_of(std::int64_t count) { return (count + kBlock - 1) / kBlock; }
using Block = std::array<double, kBlock>;
using Digits = std::array<std::int64_t, kBlock>;

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
  Reduction(Exchange& exchange, const OwnSums& sums, const std::vector<std::int64_t>& elements, const Reduce& agreed,
            ReduceMemory& memory)
      : exchange_(exchange), sums_(sums), agreed_(agreed), n_(exchange.size()), rank_(exchange.rank()) {
    starts_.push_back(0);
    for (const std::int64_t count : elements) starts_.push_back(starts_.back() + count);
    require_agreement(elements);
    for (const at::Tensor& gradient : sums.single) singles_.push_back(gradient.cpu());
    for (const auto* accumulator : sums.digits) {
      his_.push_back(accumulator == nullptr ? at::Tensor() : accumulator->hi().tensor().cpu());
      los_.push_back(accumulator == nullptr ? at::Tensor() : accumulator->lo().tensor().cpu());
    }
    results_ = memory.results(starts_.back());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].outgoing = &memory.outgoing[i], slots_[i].incoming = &memory.incoming[i];
      slots_[i].outgoing->resize(static_cast<std::size_t>(n_)),
          slots_[i].incoming->resize(static_cast<std::size_t>(n_));
      slots_[i].digits_sent.resize(static_cast<std::size_t>(n_)), slots_[i].digits.resize(static_cast<std::size_t>(n_));
    }
    for (const std::int64_t count : agreed.counts) {
      forms_.push_back(form_of(count));
      only_terms_ &= forms_.back() != Form::digits;
    }
  }

  // While some pieces' sums travel, the next one's are laid out and the last one's are added: all members begin the
  // same exchanges in the same order. The sums are taken where they lie and arrive where they are to lie.
  at::Tensor run(std::int64_t piece) {
    const std::int64_t total = starts_.back(), pieces = (total + piece - 1) / piece;
    const auto begin = [&](std::int64_t i) {
      slot(i).first = i * piece;
      slot(i).count = std::min(piece, total - i * piece);
      send(slot(i));
    };
    const auto ahead = static_cast<std::int64_t>(slots_.size()) - 1;
    for (std::int64_t i = 0; i < std::min(ahead, pieces); ++i) begin(i);
    for (std::int64_t i = 0; i < pieces; ++i) {
      if (i + ahead < pieces) begin(i + ahead);
      add_and_gather(slot(i));
    }
    for (const auto& each : gathering_) wait(each);
    for (const Slot& each : slots_)
      for (const auto& sent : each.sending) wait(sent);
    return results_;
  }

 private:
  using Pendings = std::vector<std::shared_ptr<Exchange::Pending>>;
  // Messages of one kind between two workers come in the order in which they were sent.
  enum Kind { kTerms = 1, kResults = 2, kDigits = 3 };

  // What the host says must be of these sums: memory is read and written by it.
  void require_agreement(const std::vector<std::int64_t>& elements) const {
    const std::size_t parameters = elements.size();
    const Form own = form_of(sums_.grains);
    bool good = agreed_.counts.size() == static_cast<std::size_t>(n_) && agreed_.tops.size() == parameters &&
                sums_.tops.size() == parameters && agreed_.counts[static_cast<std::size_t>(rank_)] == sums_.grains &&
                (own != Form::single || sums_.single.size() == parameters) &&
                (own != Form::digits || sums_.digits.size() == parameters);
    for (std::size_t i = 0; good && i < parameters; ++i) {
      good = top(i) >= sums_.tops[i] && top(i) <= kernels::kHighestLimb && elements[i] >= 0;
      if (good && own == Form::single) good = sums_.single[i].numel() == elements[i];
      if (good && own == Form::digits) good = sums_.digits[i] == nullptr || sums_.digits[i]->size() == elements[i];
    }
    if (!good) throw WireError("a step of other sums than this worker's");
  }

  // Another worker's digits of blocks: kBlock of the higher limb and kBlock of the lower one each, and by block the
  // place of its own, or -1.
  struct BlockDigits {
    std::vector<std::int64_t> rows, places;
  };
  // A piece under way. What travels is waited for before its memory goes: the last members go first.
  struct Slot {
    std::int64_t first = 0, count = 0;
    std::vector<Bytes>*outgoing = nullptr, *incoming = nullptr;  // by rank
    std::vector<std::vector<std::int64_t>> digits_sent;          // by rank: rows
    std::vector<BlockDigits> digits;                             // by rank: those received
    Pendings sending, receiving;
  };

  Slot& slot(std::int64_t piece) { return slots_[static_cast<std::size_t>(piece) % slots_.size()]; }
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
      const auto digits = bytes_in(slot.digits_sent[static_cast<std::size_t>(rank)]);
      if (!digits.empty()) slot.sending.push_back(exchange_.send(digits, rank, kDigits));
    });
  }
  static std::span<std::uint8_t> bytes_in(std::vector<std::int64_t>& words) {
    return {reinterpret_cast<std::uint8_t*>(words.data()), words.size() * 8};
  }

  // This worker's part of another one's slice: where it lies, if it is float32 of one parameter, else put together.
  [[nodiscard]] std::span<const std::uint8_t> laid_out(Slot& slot, std::int64_t rank) const {
    const auto [begin, length] = slice_of(slot, rank);
    slot.digits_sent[static_cast<std::size_t>(rank)].clear();
    if (length == 0 || form(rank_) == Form::none) return {};
    const std::vector<Stretch> parts = stretches(starts_, begin, length);
    if (form(rank_) == Form::single && parts.size() == 1)
      return {reinterpret_cast<const std::uint8_t*>(term(parts[0])), static_cast<std::size_t>(length) * 4};
    auto& bytes = (*slot.outgoing)[static_cast<std::size_t>(rank)];
    bytes.resize(static_cast<std::size_t>(bytes_of(form(rank_), length)));
    if (form(rank_) == Form::digits) {
      join(begin, length, reinterpret_cast<double*>(bytes.data()), slot.digits_sent[static_cast<std::size_t>(rank)]);
    } else {
      std::uint8_t* to = bytes.data();
      for (const Stretch& each : parts) {
        std::memcpy(to, term(each), static_cast<std::size_t>(each.count) * 4);
        to += each.count * 4;
      }
    }
    return bytes;
  }

  // This worker's sums of the flat elements from `begin` on; the digits of blocks that are no binary64 numbers into
  // `rows`.
  void join(std::int64_t begin, std::int64_t length, double* to, std::vector<std::int64_t>& rows) const {
    std::vector<char> exact(static_cast<std::size_t>(blocks_of(length)));
    kernels::parallel_for(0, blocks_of(length), kSmallest / kBlock, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        const std::int64_t first = b * kBlock;
        exact[static_cast<std::size_t>(b)] =
            join_block(begin + first, std::min(kBlock, length - first), to + first) ? 1 : 0;
      }
    });
    for (std::int64_t b = 0; b < blocks_of(length); ++b) {
      if (exact[static_cast<std::size_t>(b)] != 0) continue;
      const std::int64_t first = b * kBlock;
      to[first] = std::numeric_limits<double>::quiet_NaN();
      rows.resize(rows.size() + 2 * kBlock);
      std::int64_t* hi = rows.data() + rows.size() - 2 * kBlock;
      for (const Stretch& each : stretches(starts_, begin + first, std::min(kBlock, length - first))) {
        const auto [high, low] = own_digits(each);
        add_row(hi, high, each.count);
        add_row(hi + kBlock, low, each.count);
        hi += each.count;
      }
    }
  }
  bool join_block(std::int64_t begin, std::int64_t count, double* to) const {
    bool exact = true;
    for (const Stretch& each : stretches(starts_, begin, count)) {
      const auto [high, low] = own_digits(each);
      exact &= kernels::join_digits(high, low, to, each.count);
      to += each.count;
    }
    return exact;
  }

  // The digits that a worker sends besides, if any.
  void receive_digits(Slot& slot, std::int64_t rank) {
    const auto* joined = reinterpret_cast<const double*>((*slot.incoming)[static_cast<std::size_t>(rank)].data());
    BlockDigits& digits = slot.digits[static_cast<std::size_t>(rank)];
    const std::int64_t mine = slice_of(slot, rank_).second;
    std::int64_t count = 0;
    digits.places.assign(static_cast<std::size_t>(blocks_of(mine)), -1);
    for (std::int64_t b = 0; b < blocks_of(mine); ++b)
      if (std::isnan(joined[b * kBlock])) digits.places[static_cast<std::size_t>(b)] = 2 * kBlock * count++;
    digits.rows.resize(static_cast<std::size_t>(2 * kBlock * count));
    if (count > 0) wait(exchange_.receive(bytes_in(digits.rows), rank, kDigits));
  }

  void add_and_gather(Slot& slot) {
    for (const auto& each : slot.receiving) wait(each);
    for_each_other([&](std::int64_t rank) {
      const auto to = result_bytes(slot, rank);
      if (!to.empty()) gathering_.push_back(exchange_.receive(to, rank, kResults));
    });
    const auto [begin, length] = slice_of(slot, rank_);
    if (length == 0) return;
    if (only_terms_)
      add_terms(slot, begin, length);
    else
      add_sums(slot, begin, length);
    const auto sums = result_bytes(slot, rank_);
    for_each_other([&](std::int64_t rank) { gathering_.push_back(exchange_.send(sums, rank, kResults)); });
  }

  [[nodiscard]] const float* term(const Stretch& each) const {
    return singles_[each.parameter].const_data_ptr<float>() + each.first;
  }

  // This worker's digits of the agreed limbs; nullptr where all are 0.
  [[nodiscard]] std::pair<const std::int64_t*, const std::int64_t*> own_digits(const Stretch& each) const {
    if (sums_.digits[each.parameter] == nullptr) return {nullptr, nullptr};
    const int below = top(each.parameter) - sums_.digits[each.parameter]->top();
    const std::int64_t* hi = his_[each.parameter].const_data_ptr<std::int64_t>() + each.first;
    const std::int64_t* lo = los_[each.parameter].const_data_ptr<std::int64_t>() + each.first;
    return {below == 0 ? hi : nullptr, below == 0 ? lo : below == 1 ? hi : nullptr};
  }

  // Where no worker has more than one grain.
  void add_terms(const Slot& slot, std::int64_t begin, std::int64_t length) const {
    std::int64_t at = 0;
    for (const Stretch& each : stretches(starts_, begin, length)) {
      std::vector<const float*> terms;
      for (std::int64_t rank = 0; rank < n_; ++rank) {
        if (form(rank) != Form::none) terms.push_back(rank == rank_ ? term(each) : received<float>(slot, rank) + at);
      }
      kernels::sum_terms(terms.data(), static_cast<std::int64_t>(terms.size()), top(each.parameter), result(begin + at),
                         each.count);
      at += each.count;
    }
  }

  void add_sums(Slot& slot, std::int64_t begin, std::int64_t length) {
    for_each_other([&](std::int64_t rank) {
      if (form(rank) == Form::digits) receive_digits(slot, rank);
    });
    kernels::parallel_for(0, blocks_of(length), kSmallest / kBlock, [&](std::int64_t b, std::int64_t e) {
      for (; b < e; ++b) {
        std::int64_t at = b * kBlock;
        for (const Stretch& each : stretches(starts_, begin + at, std::min(kBlock, length - at))) {
          if (!add_joined(slot, each, at, result(begin + at))) add_digits(slot, each, at, result(begin + at));
          at += each.count;
        }
      }
    });
  }

  // Of a part of one block, `at` in the slice. False where some sum is no binary64 number.
  [[nodiscard]] bool add_joined(const Slot& slot, const Stretch& part, std::int64_t at, float* out) const {
    Block sum;
    if (form(rank_) == Form::digits) {
      const auto [high, low] = own_digits(part);
      if (!kernels::join_digits(high, low, sum.data(), part.count)) return false;
    } else {
      std::fill_n(sum.begin(), part.count, 0.0);
    }
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      if (form(rank) == Form::single) {
        const float* x = rank == rank_ ? term(part) : received<float>(slot, rank) + at;
        if (!kernels::add_widened(x, top(part.parameter), sum.data(), part.count)) return false;
      } else if (form(rank) == Form::digits && rank != rank_) {
        if (digits_received(slot, rank, at) != nullptr ||
            !kernels::add_joined(received<double>(slot, rank) + at, sum.data(), part.count))
          return false;
      }
    }
    kernels::round_joined(sum.data(), top(part.parameter), out, part.count);
    return true;
  }

  void add_digits(const Slot& slot, const Stretch& part, std::int64_t at, float* out) const {
    Digits hi, lo;
    std::fill_n(hi.begin(), part.count, 0), std::fill_n(lo.begin(), part.count, 0);
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      if (form(rank) == Form::single) {
        const float* x = rank == rank_ ? term(part) : received<float>(slot, rank) + at;
        kernels::add_digits(x, top(part.parameter), hi.data(), lo.data(), part.count);
      } else if (form(rank) == Form::digits) {
        const std::int64_t* rows = rank == rank_ ? nullptr : digits_received(slot, rank, at);
        if (rank != rank_ && rows == nullptr) {
          if (!kernels::split_joined(received<double>(slot, rank) + at, hi.data(), lo.data(), part.count))
            throw WireError("sums that isobit does not send");
          continue;
        }
        const auto [high, low] = rank == rank_ ? own_digits(part) : std::pair(rows, rows + kBlock);
        add_row(hi.data(), high, part.count);
        add_row(lo.data(), low, part.count);
      }
    }
    kernels::round_digits(hi.data(), lo.data(), top(part.parameter), out, part.count);
  }
  static void add_row(std::int64_t* to, const std::int64_t* from, std::int64_t count) {
    for (std::int64_t i = 0; from != nullptr && i < count; ++i) to[i] += from[i];
  }

  template <class T>
  [[nodiscard]] const T* received(const Slot& slot, std::int64_t rank) const {
    return reinterpret_cast<const T*>((*slot.incoming)[static_cast<std::size_t>(rank)].data());
  }
  // Where a worker sent a block's digits: those of the slice's element `at`; else nullptr.
  [[nodiscard]] static const std::int64_t* digits_received(const Slot& slot, std::int64_t rank, std::int64_t at) {
    const BlockDigits& digits = slot.digits[static_cast<std::size_t>(rank)];
    const std::int64_t place = digits.places[static_cast<std::size_t>(at / kBlock)];
    return place < 0 ? nullptr : digits.rows.data() + place + at % kBlock;
  }
  [[nodiscard]] float* result(std::int64_t flat) const { return results_.mutable_data_ptr<float>() + flat; }

  static constexpr std::int64_t kSmallest = 1 << 14;  // elements a thread should at least have

  Exchange& exchange_;
  const OwnSums& sums_;
  const Reduce& agreed_;
  std::int64_t n_, rank_;
  std::vector<Form> forms_;  // by rank
  bool only_terms_ = true;
  std::vector<std::int64_t> starts_;
  std::vector<at::Tensor> singles_, his_, los_;
  at::Tensor results_;  // of all parameters, one after the other
  std::array<Slot, ReduceMemory::kPieces> slots_;
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

at::Tensor reduce_flat(Exchange& exchange, const OwnSums& sums, const std::vector<std::int64_t>& elements,
                       const Reduce& agreed, ReduceMemory& memory, std::int64_t piece) {
  return Reduction(exchange, sums, elements, agreed, memory).run(piece);
}

std::vector<at::Tensor> reduce_gradients(Exchange& exchange, const grains::GrainSums& sums,
                                         const std::vector<NamedTensor>& parameters, const Reduce& agreed,
                                         ReduceMemory& memory, std::int64_t piece) {
  OwnSums own{sums.single(), {}, sums.top_limbs(), sums.grains_present()};
  for (const auto& accumulator : sums.digits()) own.digits.push_back(&accumulator);
  std::vector<std::int64_t> elements;
  elements.reserve(parameters.size());
  for (const NamedTensor& each : parameters) elements.push_back(each.tensor.numel());
  const at::Tensor flat = reduce_flat(exchange, own, elements, agreed, memory, piece);
  std::vector<at::Tensor> gradients;
  std::int64_t start = 0;
  for (const NamedTensor& each : parameters) {
    gradients.push_back(flat.narrow(0, start, each.tensor.numel()).view(each.tensor.sizes()));
    start += each.tensor.numel();
  }
  return gradients;
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
  std::vector<at::Tensor> gradients =
      reduce_gradients(exchange, sums, parameters, agreed, memory, piece_of(exchange.size()));
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
