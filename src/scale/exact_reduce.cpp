#include "scale/exact_reduce.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "kernels/exact_sum.h"

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
            const Reduce& agreed)
      : exchange_(exchange), sums_(sums), agreed_(agreed), n_(exchange.size()) {
    starts_.push_back(0);
    for (const NamedTensor& each : parameters) {
      starts_.push_back(starts_.back() + each.tensor.numel());
      results_.push_back(at::empty(each.tensor.sizes(), at::TensorOptions().dtype(at::kFloat)));
    }
    for (const at::Tensor& gradient : sums.single()) singles_.push_back(gradient.cpu());
    for (const auto& accumulator : sums.digits()) {
      his_.push_back(accumulator.hi().tensor().cpu());
      los_.push_back(accumulator.lo().tensor().cpu());
    }
    require_agreement();
    own_ = form_of(agreed.counts[static_cast<std::size_t>(exchange.rank())]);
  }

  // While one piece's digits travel, the next one's are laid out and the last one's are added: all members begin the
  // same exchanges in the same order.
  std::vector<at::Tensor> run(std::int64_t piece) {
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
      if (i > 0) take(slot(i - 1));
    }
    if (pieces > 0) take(slot(pieces - 1));
    return std::move(results_);
  }

 private:
  // What the host says must be of these sums: memory is read and written by it.
  void require_agreement() const {
    const std::vector<int> own = sums_.top_limbs();
    bool good = agreed_.counts.size() == static_cast<std::size_t>(n_) && agreed_.tops.size() == own.size() &&
                own.size() == results_.size() &&
                agreed_.counts[static_cast<std::size_t>(exchange_.rank())] == sums_.grains_present();
    for (std::size_t i = 0; good && i < own.size(); ++i) good = top(i) >= own[i] && top(i) <= kernels::kHighestLimb;
    if (!good) throw WireError("a step of other sums than this worker's");
  }

  // A piece under way. What travels is waited for before its memory goes: the last members go first.
  struct Slot {
    std::int64_t first = 0, count = 0;
    std::int64_t gathered_first = 0, gathered_count = 0;  // of the piece whose sums are being gathered
    std::vector<std::int64_t> receive_bytes;
    std::vector<std::uint8_t> outgoing, incoming;
    std::vector<float> rounded, gathered;
    std::shared_ptr<Exchange::Pending> sums, results;
  };

  Slot& slot(std::int64_t piece) { return slots_[static_cast<std::size_t>(piece % 2)]; }

  // Slices of equal length, so that they can be gathered; the last may lie beyond the end.
  [[nodiscard]] std::int64_t slice(const Slot& slot) const { return (slot.count + n_ - 1) / n_; }
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> slice_of(const Slot& slot, std::int64_t rank) const {
    const std::int64_t begin = std::min(slot.count, rank * slice(slot));
    return {slot.first + begin, std::min(slice(slot), slot.count - begin)};
  }

  void send(Slot& slot) {
    std::vector<std::int64_t> send_bytes;
    slot.receive_bytes.clear();
    const std::int64_t mine = slice_of(slot, exchange_.rank()).second;
    std::int64_t sent = 0, received = 0;
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      send_bytes.push_back(bytes_of(own_, slice_of(slot, rank).second));
      slot.receive_bytes.push_back(bytes_of(form_of(agreed_.counts[static_cast<std::size_t>(rank)]), mine));
      sent += send_bytes.back(), received += slot.receive_bytes.back();
    }
    slot.outgoing.resize(static_cast<std::size_t>(sent));
    slot.incoming.resize(static_cast<std::size_t>(received));
    std::uint8_t* to = slot.outgoing.data();
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      const auto [begin, length] = slice_of(slot, rank);
      fill(to, begin, length);
      to += send_bytes[static_cast<std::size_t>(rank)];
    }
    slot.sums = exchange_.all_to_all(slot.outgoing, send_bytes, slot.incoming, slot.receive_bytes);
  }

  void add_and_gather(Slot& slot) {
    wait(slot.sums);
    const auto [begin, length] = slice_of(slot, exchange_.rank());
    slot.rounded.assign(static_cast<std::size_t>(slice(slot)), 0.0f);
    add_up(slot, begin, length);
    slot.gathered.resize(static_cast<std::size_t>(slice(slot) * n_));
    slot.gathered_first = slot.first, slot.gathered_count = slot.count;
    slot.results = exchange_.all_gather(
        bytes(slot.rounded), {reinterpret_cast<std::uint8_t*>(slot.gathered.data()), slot.gathered.size() * 4});
  }

  void take(Slot& slot) {
    wait(slot.results);
    std::int64_t at = 0;
    for (const Stretch& each : stretches(starts_, slot.gathered_first, slot.gathered_count)) {
      std::memcpy(results_[each.parameter].mutable_data_ptr<float>() + each.first, slot.gathered.data() + at,
                  static_cast<std::size_t>(each.count) * 4);
      at += each.count;
    }
  }

  static std::span<const std::uint8_t> bytes(const std::vector<float>& values) {
    return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * 4};
  }
  [[nodiscard]] int top(std::size_t parameter) const { return static_cast<int>(agreed_.tops[parameter]) - 8; }

  // This worker's part of a slice: float32, or digits of the agreed top limb and of the one below, in two rows.
  void fill(std::uint8_t* to, std::int64_t begin, std::int64_t length) const {
    std::int64_t at = 0;
    for (const Stretch& each : stretches(starts_, begin, length)) {
      if (own_ == Form::single) {
        std::memcpy(to + at * 4, singles_[each.parameter].const_data_ptr<float>() + each.first,
                    static_cast<std::size_t>(each.count) * 4);
      } else if (own_ == Form::digits) {
        const int below = top(each.parameter) - sums_.digits()[each.parameter].top();
        auto* rows = reinterpret_cast<std::int64_t*>(to);
        row(rows + at, below == 0 ? &his_[each.parameter] : nullptr, each);
        row(rows + length + at,
            below == 0   ? &los_[each.parameter]
            : below == 1 ? &his_[each.parameter]
                         : nullptr,
            each);
      }
      at += each.count;
    }
  }
  static void row(std::int64_t* to, const at::Tensor* from, const Stretch& each) {
    if (from == nullptr)
      std::fill_n(to, each.count, 0);
    else
      std::memcpy(to, from->const_data_ptr<std::int64_t>() + each.first, static_cast<std::size_t>(each.count) * 8);
  }

  // The slice of all workers, added and rounded once.
  void add_up(Slot& slot, std::int64_t begin, std::int64_t length) {
    hi_.assign(static_cast<std::size_t>(length), 0);
    lo_.assign(static_cast<std::size_t>(length), 0);
    const std::vector<Stretch> own = stretches(starts_, begin, length);
    const std::uint8_t* from = slot.incoming.data();
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      const Form form = form_of(agreed_.counts[static_cast<std::size_t>(rank)]);
      std::int64_t at = 0;
      for (const Stretch& each : own) {
        if (form == Form::single) {
          const int t = top(each.parameter);
          if (t != kernels::kNoLimb)
            kernels::add_digits(reinterpret_cast<const float*>(from) + at, t, hi_.data() + at, lo_.data() + at,
                                each.count);
        }
        at += each.count;
      }
      if (form == Form::digits) {
        const auto* rows = reinterpret_cast<const std::int64_t*>(from);
        for (std::int64_t i = 0; i < length; ++i) hi_[static_cast<std::size_t>(i)] += rows[i];
        for (std::int64_t i = 0; i < length; ++i) lo_[static_cast<std::size_t>(i)] += rows[length + i];
      }
      from += slot.receive_bytes[static_cast<std::size_t>(rank)];
    }
    std::int64_t at = 0;
    for (const Stretch& each : own) {
      kernels::round_digits(hi_.data() + at, lo_.data() + at, top(each.parameter), slot.rounded.data() + at,
                            each.count);
      at += each.count;
    }
  }

  Exchange& exchange_;
  const grains::GrainSums& sums_;
  const Reduce& agreed_;
  std::int64_t n_;
  Form own_ = Form::none;
  std::vector<std::int64_t> starts_;
  std::vector<at::Tensor> results_, singles_, his_, los_;
  std::vector<std::int64_t> hi_, lo_;
  std::array<Slot, 2> slots_;
};

}  // namespace

Bytes limb_bytes(const std::vector<int>& limbs) {
  Bytes bytes;
  for (const int limb : limbs) bytes.push_back(static_cast<std::uint8_t>(limb + 8));
  return bytes;
}

std::vector<at::Tensor> reduce_gradients(Exchange& exchange, const grains::GrainSums& sums,
                                         const std::vector<NamedTensor>& parameters, const Reduce& agreed,
                                         std::int64_t piece) {
  return Reduction(exchange, sums, parameters, agreed).run(piece);
}

grains::FinishedStep exact_reduce(Exchange& exchange, grains::GrainSums& sums,
                                  const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                                  const Bytes& packed, const Reduce& agreed) {
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
  std::vector<at::Tensor> gradients = reduce_gradients(exchange, sums, parameters, agreed, piece);
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
