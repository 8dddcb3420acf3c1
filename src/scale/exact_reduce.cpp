#include "scale/exact_reduce.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
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
    own_ = form_of(agreed.counts.at(static_cast<std::size_t>(exchange.rank())));
  }

  std::vector<at::Tensor> run(std::int64_t piece) {
    const std::int64_t total = starts_.back();
    for (std::int64_t first = 0; first < total; first += piece) one_piece(first, std::min(piece, total - first));
    return std::move(results_);
  }

 private:
  // Slices of equal length, so that they can be gathered; the last may lie beyond the end.
  void one_piece(std::int64_t first, std::int64_t count) {
    const std::int64_t slice = (count + n_ - 1) / n_;
    const auto slice_of = [&](std::int64_t rank) {
      const std::int64_t begin = std::min(count, rank * slice);
      return std::pair(first + begin, std::min(slice, count - begin));
    };
    std::vector<std::int64_t> send_bytes, receive_bytes;
    const std::int64_t mine = slice_of(exchange_.rank()).second;
    std::int64_t sent = 0, received = 0;
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      send_bytes.push_back(bytes_of(own_, slice_of(rank).second));
      receive_bytes.push_back(bytes_of(form_of(agreed_.counts[static_cast<std::size_t>(rank)]), mine));
      sent += send_bytes.back(), received += receive_bytes.back();
    }
    outgoing_.resize(static_cast<std::size_t>(sent));
    incoming_.resize(static_cast<std::size_t>(received));
    std::uint8_t* to = outgoing_.data();
    for (std::int64_t rank = 0; rank < n_; ++rank) {
      const auto [begin, length] = slice_of(rank);
      fill(to, begin, length);
      to += send_bytes[static_cast<std::size_t>(rank)];
    }
    wait(exchange_.all_to_all(outgoing_, send_bytes, incoming_, receive_bytes));

    rounded_.assign(static_cast<std::size_t>(slice), 0.0f);
    add_up(slice_of(exchange_.rank()).first, mine, receive_bytes);
    gathered_.resize(static_cast<std::size_t>(slice * n_));
    wait(exchange_.all_gather(bytes(rounded_),
                              {reinterpret_cast<std::uint8_t*>(gathered_.data()), gathered_.size() * 4}));
    std::int64_t at = 0;
    for (const Stretch& each : stretches(starts_, first, count)) {
      std::memcpy(results_[each.parameter].mutable_data_ptr<float>() + each.first, gathered_.data() + at,
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
  void add_up(std::int64_t begin, std::int64_t length, const std::vector<std::int64_t>& receive_bytes) {
    hi_.assign(static_cast<std::size_t>(length), 0);
    lo_.assign(static_cast<std::size_t>(length), 0);
    const std::vector<Stretch> own = stretches(starts_, begin, length);
    const std::uint8_t* from = incoming_.data();
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
      from += receive_bytes[static_cast<std::size_t>(rank)];
    }
    std::int64_t at = 0;
    for (const Stretch& each : own) {
      kernels::round_digits(hi_.data() + at, lo_.data() + at, top(each.parameter), rounded_.data() + at, each.count);
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
  std::vector<std::uint8_t> outgoing_, incoming_;
  std::vector<std::int64_t> hi_, lo_;
  std::vector<float> rounded_, gathered_;
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
  const auto longest = static_cast<std::size_t>(*std::max_element(agreed.packed.begin(), agreed.packed.end()));
  Bytes own(packed), all(longest * static_cast<std::size_t>(exchange.size()));
  own.resize(longest);
  const auto rest = exchange.all_gather(own, all);
  std::vector<at::Tensor> gradients = reduce_gradients(exchange, sums, parameters, agreed);
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
