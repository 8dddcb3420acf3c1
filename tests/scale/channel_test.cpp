// Frames between two who have the key, and what those do who have it not, or who misbehave: as bytes, and over loopback
// to a real Host.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "archive/user_error.h"
#include "scale/channel.h"
#include "scale/host.h"
#include "scale/link.h"

namespace isobit::scale {
namespace {

const std::string kKey(64, 'a'), kOther(64, 'b');
using Side = Frames::Side;

void carry(Frames& from, Frames& to) {
  const Bytes bytes = std::exchange(from.outgoing(), {});
  to.received(bytes.data(), bytes.size());
}

struct Pair {
  Frames host{Side::host, kKey}, worker{Side::worker, kKey};
  Pair() {
    carry(host, worker), carry(worker, host), carry(host, worker);
    EXPECT_TRUE(host.ready() && worker.ready());
  }
  Bytes sent(const Bytes& content) {  // by the worker, as it travels
    worker.send(content);
    return std::exchange(worker.outgoing(), {});
  }
};

void receive(Frames& frames, const Bytes& bytes) { frames.received(bytes.data(), bytes.size()); }

TEST(Frames, CarryContentsBothWaysInAnyPieces) {
  Pair pair;
  for (const std::size_t size : {0, 1, 1000, 3 << 20}) {
    Bytes content(size, 5);
    pair.host.send(content);
    carry(pair.host, pair.worker);
    EXPECT_EQ(pair.worker.next(), content);
    const Bytes travels = pair.sent(content);
    if (size > 1000) {
      receive(pair.host, travels);
    } else {
      for (const std::uint8_t byte : travels) {
        EXPECT_FALSE(pair.host.next());
        pair.host.received(&byte, 1);
      }
    }
    EXPECT_EQ(pair.host.next(), content);
    EXPECT_FALSE(pair.host.next());
  }
}

TEST(Frames, AnotherKeyIsNoticedByBothSides) {
  Frames host(Side::host, kKey), worker(Side::worker, kOther);
  carry(host, worker);
  EXPECT_THROW(carry(worker, host), WireError);
  EXPECT_FALSE(host.ready());
  // Who pretends to be the host.
  Frames real(Side::host, kKey), victim(Side::worker, kKey);
  carry(real, victim);
  EXPECT_THROW(receive(victim, Bytes(32, 0)), WireError);
  Frames stranger(Side::worker, kKey);
  EXPECT_THROW(receive(stranger, Bytes(40, 'x')), WireError);
}

// Any byte of a frame altered: nothing of it is delivered, and the frames after it neither.
TEST(Frames, AlteredFramesAreNotDelivered) {
  const std::size_t length = Pair().sent({1, 2, 3, 4, 5}).size();
  for (std::size_t i = 0; i < length; ++i) {
    for (const int bit : {0, 7}) {
      Pair pair;
      Bytes altered = pair.sent({1, 2, 3, 4, 5});
      altered[i] = static_cast<std::uint8_t>(altered[i] ^ (1 << bit));
      receive(pair.host, altered);
      std::optional<Bytes> delivered;
      try {
        delivered = pair.host.next();
      } catch (const WireError&) {
      }
      EXPECT_FALSE(delivered) << "byte " << i;
    }
  }
}

TEST(Frames, RepeatedReorderedReflectedAndForeignFramesAreRefused) {
  {
    Pair pair;
    const Bytes once = pair.sent({1});
    receive(pair.host, once);
    EXPECT_TRUE(pair.host.next());
    receive(pair.host, once);
    EXPECT_THROW((void)pair.host.next(), WireError);
  }
  {
    Pair pair;
    const Bytes first = pair.sent({1}), second = pair.sent({2});
    receive(pair.host, second);
    EXPECT_THROW((void)pair.host.next(), WireError);
  }
  {
    Pair pair;
    receive(pair.worker, pair.sent({1}));
    EXPECT_THROW((void)pair.worker.next(), WireError);
  }
  Pair one, other;
  receive(other.host, one.sent({1}));
  EXPECT_THROW((void)other.host.next(), WireError);
}

TEST(Frames, OversizedFramesAreRefusedByTheirHead) {
  Pair pair;
  receive(pair.host, Bytes(20, 0xff));
  EXPECT_THROW((void)pair.host.next(), WireError);
  EXPECT_THROW(pair.worker.send(Bytes(kLongestFrame + 1)), WireError);
}

// ---- a host on loopback

HostOptions host_options(int silence = 10) {
  HostOptions options;
  options.key = kKey;
  options.identity = "isobit 1, data 2";
  options.job = "{}";
  options.silence = silence;
  return options;
}

Link::Options link_options(const Host& host, const std::string& key = kKey) {
  Link::Options options;
  options.host = {"127.0.0.1", host.port()};
  options.key = key;
  options.about = {"isobit 1, data 2", "test", "cpu"};
  options.patience = 5;
  return options;
}

// A client that does as it likes.
class Client {
 public:
  explicit Client(const Host& host) : descriptor_(connect_to({"127.0.0.1", host.port()}, 2000).value()) {}
  ~Client() { ::close(descriptor_); }
  void say(const Bytes& bytes) { (void)::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // False: the host has ended the connection.
  bool hear(Frames* frames = nullptr) {
    pollfd waiting{descriptor_, POLLIN, 0};
    ::poll(&waiting, 1, 30000);
    std::uint8_t bytes[4096];
    const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    if (frames != nullptr) frames->received(bytes, static_cast<std::size_t>(count));
    return true;
  }
  void shake_hands(Frames& frames) {
    while (!frames.ready()) {
      ASSERT_TRUE(hear(&frames));
      say(std::exchange(frames.outgoing(), {}));
    }
  }
  void ask(Frames& frames, const Bytes& content) {
    frames.send(content);
    say(std::exchange(frames.outgoing(), {}));
  }
  bool ended() {
    while (hear()) {
    }
    return true;
  }

 private:
  int descriptor_;
};

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(condition());
}

TEST(Host, AnotherIdentityIsRefusedByNamingBoth) {
  Host host(host_options());
  Link::Options options = link_options(host);
  options.about.identity = "isobit 1, data 3";
  try {
    Link link(options);
    FAIL() << "was admitted";
  } catch (const archive::UserError& error) {
    EXPECT_NE(error.problem().find("isobit 1, data 2"), std::string::npos) << error.problem();
    EXPECT_NE(error.problem().find("isobit 1, data 3"), std::string::npos) << error.problem();
  }
  EXPECT_EQ(host.view().refused.size(), 1u);
  EXPECT_TRUE(host.view().workers.empty());
}

TEST(Host, AnotherKeyIsAnErrorThatNamesTheKey) {
  Host host(host_options());
  try {
    Link link(link_options(host, kOther));
    FAIL() << "was admitted";
  } catch (const archive::UserError& error) {
    EXPECT_NE(error.problem().find("another key"), std::string::npos) << error.problem();
  }
  EXPECT_TRUE(host.view().workers.empty());
}

TEST(Host, WhoSaysNothingOrALittleIsDropped) {
  Host host(host_options(1));
  Client silent(host), slow(host);
  std::atomic<bool> stop = false;
  std::thread trickle([&] {
    while (!stop) slow.say({0}), std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_TRUE(silent.ended());
  EXPECT_TRUE(slow.ended());
  stop = true;
  trickle.join();
}

TEST(Host, WhoJoinedAndIsSilentIsDropped) {
  Host host(host_options(1));
  Client client(host);
  Frames frames(Side::worker, kKey);
  client.shake_hands(frames);
  client.ask(frames, encode(Request(Join{"isobit 1, data 2", "silent", "cpu"})));
  wait_until([&] { return host.view().workers.size() == 1; });
  EXPECT_TRUE(client.ended());
  wait_until([&] { return host.view().workers.empty(); });
}

// Each of these ends its own connection, and nothing else.
TEST(Host, MisbehavingClientsDoNotDisturbTheOthers) {
  Host host(host_options());
  Link good(link_options(host));
  const Bytes join = encode(Request(Join{"isobit 1, data 2", "bad", "cpu"}));
  const std::vector<std::vector<Bytes>> misbehaviours = {
      {encode(Request(Alive{1}))},                                         // before joining
      {encode(Request(Put{"k", {}}))},                                     // the same
      {join, join},                                                        // twice
      {join, Bytes(1 << 20, 0x81)},                                        // deep
      {join, {0x9b, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},      // huge
      {join, {}},                                                          // empty
      {join, encode(Request(Claim{0, 1, 0, false}))},                      // a step of no grains
      {join, encode(Request(Claim{0, 1, std::int64_t{1} << 40, false}))},  // of too many
      {join, encode(Request(ClaimPart{0, 1, -1, {}}))},
      {join, encode(Request(ClaimPart{0, 1, std::int64_t{1} << 40, {}}))},
      {join, encode(Reply(Done{}))},  // a reply for a request
  };
  for (const auto& contents : misbehaviours) {
    Client client(host);
    Frames frames(Side::worker, kKey);
    client.shake_hands(frames);
    for (const Bytes& content : contents) client.ask(frames, content);
    EXPECT_TRUE(client.ended());
    wait_until([&] { return host.view().workers.size() == 1; });
  }
  Client stranger(host);
  stranger.say(Bytes(100000, 'G'));
  EXPECT_TRUE(stranger.ended());
  EXPECT_TRUE(std::holds_alternative<Done>(good.ask(Put{"still", {1}})));
  EXPECT_EQ(good.ask_for<Value>(Get{"still"}).value, Bytes{1});
}

TEST(Host, APortInUseIsNamed) {
  Host host(host_options());
  HostOptions second = host_options();
  second.port = host.port();
  try {
    Host other(second);
    FAIL() << "listens";
  } catch (const archive::UserError& error) {
    EXPECT_NE(error.place().find(std::to_string(host.port())), std::string::npos) << error.place();
    EXPECT_NE(error.problem().find("in use"), std::string::npos) << error.problem();
  }
}

// Whoever cannot write the record waits for somebody who can, and not for ever.
TEST(Host, WhereNobodyCanRecordTheJobEndsWithTheFolder) {
  HostOptions options = host_options();
  options.patience = 2;
  options.folder = "/archive/run";
  Host host(options);
  Link reader(link_options(host));
  auto writer = std::make_unique<Link>(link_options(host));
  std::optional<Reply> waited;
  std::thread waits([&] { waited = reader.ask(Regroup{2, {}, false}); });
  wait_until([&] { return host.view().workers[0].state == WorkerView::State::waiting; });
  EXPECT_EQ(host.view().generation, 0);
  const auto formed = writer->ask_for<Formed>(Regroup{0, {}, true});
  waits.join();
  EXPECT_EQ(formed.rank, 1);
  EXPECT_EQ(formed.recorder, 1);
  EXPECT_EQ(std::get<Formed>(*waited).recorder, 1);
  writer.reset();  // and is gone
  const auto failed = reader.ask_for<Failed>(Regroup{2, {}, false}).failure;
  EXPECT_EQ(failed.kind, Failure::Kind::user_error);
  EXPECT_EQ(failed.place, "/archive/run");
  EXPECT_FALSE(host.view().recorded);
}

TEST(Host, WhoseHostIsGoneFindsOut) {
  HostOptions options = host_options();
  options.expected = 2;
  auto host = std::make_unique<Host>(options);
  Link link(link_options(*host));
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    host.reset();
  });
  EXPECT_THROW((void)link.ask(Regroup{}), LinkLost);  // waits for a second worker
  ends.join();
}

}  // namespace
}  // namespace isobit::scale
