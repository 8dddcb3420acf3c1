// Frames over a TCP connection between the host of a job and a worker, both of which have the job's key.
//
// The host begins: 8 bytes "isobit1\n" and a nonce of 32; the worker answers with a nonce of its own and a MAC over
// both; the host with a MAC over both the other way around. Then frames: length (uint32, little endian), 16 bytes of
// HMAC-SHA256 over direction, number of the frame and content, content. So nobody without the key joins, reads along in
// another's name, repeats or alters a frame; contents are not encrypted.
// Frames is the form without a socket: bytes in, bytes out. Errors are WireError. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "scale/job_key.h"
#include "scale/messages.h"

namespace isobit::scale {

inline constexpr std::size_t kLongestFrame = std::size_t{1} << 28;

class Frames {
 public:
  enum class Side { host, worker };
  Frames(Side side, std::string key);

  // Has shaken hands.
  [[nodiscard]] bool ready() const { return state_ == State::open; }
  // What came from the other side.
  void received(const std::uint8_t* bytes, std::size_t count);
  // The next whole frame, once ready.
  [[nodiscard]] std::optional<Bytes> next();
  // Precondition: ready().
  void send(const Bytes& content);
  // To be written to the socket; the caller takes off what it has written.
  Bytes& outgoing() { return outgoing_; }

 private:
  enum class State { greeting, answer, open };
  void shake_hands();
  [[nodiscard]] Mac proof(Side side) const;
  [[nodiscard]] Mac seal(Side side, std::uint64_t number, const std::uint8_t* content, std::size_t count) const;

  Side side_;
  std::string key_, session_;
  State state_ = State::greeting;
  std::array<std::uint8_t, 32> host_nonce_{}, worker_nonce_{};
  Bytes incoming_, outgoing_;
  std::size_t read_ = 0;  // of incoming_
  std::uint64_t sent_ = 0, taken_ = 0;
};

// "host:port", "[::1]:port". UserError naming `place`.
struct Address {
  std::string host;
  int port = 0;
};
[[nodiscard]] Address parse_address(const std::string& text, const std::string& place);

// A descriptor; UserError naming the port where it is in use, or the address where there is none such. Port 0: any.
[[nodiscard]] int listen_on(const Address& address, int& port);
// Nothing where nobody answers within `milliseconds`.
[[nodiscard]] std::optional<int> connect_to(const Address& address, int milliseconds);
// So that a pulled cable shows: what is not acknowledged within `seconds` breaks the connection.
void watch_connection(int descriptor, int seconds);

}  // namespace isobit::scale
