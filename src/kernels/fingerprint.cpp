#include "kernels/fingerprint.h"

#include <cstring>
#include <stdexcept>

#include "contract/fingerprint.h"

namespace isobit::kernels {
namespace {

using contract::Mix;

// Length, then eight bytes at a time, the first the lowest, the last word filled with zeros.
Mix absorb_text(Mix state, const char* text, std::size_t length) {
  state = contract::absorb(state, length);
  for (std::size_t i = 0; i < length; i += 8) {
    std::uint64_t word = 0;
    for (std::size_t j = i; j < length && j < i + 8; ++j) {
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[j])) << (8 * (j - i));
    }
    state = contract::absorb(state, word);
  }
  return state;
}

Mix absorb_type(Mix state, const char* dtype, const std::int64_t* shape, int rank) {
  state = absorb_text(state, dtype, std::strlen(dtype));
  state = contract::absorb(state, static_cast<std::uint64_t>(rank));
  for (int d = 0; d < rank; ++d) state = contract::absorb(state, static_cast<std::uint64_t>(shape[d]));
  return state;
}

}  // namespace

std::string to_hex(const Fingerprint& fingerprint) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[static_cast<std::size_t>(i)] = kDigits[fingerprint.high >> (60 - 4 * i) & 15];
    text[static_cast<std::size_t>(16 + i)] = kDigits[fingerprint.low >> (60 - 4 * i) & 15];
  }
  return text;
}

Fingerprint close_tensor(Fingerprint sums, const char* dtype, const std::int64_t* shape, int rank) {
  const Mix closed = absorb_type({sums.high, sums.low}, dtype, shape, rank);
  return {closed.high, closed.low};
}

void ListFingerprint::add(const std::string& name, const char* dtype, const std::int64_t* shape, int rank,
                          Fingerprint tensor) {
  if (count_ > 0 && name <= last_name_) {
    throw std::invalid_argument("fingerprint of a list: name '" + name + "' after '" + last_name_ +
                                "' is not in ascending order");
  }
  Mix state = absorb_text({state_.high, state_.low}, name.data(), name.size());
  state = absorb_type(state, dtype, shape, rank);
  state = contract::absorb(contract::absorb(state, tensor.high), tensor.low);
  state_ = {state.high, state.low};
  last_name_ = name;
  ++count_;
}

Fingerprint ListFingerprint::result() const {
  const Mix state = contract::absorb({state_.high, state_.low}, count_);
  return {state.high, state.low};
}

}  // namespace isobit::kernels
