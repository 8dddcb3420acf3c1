#include "scale/channel.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "archive/user_error.h"

namespace isobit::scale {
namespace {

constexpr std::string_view kMagic = "isobit1\n";
constexpr std::size_t kNonce = 32, kSeal = 16, kHead = 4 + kSeal;

void append(Bytes& to, const void* bytes, std::size_t count) {
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  to.insert(to.end(), first, first + count);
}

}  // namespace

Frames::Frames(Side side, std::string key) : side_(side), key_(std::move(key)) {
  if (side_ == Side::worker) return;
  fill_random(host_nonce_);
  append(outgoing_, kMagic.data(), kMagic.size());
  append(outgoing_, host_nonce_.data(), kNonce);
  state_ = State::answer;
}

Mac Frames::proof(Side side) const {
  Bytes text;
  append(text, side == Side::host ? "host" : "work", 4);
  append(text, host_nonce_.data(), kNonce);
  append(text, worker_nonce_.data(), kNonce);
  return mac(key_, text);
}

Mac Frames::seal(Side side, std::uint64_t number, const std::uint8_t* content, std::size_t count) const {
  Bytes text;
  text.reserve(count + 9);
  text.push_back(side == Side::host ? 'h' : 'w');
  append(text, &number, sizeof number);
  append(text, content, count);
  return mac(session_, text);
}

void Frames::received(const std::uint8_t* bytes, std::size_t count) {
  append(incoming_, bytes, count);
  if (state_ != State::open) shake_hands();
}

void Frames::shake_hands() {
  const std::size_t wanted = side_ == Side::host         ? kNonce + sizeof(Mac)
                             : state_ == State::greeting ? kMagic.size() + kNonce
                                                         : sizeof(Mac);
  if (incoming_.size() < wanted) return;
  const std::uint8_t* bytes = incoming_.data();
  if (side_ == Side::host) {
    std::memcpy(worker_nonce_.data(), bytes, kNonce);
    if (!same(proof(Side::worker), {bytes + kNonce, sizeof(Mac)})) throw WireError("has another key, or none");
    const Mac answer = proof(Side::host);
    append(outgoing_, answer.data(), answer.size());
    state_ = State::open;
  } else if (state_ == State::greeting) {
    if (std::memcmp(bytes, kMagic.data(), kMagic.size()) != 0) throw WireError("is no host of a job of isobit");
    std::memcpy(host_nonce_.data(), bytes + kMagic.size(), kNonce);
    fill_random(worker_nonce_);
    append(outgoing_, worker_nonce_.data(), kNonce);
    const Mac answer = proof(Side::worker);
    append(outgoing_, answer.data(), answer.size());
    state_ = State::answer;
  } else {
    if (!same(proof(Side::host), {bytes, sizeof(Mac)})) throw WireError("has another key than this worker");
    state_ = State::open;
  }
  incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(wanted));
  if (state_ == State::open) {
    const Mac session = mac(key_ + "session", [&] {
      Bytes both(host_nonce_.begin(), host_nonce_.end());
      append(both, worker_nonce_.data(), kNonce);
      return both;
    }());
    session_.assign(session.begin(), session.end());
  } else if (!incoming_.empty()) {
    shake_hands();
  }
}

std::optional<Bytes> Frames::next() {
  if (!ready() || incoming_.size() - read_ < kHead) return std::nullopt;
  std::uint32_t length = 0;
  std::memcpy(&length, incoming_.data() + read_, sizeof length);
  if (length > kLongestFrame) throw WireError("sends more than any message has");
  if (incoming_.size() - read_ < kHead + length) return std::nullopt;
  const std::uint8_t* content = incoming_.data() + read_ + kHead;
  const Mac expected = seal(side_ == Side::host ? Side::worker : Side::host, taken_++, content, length);
  if (!same(std::span(expected).first(kSeal), {content - kSeal, kSeal}))
    throw WireError("sends what was altered on its way");
  Bytes frame(content, content + length);
  read_ += kHead + length;
  if (read_ == incoming_.size() || read_ > (1 << 20)) {
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(read_));
    read_ = 0;
  }
  return frame;
}

void Frames::send(const Bytes& content) {
  if (content.size() > kLongestFrame) throw WireError("a message is too long");
  const auto length = static_cast<std::uint32_t>(content.size());
  const Mac sealed = seal(side_, sent_++, content.data(), content.size());
  append(outgoing_, &length, sizeof length);
  append(outgoing_, sealed.data(), kSeal);
  append(outgoing_, content.data(), content.size());
}

// ---- sockets

namespace {

using Infos = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Infos resolve(const Address& address, bool passive) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  const int code = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0)
    throw archive::UserError(address.host, std::string("is no address known here: ") + ::gai_strerror(code),
                             "name a host, or one of this machine's addresses");
  return {found, &::freeaddrinfo};
}

}  // namespace

Address parse_address(const std::string& text, const std::string& place) {
  const auto colon = text.rfind(':');
  Address address;
  const char* end = text.data() + text.size();
  const bool number = colon != std::string::npos &&
                      std::from_chars(text.data() + colon + 1, end, address.port).ptr == end && colon + 1 < text.size();
  if (number) address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  if (!number || address.host.empty() || address.port < 0 || address.port > 65535)
    throw archive::UserError(place, "'" + text + "' is no HOST:PORT", "write it as 10.0.0.1:29400 or [::1]:29400");
  return address;
}

int listen_on(const Address& address, int& port) {
  const Infos infos = resolve(address, true);
  const int descriptor = ::socket(infos->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) throw archive::UserError(address.host, std::strerror(errno), "check this machine's network");
  const int on = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(descriptor, infos->ai_addr, infos->ai_addrlen) != 0 || ::listen(descriptor, 128) != 0) {
    const int code = errno;
    ::close(descriptor);
    const std::string place = address.host + ":" + std::to_string(address.port);
    if (code == EADDRINUSE)
      throw archive::UserError(place, "the port is in use", "choose another one, or leave it out: one is found then");
    throw archive::UserError(place, std::string("cannot be listened on: ") + std::strerror(code),
                             "name one of this machine's addresses");
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &length);
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return descriptor;
}

std::optional<int> connect_to(const Address& address, int milliseconds) {
  const Infos infos = resolve(address, false);
  for (const addrinfo* info = infos.get(); info != nullptr; info = info->ai_next) {
    const int descriptor = ::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) continue;
    int code = ::connect(descriptor, info->ai_addr, info->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      pollfd waiting{descriptor, POLLOUT, 0};
      socklen_t length = sizeof code;
      if (::poll(&waiting, 1, milliseconds) != 1 || ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) != 0)
        code = ETIMEDOUT;
    }
    if (code == 0) return descriptor;
    ::close(descriptor);
  }
  return std::nullopt;
}

void watch_connection(int descriptor, int seconds) {
  const int on = 1, interval = 1;
  const unsigned milliseconds = static_cast<unsigned>(seconds) * 1000;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &interval, sizeof interval);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &seconds, sizeof seconds);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

}  // namespace isobit::scale
