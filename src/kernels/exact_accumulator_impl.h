// Part of exact_accumulator.h.
#pragma once

namespace isobit::kernels {

template <class Digits>
bool ExactAccumulatorOf<Digits>::add(const float* x) {
  const int top = top_limb(x, n_);
  if (top == kNotFinite) return false;
  count_grains(1);
  make_room(top);
  if (top >= t_ - 1) add_digits(x, t_, hi_.data(), lo_.data(), n_);  // smaller ones have no digit here
  return true;
}

template <class Digits>
void ExactAccumulatorOf<Digits>::add(const ExactAccumulatorOf& other) {
  expect_size(other.size());
  count_grains(other.grains_);
  make_room(other.t_);
  if (other.t_ == t_) {
    hi_.add(other.hi_);
    lo_.add(other.lo_);
  } else if (other.t_ == t_ - 1) {
    lo_.add(other.hi_);
  }
}

template <class Digits>
void ExactAccumulatorOf<Digits>::result(float* out) const {
  round_digits(hi_.data(), lo_.data(), t_, out, n_);
}

template <class Digits>
void ExactAccumulatorOf<Digits>::clear() {
  hi_.clear();
  lo_.clear();
  t_ = kNoLimb;
  grains_ = 0;
}

template <class Digits>
void ExactAccumulatorOf<Digits>::make_room(int t) {
  const Move move = raise(t);
  if (move == Move::none) return;
  if (move == Move::one) {
    std::swap(lo_, hi_);
  } else {
    lo_.clear();
  }
  hi_.clear();
}

}  // namespace isobit::kernels
