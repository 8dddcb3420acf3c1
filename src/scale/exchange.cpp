#include "scale/exchange.h"

#include <ATen/ops/from_blob.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "archive/user_error.h"

// Whether groups can be made here; those that a program has made need none of its headers.
#if __has_include(<gloo/algorithm.h>)
#define ISOBIT_HAS_GLOO 1
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif

namespace isobit::scale {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kMeeting{20000};
constexpr int kTries = 5;  // that Gloo makes to connect, each of its whole timeout, whatever it is told
constexpr double kSlowestBytesPerSecond = 2e6;

// The group's meeting point: keys and values that the host keeps for the generation.
class LinkStore final : public c10d::Store {
 public:
  LinkStore(Link& link, std::int64_t generation) : link_(link), prefix_("g" + std::to_string(generation) + "/") {}

  c10::intrusive_ptr<Store> clone() override { return c10::intrusive_ptr<Store>::unsafe_reclaim_from_nonowning(this); }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    (void)link_.ask(Put{prefix_ + key, value});
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const auto until = std::chrono::steady_clock::now() + getTimeout();
    for (milliseconds pause{1};; pause = std::min(2 * pause, milliseconds(50))) {
      Reply reply = link_.ask(Get{prefix_ + key});
      if (auto* value = std::get_if<Value>(&reply)) return std::move(value->value);
      if (std::holds_alternative<Again>(reply)) throw ExchangeLost("a worker of the group is gone");
      if (std::chrono::steady_clock::now() > until)
        throw ExchangeLost("a worker of the group did not come to meet the others");
      std::this_thread::sleep_for(pause);
    }
  }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      if (!std::holds_alternative<Value>(link_.ask(Get{prefix_ + key}))) return false;
    }
    return true;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) (void)get(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

  std::int64_t add(const std::string&, std::int64_t) override { unused(); }
  std::vector<std::uint8_t> compareSet(const std::string&, const std::vector<std::uint8_t>&,
                                       const std::vector<std::uint8_t>&) override {
    unused();
  }
  bool deleteKey(const std::string&) override { unused(); }
  std::int64_t getNumKeys() override { unused(); }

 private:
  [[noreturn]] static void unused() { throw ExchangeLost("the transport asks for what its meeting point does not do"); }

  Link& link_;
  std::string prefix_;
};

at::Tensor bytes_of(std::span<const std::uint8_t> bytes) {
  return at::from_blob(const_cast<std::uint8_t*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, at::kByte);
}

milliseconds patience(std::size_t bytes) {
  return milliseconds(15000 + static_cast<std::int64_t>(1000.0 * static_cast<double>(bytes) / kSlowestBytesPerSecond));
}

// Gloo writes to sockets without MSG_NOSIGNAL: a worker that dies at the wrong moment would take all others with it. No
// SIGPIPE while it lives, in this thread or in the transport's that are made meanwhile; the program's own pipes keep
// theirs.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

// Whatever the transport throws is the same news.
template <class Action>
auto lost_if_it_throws(const Action& action) {
  const NoBrokenPipe no_broken_pipe;
  try {
    return action();
  } catch (const LinkLost&) {
    throw;
  } catch (const ExchangeLost&) {
    throw;
  } catch (const std::exception& error) {
    throw ExchangeLost(error.what());
  }
}

}  // namespace

class Exchange::Pending {
 public:
  // A collective works on threads of its own, which have to end before its buffers may go; it keeps its own time.
  Pending(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors)
      : work_(std::move(work)), tensors_(std::move(tensors)), collective_(true) {}
  // A message does not outlive its Work: the transport looks whether it is still there.
  Pending(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> tensors, milliseconds patience)
      : work_(std::move(work)), tensors_(std::move(tensors)), patience_(patience) {}
  ~Pending() {
    const NoBrokenPipe no_broken_pipe;
    try {
      if (collective_) finish();
    } catch (const std::exception&) {  // whoever wanted to know has asked
    }
  }
  void finish() {
    auto work = std::exchange(work_, nullptr);
    if (work && !(collective_ ? work->wait() : work->wait(patience_)))
      throw ExchangeLost("an exchange with a worker was given up");
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> tensors_;
  bool collective_ = false;
  milliseconds patience_{0};
};

void wait(const std::shared_ptr<Exchange::Pending>& pending) {
  if (pending) lost_if_it_throws([&] { pending->finish(); });
}

struct Exchange::Group {
  c10::intrusive_ptr<LinkStore> store;
  c10::intrusive_ptr<c10d::Backend> gloo;
};

#ifdef ISOBIT_HAS_GLOO
bool Exchange::available() { return true; }

Exchange::Exchange(Link& link, std::int64_t generation, std::int64_t rank, std::int64_t size)
    : rank_(rank), size_(size) {
  if (size == 1) return;
  lost_if_it_throws([&] {
    group_ = std::make_unique<Group>();
    group_->store = c10::make_intrusive<LinkStore>(link, generation);
    group_->store->setTimeout(kMeeting);
    auto options = c10d::ProcessGroupGloo::Options::create(kMeeting / kTries);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(link.own_address()));
    options->threads = 2;
    group_->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(group_->store, static_cast<int>(rank),
                                                               static_cast<int>(size), options);
  });
}

#else
bool Exchange::available() { return false; }

Exchange::Exchange(Link&, std::int64_t, std::int64_t rank, std::int64_t size) : rank_(rank), size_(size) {
  if (size > 1)
    throw archive::UserError("--workers", "this build of isobit has no transport between workers",
                             "install Debian's libgloo-dev and build it again");
}
#endif

Exchange::Exchange(const std::string& process_group) : rank_(0), size_(1) {
  lost_if_it_throws([&] {
    const auto group = c10d::resolve_process_group(process_group);
    rank_ = group->getRank(), size_ = group->getSize();
    group_ = std::make_unique<Group>();
    group_->gloo = group->getBackend(c10::DeviceType::CPU);
  });
}

Exchange::~Exchange() {
  const NoBrokenPipe no_broken_pipe;
  group_.reset();
}

// Straight from and into the caller's memory: the collectives of c10d copy what they send and receive once more.
std::shared_ptr<Exchange::Pending> Exchange::send(std::span<const std::uint8_t> bytes, std::int64_t rank, int tag) {
  return lost_if_it_throws([&] {
    std::vector<at::Tensor> tensors{bytes_of(bytes)};
    return std::make_shared<Pending>(group_->gloo->send(tensors, static_cast<int>(rank), tag), tensors,
                                     patience(bytes.size()));
  });
}

std::shared_ptr<Exchange::Pending> Exchange::receive(std::span<std::uint8_t> bytes, std::int64_t rank, int tag) {
  return lost_if_it_throws([&] {
    std::vector<at::Tensor> tensors{bytes_of(bytes)};
    return std::make_shared<Pending>(group_->gloo->recv(tensors, static_cast<int>(rank), tag), tensors,
                                     patience(bytes.size()));
  });
}

std::shared_ptr<Exchange::Pending> Exchange::all_gather(std::span<const std::uint8_t> send,
                                                        std::span<std::uint8_t> receive) {
  return lost_if_it_throws([&] {
    at::Tensor to = bytes_of(receive), from = bytes_of(send);
    c10d::AllgatherOptions options;
    options.timeout = patience(receive.size());
    return std::make_shared<Pending>(group_->gloo->_allgather_base(to, from, options), std::vector{to, from});
  });
}

std::shared_ptr<Exchange::Pending> Exchange::broadcast(std::span<std::uint8_t> bytes, std::int64_t root) {
  return lost_if_it_throws([&] {
    std::vector<at::Tensor> tensors{bytes_of(bytes)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.timeout = patience(bytes.size());
    return std::make_shared<Pending>(group_->gloo->broadcast(tensors, options), tensors);
  });
}

std::shared_ptr<Exchange::Pending> Exchange::all_reduce(std::span<float> values) {
  return lost_if_it_throws([&] {
    std::vector<at::Tensor> tensors{
        at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)};
    c10d::AllreduceOptions options;
    options.timeout = patience(values.size() * sizeof(float));
    return std::make_shared<Pending>(group_->gloo->allreduce(tensors, options), tensors);
  });
}

}  // namespace isobit::scale
