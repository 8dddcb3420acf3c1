#include "scale/host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "scale/channel.h"

namespace isobit::scale {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostConnections = 4096;
constexpr std::size_t kMostRefusals = 16;
constexpr int kMostReads = 64;

}  // namespace

struct Host::Impl {
  struct Connection {
    explicit Connection(int descriptor, const std::string& key)
        : descriptor(descriptor), frames(Frames::Side::host, key) {}
    ~Connection() { ::close(descriptor); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    int descriptor;
    Frames frames;
    Clock::time_point heard = Clock::now();
    bool joined = false, closing = false;
  };

  explicit Impl(HostOptions given)
      : options(std::move(given)), membership(options.identity, options.job, options.expected) {
    listener = listen_on({options.address, options.port}, port);
    wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread = std::thread([this] { serve(); });
  }
  ~Impl() {
    ending = true;
    ring();
    thread.join();
    ::close(listener);
    ::close(wake);
  }

  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake, &one, sizeof one);
  }

  void serve() {
    while (!ending) {
      std::vector<pollfd> waiting{{listener, POLLIN, 0}, {wake, POLLIN, 0}};
      std::vector<WorkerId> ids;
      for (const auto& [id, each] : connections) {
        const short events = each->frames.outgoing().empty() ? POLLIN : POLLIN | POLLOUT;
        waiting.push_back({each->descriptor, events, 0});
        ids.push_back(id);
      }
      ::poll(waiting.data(), waiting.size(), 250);
      const std::lock_guard lock(mutex);
      std::uint64_t rung = 0;
      [[maybe_unused]] const auto read = ::read(wake, &rung, sizeof rung);
      if (waiting[0].revents != 0) accept();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (waiting[i + 2].revents != 0) receive(ids[i]);
      }
      look_at_clock();
      deliver();
    }
  }

  void accept() {
    while (connections.size() < kMostConnections) {
      const int descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor < 0) return;
      watch_connection(descriptor, options.silence);
      connections.emplace(next_id++, std::make_unique<Connection>(descriptor, options.key));
    }
  }

  void receive(WorkerId id) {
    Connection& from = *connections.at(id);
    std::uint8_t bytes[1 << 16];
    try {
      for (int reads = 0; reads < kMostReads; ++reads) {  // others want to be heard, too
        const ssize_t count = ::recv(from.descriptor, bytes, sizeof bytes, 0);
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) throw WireError("the connection has ended");
        if (from.joined) from.heard = Clock::now();  // who has no key cannot stay by saying a little
        from.frames.received(bytes, static_cast<std::size_t>(count));
      }
      while (const auto frame = from.frames.next()) handle(id, from, decode_request(*frame));
    } catch (const std::exception& error) {  // whatever a message does, the host goes on
      if (!from.joined) refusal(std::string("somebody who ") + error.what());
      lose(id);
    }
  }

  void handle(WorkerId id, Connection& from, const Request& request) {
    if (const auto* join = std::get_if<Join>(&request)) {
      if (from.joined) throw WireError("joins twice");
      from.joined = true;
      from.heard = Clock::now();
      const std::size_t before = replies.size();
      membership.join(id, *join, replies);
      const auto* refused = std::get_if<Refused>(&replies[before].second);
      if (refused == nullptr) return;
      refusal(join->name + ": " + refused->why);
      from.closing = true;
    } else if (!from.joined) {
      throw WireError("did not join");
    } else if (const auto* put = std::get_if<Put>(&request)) {
      values[put->key] = put->value;
      replies.emplace_back(id, Done{});
    } else if (const auto* get = std::get_if<Get>(&request)) {
      const auto found = values.find(get->key);
      // Nothing yet; or nothing any more, since one of the group is gone before all have met.
      const Reply nothing = membership.together() ? Reply(Done{}) : Reply(Again{});
      replies.emplace_back(id, found == values.end() ? nothing : Reply(Value{found->second}));
    } else {
      membership.request(id, request, replies);
    }
  }

  void refusal(const std::string& why) {
    if (refused.size() >= kMostRefusals) refused.erase(refused.begin());
    refused.push_back(why);
  }

  void lose(WorkerId id) {
    connections.erase(id);
    membership.drop(id, replies);
  }

  void look_at_clock() {
    const auto now = Clock::now();
    // This process was stopped itself: it heard nobody.
    if (now - looked > std::chrono::seconds(2)) {
      for (auto& [id, each] : connections) each->heard = now;
    }
    looked = now;
    std::vector<WorkerId> silent;
    for (const auto& [id, each] : connections) {
      if (now - each->heard > std::chrono::seconds(options.silence)) silent.push_back(id);
    }
    for (const WorkerId id : silent) lose(id);
    if (!begun && membership.generation() == 0 && now - start > std::chrono::seconds(options.patience)) {
      begun = true;
      membership.stop_waiting(replies);
    }
    if (!membership.unrecorded()) {
      unrecorded.reset();
    } else if (!unrecorded) {
      unrecorded = now;
    } else if (now - *unrecorded > std::chrono::seconds(options.patience)) {
      membership.fail(
          {Failure::Kind::user_error, 0, options.folder, "no worker that is left can write the run's record",
           "let one of the workers reach that folder and write in it"},
          replies);
    }
  }

  void deliver() {
    if (std::exchange(met_in, membership.generation()) != membership.generation()) values.clear();  // of a former group
    for (std::size_t i = 0; i < replies.size(); ++i) {  // losing somebody brings further ones
      const auto found = connections.find(replies[i].first);
      if (found != connections.end()) found->second->frames.send(encode(replies[i].second));
    }
    replies.clear();
    std::vector<WorkerId> broken;
    for (const auto& [id, each] : connections) {
      if (!write(*each)) broken.push_back(id);
    }
    for (const WorkerId id : broken) lose(id);
    if (!replies.empty()) ring();
  }

  static bool write(Connection& to) {
    Bytes& bytes = to.frames.outgoing();
    std::size_t written = 0;
    while (written < bytes.size()) {
      const ssize_t count = ::send(to.descriptor, bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
      if (count > 0) written += static_cast<std::size_t>(count);
      if (count >= 0 || errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
      break;
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(written));
    return !(to.closing && bytes.empty());
  }

  HostOptions options;
  int port = 0, listener = -1, wake = -1;
  mutable std::mutex mutex;
  Membership membership;
  std::map<WorkerId, std::unique_ptr<Connection>> connections;
  std::map<std::string, Bytes> values;  // the meeting point of the group
  std::int64_t met_in = 0;
  Replies replies;
  std::vector<std::string> refused;
  WorkerId next_id = 1;
  const Clock::time_point start = Clock::now();
  Clock::time_point looked = start;
  bool begun = false;
  std::optional<Clock::time_point> unrecorded;  // since when
  std::atomic<bool> ending = false;
  std::thread thread;
};

Host::Host(HostOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Host::~Host() = default;

int Host::port() const { return impl_->port; }

HostView Host::view() const {
  const std::lock_guard lock(impl_->mutex);
  const Membership& job = impl_->membership;
  return {job.workers(),       job.generation(), job.steps_done(), job.granted(),
          job.granted_again(), job.failure(),    job.recorded(),   impl_->refused};
}

void Host::expect(std::int64_t workers) {
  const std::lock_guard lock(impl_->mutex);
  impl_->membership.expect(workers, impl_->replies);
  impl_->ring();
}

void Host::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->membership.stop();
}

void Host::fail(const Failure& failure) {
  const std::lock_guard lock(impl_->mutex);
  impl_->membership.fail(failure, impl_->replies);
  impl_->ring();
}

}  // namespace isobit::scale
