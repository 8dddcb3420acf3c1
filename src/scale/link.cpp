#include "scale/link.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "archive/user_error.h"

namespace isobit::scale {
namespace {

using Clock = std::chrono::steady_clock;

std::string own_address_of(int descriptor) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST] = "";
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

}  // namespace

Link::Link(const Options& options) : frames_(Frames::Side::worker, options.key) {
  const std::string place = options.host.host + ":" + std::to_string(options.host.port);
  try {
    connect(options);
    Reply reply = ask(options.about);
    if (const auto* refused = std::get_if<Refused>(&reply))
      throw archive::UserError(place, "this worker is not of the job\n  " + refused->why,
                               "start it with the job's experiment, data and version of isobit");
    auto& admitted = std::get<Admitted>(reply);
    id_ = admitted.id;
    job_ = std::move(admitted.job);
  } catch (const WireError& error) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw archive::UserError(place, std::string("the other side ") + error.what(), "use the key of this job");
  } catch (const LinkLost& error) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw archive::UserError(place, error.what(),
                             "if the job has not finished: isobit run --resume RUN (docs/guides/one-machine.md)");
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
  thread_ = std::thread([this] { keep_alive(); });
}

Link::~Link() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  ::close(descriptor_);
}

void Link::connect(const Options& options) {
  const auto until = Clock::now() + std::chrono::seconds(options.patience);
  while (true) {
    if (const auto descriptor = connect_to(options.host, 2000)) {
      descriptor_ = *descriptor;
      break;
    }
    if (Clock::now() > until) throw LinkLost("nobody answers: the host of the job is gone, or never was there");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  watch_connection(descriptor_, options.silence);
  own_address_ = own_address_of(descriptor_);
  while (!frames_.ready()) {
    if (Clock::now() > until) throw LinkLost("the host does not answer");
    try {
      read_some(200);
      const std::lock_guard lock(mutex_);
      write_all();
    } catch (const LinkLost&) {
      throw WireError("ended the connection: it has another key, or is no host of a job");
    }
  }
}

// Precondition: the mutex is held. The socket does not block; what it cannot take is waited for.
void Link::write_all() {
  Bytes& bytes = frames_.outgoing();
  std::size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count = ::send(descriptor_, bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd waiting{descriptor_, POLLOUT, 0};
      ::poll(&waiting, 1, 1000);
    } else if (errno != EINTR) {
      broken_ = true;
      throw LinkLost("the host of the job is gone");
    }
  }
  bytes.clear();
}

void Link::read_some(int milliseconds) {
  pollfd waiting{descriptor_, POLLIN, 0};
  if (::poll(&waiting, 1, milliseconds) <= 0) return;
  std::uint8_t bytes[1 << 16];
  const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, 0);
  const std::lock_guard lock(mutex_);
  if (count > 0) {
    frames_.received(bytes, static_cast<std::size_t>(count));
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    broken_ = true;
    throw LinkLost("the host of the job is gone, or has dropped this worker");
  }
}

// Precondition: the mutex is held. What was altered on its way ends this connection; a new one can be made.
std::optional<Bytes> Link::next_frame() {
  try {
    return frames_.next();
  } catch (const WireError& error) {
    broken_ = true;
    throw LinkLost(std::string("the connection to the host ") + error.what());
  }
}

Reply Link::ask(const Request& request) {
  {
    const std::lock_guard lock(mutex_);
    frames_.send(encode(request));
    write_all();
  }
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto frame = next_frame()) return decode_reply(*frame);
      if (broken_) throw LinkLost("the host of the job is gone");
    }
    read_some(1000);
  }
}

void Link::keep_alive() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return ending_; })) {
    if (broken_) return;
    try {
      frames_.send(encode(Request(Alive{grains_})));
      write_all();
    } catch (const std::exception&) {
      broken_ = true;  // the caller finds out when it asks
    }
  }
}

}  // namespace isobit::scale
