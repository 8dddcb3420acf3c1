// The sums of a group of real workers (Links to a Host on loopback, Gloo between them) have the bits of one process,
// however the grains are divided; what exceeds binary32 stops all alike; who dies in the middle is noticed.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <random>
#include <thread>

#include "scale/exact_reduce.h"
#include "scale/host.h"

namespace isobit::scale {
namespace {

using grains::GrainResult;
using grains::GrainSums;
using trace::NamedTensor;

const std::string kKey(64, 'c');

// Values of all sizes whose sums mean something: cancelling, subnormal, huge, zeros of both signs.
float hostile(std::mt19937& generator) {
  const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
  switch (random() % 8) {
    case 0: return 0.0f;
    case 1: return -0.0f;
    case 2: return std::bit_cast<float>(random() & 0x807fffffu);  // subnormal
    case 3: return (random() % 2 != 0 ? 1.0f : -1.0f) * 0x1p+100f;
    case 4: return (random() % 2 != 0 ? 1.0f : -1.0f) * 0x1p-100f;
    default: return std::bit_cast<float>((random() & 0x807fffffu) | ((90 + random() % 70) << 23));
  }
}

struct Course {
  std::vector<NamedTensor> parameters;
  std::vector<std::vector<at::Tensor>> gradients;  // by grain, parameter
};

Course course(std::uint32_t seed, std::int64_t grains, bool ordinary) {
  std::mt19937 random(seed);
  Course course;
  int number = 0;
  std::vector<std::vector<std::int64_t>> shapes = {{0}, {1}, {7, 13}, {3}, {0, 4}, {257}, {1, 1}, {64}};
  if (seed % 2 == 0) shapes.insert(shapes.begin() + 3, {5, 1001});  // several blocks, of which some are no binary64
  for (const auto& sizes : shapes) course.parameters.push_back({"p" + std::to_string(number++), at::zeros(sizes)});
  for (std::int64_t grain = 0; grain < grains; ++grain) {
    course.gradients.emplace_back();
    for (const NamedTensor& parameter : course.parameters) {
      at::Tensor values = at::empty(parameter.tensor.sizes());
      float* to = values.mutable_data_ptr<float>();
      const bool nothing = random() % 5 == 0;  // a grain whose part is all zero, so that the top limbs differ
      for (std::int64_t i = 0; i < values.numel(); ++i)
        to[i] = nothing ? 0.0f
                : ordinary || (i > 1000 && i % 2048 != 5)
                    ? std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x807fffffu) | (120u << 23))
                    : hostile(random);
      course.gradients.back().push_back(values);
    }
  }
  return course;
}

GrainResult result_of(const Course& course, std::int64_t grain) {
  GrainResult result;
  result.grain = grain;
  result.loss = 0.5f + static_cast<float>(grain);
  result.counts = {grain, 2 * grain, 0.25 * static_cast<double>(grain)};
  for (const at::Tensor& each : course.gradients[static_cast<std::size_t>(grain)])
    result.gradients.push_back(each.clone());
  result.increments["counter"] = 1;
  result.digest = {{static_cast<std::uint64_t>(grain) * 77, 5}};
  return result;
}

GrainSums sums_of(const Course& course, const std::vector<std::int64_t>& grains) {
  GrainSums sums(course.parameters, at::kCPU, 1, static_cast<std::int64_t>(course.gradients.size()));
  for (const std::int64_t grain : grains) sums.add(result_of(course, grain));
  return sums;
}

std::string bits(const grains::FinishedStep& step) {
  std::string text;
  const auto raw = [&](const void* bytes, std::size_t count) { text.append(static_cast<const char*>(bytes), count); };
  raw(&step.loss_sum, 4);
  raw(&step.counts.correct, 8), raw(&step.counts.targets, 8), raw(&step.counts.error, 8);
  for (const at::Tensor& each : step.gradients) {
    for (const std::int64_t size : each.sizes()) raw(&size, 8);
    raw(each.const_data_ptr(), each.nbytes());
  }
  for (const auto& [name, count] : step.increments) text += name, raw(&count, 8);
  for (const auto& field : step.digest) raw(&field.high, 8), raw(&field.low, 8);
  return text;
}

// All of a group at once, each on a thread of its own with a Link; by rank what `work` gave, or the error it threw.
class Group {
 public:
  // `elsewhere`: of them, who have no Link here.
  explicit Group(std::int64_t size, std::int64_t elsewhere = 0) : size_(size) {
    HostOptions options;
    options.key = kKey;
    options.identity = "test";
    options.job = "{}";
    options.expected = size;
    host_ = std::make_unique<Host>(options);
    for (std::int64_t i = elsewhere; i < size; ++i) links_.push_back(connect(host_->port()));
  }
  [[nodiscard]] int port() const { return host_->port(); }
  static std::unique_ptr<Link> connect(int port) {
    Link::Options options;
    options.host = {"127.0.0.1", port};
    options.key = kKey;
    options.about = {"test", "test", "cpu"};
    return std::make_unique<Link>(options);
  }
  using Work = std::function<std::string(Exchange&)>;
  std::vector<std::string> run(const Work& work) {
    std::vector<std::future<std::string>> all;
    for (const auto& link : links_) all.push_back(std::async(std::launch::async, [&] { return member(*link, work); }));
    std::vector<std::string> results(static_cast<std::size_t>(size_));
    for (auto& each : all) {
      auto result = each.get();
      results.at(static_cast<std::size_t>(result[0] - '0')) = result.substr(1);
    }
    return results;
  }
  // Those who are left, in the next group.
  std::vector<std::string> run_again(std::int64_t size, const Work& work) {
    size_ = size;
    return run(work);
  }
  static std::string member(Link& link, const Work& work) {
    const auto formed = link.ask_for<Formed>(Regroup{0, {}, true});
    const auto rank = static_cast<char>('0' + formed.rank);
    try {
      Exchange exchange(link, formed.generation, formed.rank, formed.size);
      return rank + work(exchange);
    } catch (const ExchangeLost&) {
      return rank + std::string("lost");
    }
  }

 private:
  std::int64_t size_;
  std::unique_ptr<Host> host_;
  std::vector<std::unique_ptr<Link>> links_;
};

Reduce agreed(const std::vector<GrainSums*>& sums, const std::vector<Bytes>& packed) {
  Reduce reduce;
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    reduce.counts.push_back(sums[rank]->grains_present());
    reduce.packed.push_back(static_cast<std::int64_t>(packed[rank].size()));
    const Bytes tops = limb_bytes(sums[rank]->top_limbs());
    reduce.tops.resize(tops.size());
    for (std::size_t i = 0; i < tops.size(); ++i) reduce.tops[i] = std::max(reduce.tops[i], tops[i]);
  }
  return reduce;
}

// Each divided anew: none, one, several grains a worker.
std::vector<std::vector<std::int64_t>> divide(std::mt19937& random, std::int64_t grains, std::int64_t workers) {
  std::vector<std::vector<std::int64_t>> parts(static_cast<std::size_t>(workers));
  for (std::int64_t grain = 0; grain < grains; ++grain) parts[random() % parts.size()].push_back(grain);
  return parts;
}

class ExactReduce : public testing::TestWithParam<std::int64_t> {};

TEST_P(ExactReduce, HasTheBitsOfOneProcess) {
  const std::int64_t workers = GetParam();
  Group group(workers);
  struct Case {
    Course course;
    std::vector<std::vector<std::int64_t>> parts;
    std::int64_t piece;
  };
  std::mt19937 random(static_cast<std::uint32_t>(workers));
  std::vector<Case> cases;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::int64_t grains = 2 + static_cast<std::int64_t>(random() % 7);
    cases.push_back({course(i, grains, i % 3 == 0), divide(random, grains, workers),
                     std::vector<std::int64_t>{1 << 22, 17, 50, 64, 100}[i % 5]});
  }
  std::string expected;
  for (const Case& each : cases) {
    std::vector<std::int64_t> all(each.course.gradients.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    expected += bits(sums_of(each.course, all).finish());
  }
  for (const std::string& result : group.run([&](Exchange& exchange) {
         std::string text;
         ReduceMemory memory;
         for (const Case& each : cases) {
           std::vector<GrainSums> sums;
           for (const auto& part : each.parts) sums.push_back(sums_of(each.course, part));
           std::vector<GrainSums*> pointers;
           std::vector<Bytes> packed;
           for (GrainSums& one : sums) pointers.push_back(&one), packed.push_back(pack(one.rest(), {}));
           const auto rank = static_cast<std::size_t>(exchange.rank());
           const Reduce reduce = agreed(pointers, packed);
           if (exchange.size() > 1) {  // in small pieces the same
             const auto gradients =
                 reduce_gradients(exchange, sums[rank], each.course.parameters, reduce, memory, each.piece);
             const auto again = reduce_gradients(exchange, sums[rank], each.course.parameters, reduce, memory);
             for (std::size_t i = 0; i < gradients.size(); ++i)
               EXPECT_TRUE(again[i].nbytes() == 0 || std::memcmp(gradients[i].const_data_ptr(),
                                                                 again[i].const_data_ptr(), again[i].nbytes()) == 0);
           }
           text += bits(exact_reduce(exchange, sums[rank], each.course.parameters, {}, packed[rank], reduce, memory));
         }
         return text;
       }))
    EXPECT_TRUE(result == expected);
}

INSTANTIATE_TEST_SUITE_P(Workers, ExactReduce, testing::Values(1, 2, 3, 4, 5));

TEST(ExactReduceFailures, ASumBeyondTheRangeStopsAllAlike) {
  Course huge = course(1, 2, true);
  for (auto& gradients : huge.gradients) gradients[2].fill_(3e38f);
  Group group(2);
  const auto results = group.run([&](Exchange& exchange) {
    std::vector<GrainSums> sums{sums_of(huge, {0}), sums_of(huge, {1})};
    const std::vector<Bytes> packed{pack(sums[0].rest(), {}), pack(sums[1].rest(), {})};
    const auto rank = static_cast<std::size_t>(exchange.rank());
    ReduceMemory memory;
    try {
      (void)exact_reduce(exchange, sums[rank], huge.parameters, {}, packed[rank], agreed({&sums[0], &sums[1]}, packed),
                         memory);
    } catch (const grains::NotFinite& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  std::string alone;
  try {
    (void)sums_of(huge, {0, 1}).finish();
  } catch (const grains::NotFinite& error) {
    alone = error.what();
  }
  EXPECT_FALSE(alone.empty());
  EXPECT_EQ(results, (std::vector<std::string>{alone, alone}));
}

// A worker with the key that sends what no sums of digits are: half a unit, and an infinity, where digits are added.
TEST(ExactReduceFailures, SumsThatAreNoneAreRefused) {
  Course apart = course(1, 4, true);
  for (auto& gradients : apart.gradients) gradients[2].fill_(1.0f);
  apart.gradients[0][2].fill_(0x1p-60f);  // with 1: no binary64 number, so that rank 0 adds digits
  for (const double forged : {0.5, std::numeric_limits<double>::infinity()}) {
    Group group(2);
    const auto results = group.run([&](Exchange& exchange) {
      std::vector<GrainSums> sums{sums_of(apart, {0, 1}), sums_of(apart, {2, 3})};
      const std::vector<Bytes> packed{pack(sums[0].rest(), {}), pack(sums[1].rest(), {})};
      ReduceMemory memory;
      if (exchange.rank() == 0) {
        try {
          (void)reduce_gradients(exchange, sums[0], apart.parameters, agreed({&sums[0], &sums[1]}, packed), memory);
        } catch (const WireError& error) {
          return std::string(error.what());
        }
        return std::string("took them");
      }
      std::int64_t elements = 0;
      for (const NamedTensor& each : apart.parameters) elements += each.tensor.numel();
      std::vector<double> slice(static_cast<std::size_t>((elements + 1) / 2), forged);
      wait(exchange.send({reinterpret_cast<const std::uint8_t*>(slice.data()), slice.size() * 8}, 0, 1));
      return std::string("sent");
    });
    EXPECT_EQ(results[0], "sums that isobit does not send");
  }
}

std::string reduce_twice(Exchange& exchange, bool dies_between) {
  Course large;
  large.parameters.push_back({"p", at::zeros({1 << 20})});
  for (int i = 0; i < 3; ++i) large.gradients.push_back({at::full({1 << 20}, 1.0f)});
  std::vector<GrainSums> sums;
  std::vector<Bytes> packed;
  for (int i = 0; i < 3; ++i) sums.push_back(sums_of(large, {i})), packed.push_back(pack(sums.back().rest(), {}));
  const Reduce reduce = agreed({&sums[0], &sums[1], &sums[2]}, packed);
  const auto rank = static_cast<std::size_t>(exchange.rank());
  ReduceMemory memory;
  (void)reduce_gradients(exchange, sums[rank], large.parameters, reduce, memory, 1 << 16);
  if (dies_between) ::_exit(0);
  (void)reduce_gradients(exchange, sums[rank], large.parameters, reduce, memory, 1 << 16);
  return "has the sums";
}

// A process of its own, which ends between two exchanges; the two others find out. It is made before any thread is.
TEST(ExactReduceFailures, WhoDiesInTheMiddleIsNoticed) {
  int channel[2];
  ASSERT_EQ(::pipe(channel), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      int port = 0;
      if (::read(channel[0], &port, sizeof port) != sizeof port) ::_exit(2);
      const auto link = Group::connect(port);
      (void)Group::member(*link, [](Exchange& exchange) { return reduce_twice(exchange, true); });
    } catch (...) {
    }
    ::_exit(1);
  }
  Group group(3, 1);
  const int port = group.port();
  ASSERT_EQ(::write(channel[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const auto results = group.run([](Exchange& exchange) { return reduce_twice(exchange, false); });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(std::count(results.begin(), results.end(), "lost"), 2);
  ::close(channel[0]), ::close(channel[1]);
}

// Of three workers one is killed at some point between being told its group and its first sums: the two others are
// told, none waits for ever, and the group that they form next has both. All processes are made before any thread is.
TEST(ExactReduceFailures, WhoDiesWhileOthersConnectIsNoticed) {
  ::setenv("GLOO_DISABLE_CONNECTION_RETRIES", "1", 1);  // as workers do
  struct Doomed {
    pid_t process = 0;
    int channel[2] = {};
  };
  const char* asked = std::getenv("ISOBIT_MOMENTS");  // a moment may take 20 s, mostly none does
  std::vector<Doomed> all(asked == nullptr ? 6 : std::stoul(asked));
  const auto between = 10000 / static_cast<std::int64_t>(all.size());  // microseconds
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(::pipe(all[i].channel), 0);
    all[i].process = ::fork();
    if (all[i].process != 0) continue;
    int port = 0;
    if (::read(all[i].channel[0], &port, sizeof port) != sizeof port) ::_exit(2);
    const auto link = Group::connect(port);
    const auto formed = link->ask_for<Formed>(Regroup{0, {}, true});
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(i < 2 ? 0 : between * static_cast<std::int64_t>(i - 2)));
      ::kill(::getpid(), SIGKILL);
    }).detach();
    if (i == 0) std::this_thread::sleep_for(std::chrono::seconds(60));  // never connects
    try {
      const Exchange exchange(*link, formed.generation, formed.rank, formed.size);
      std::this_thread::sleep_for(std::chrono::seconds(60));
    } catch (const std::exception&) {
      std::this_thread::sleep_for(std::chrono::seconds(60));
    }
    ::_exit(1);
  }
  for (const Doomed& doomed : all) {
    Group group(3, 1);
    const int port = group.port();
    ASSERT_EQ(::write(doomed.channel[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
    const auto results = group.run([](Exchange& exchange) { return reduce_twice(exchange, false); });
    EXPECT_EQ(std::count(results.begin(), results.end(), "lost"), 2);
    int status = 0;
    ASSERT_EQ(::waitpid(doomed.process, &status, 0), doomed.process);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const auto again = group.run_again(2, [](Exchange& exchange) {
      Bytes one{static_cast<std::uint8_t>(exchange.rank())}, both(2);
      wait(exchange.all_gather(one, both));
      return fmt::format("{}{} of {}", both[0], both[1], exchange.size());
    });
    EXPECT_EQ(again, (std::vector<std::string>{"01 of 2", "01 of 2"}));
    ::close(doomed.channel[0]), ::close(doomed.channel[1]);
  }
}

// The transport's threads write to sockets without MSG_NOSIGNAL; a signal there would end all workers with the dead
// one.
TEST(ExactReduceFailures, NoThreadOfTheTransportIsEndedByABrokenPipe) {
  const auto threads = [] {
    std::vector<std::string> masks;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(each.path() / "status");
      std::string name, blocked;
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("Name:")) name = line.substr(6);
        if (line.starts_with("SigBlk:")) blocked = line.substr(8);
      }
      const bool pipe_blocked = (std::stoull(blocked, nullptr, 16) >> (SIGPIPE - 1) & 1) != 0;
      masks.push_back(name + (pipe_blocked ? " blocks" : " dies"));
    }
    return masks;
  };
  Group group(2);
  std::atomic<int> looked{0};
  const auto results = group.run([&](Exchange& exchange) {
    int transport = 0, dying = 0;
    for (const std::string& each : threads()) {
      if (each.find("gloo") == std::string::npos) continue;
      ++transport;
      if (each.ends_with("dies")) ++dying;
    }
    ++looked;
    while (looked < 2) std::this_thread::yield();
    // This thread's own writes: the other worker is gone at some point, its socket with it.
    if (exchange.rank() == 1) return fmt::format("{} of some", dying);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Bytes much(1 << 20);
    try {
      for (int i = 0; i < 64; ++i) wait(exchange.send(much, 1, 1));
    } catch (const ExchangeLost&) {
      return fmt::format("{} of {}", dying, transport > 0 ? "some" : "none");
    }
    return std::string("sent to nobody");
  });
  EXPECT_EQ(results, (std::vector<std::string>{"0 of some", "0 of some"}));
}

// ---- what else grains leave

GrainSums::Rest rest_with_statistics(const std::vector<NamedTensor>& buffers) {
  GrainSums::Rest rest;
  for (const std::int64_t grain : {0, 3}) {
    GrainSums::OfGrain kept;
    kept.loss = -0.0f;
    kept.counts = {1, 2, 1e-300};
    kept.statistics.resize(2);
    auto& update = kept.statistics[0];
    update.running_mean = buffers[0].tensor, update.running_variance = buffers[1].tensor;
    update.momentum = 0.1;
    update.fresh_mean = at::full({3}, 1e-40f), update.fresh_variance = at::full({3}, 2.0f);
    rest.by_grain[grain] = kept;
  }
  rest.increments["bn.num_batches_tracked"] = 2;
  rest.digest = {{1, 2}, {UINT64_MAX, 0}};
  return rest;
}

TEST(PackedGrains, ComeOutAsTheyWentIn) {
  const std::vector<NamedTensor> buffers{{"mean", at::zeros({3})}, {"variance", at::zeros({3})}};
  const Bytes bytes = pack(rest_with_statistics(buffers), buffers);
  const GrainSums::Rest back = unpack(bytes, buffers);
  EXPECT_EQ(pack(back, buffers), bytes);
  EXPECT_TRUE(back.by_grain.at(3).statistics[0].running_variance.is_same(buffers[1].tensor));
  EXPECT_TRUE(std::signbit(back.by_grain.at(0).loss));
  EXPECT_THROW((void)pack(rest_with_statistics(buffers), {buffers[0]}), std::exception);
}

TEST(PackedGrains, ForgedBytesAreRefusedOrRead) {
  const std::vector<NamedTensor> buffers{{"mean", at::zeros({3})}, {"variance", at::zeros({3})}};
  const Bytes bytes = pack(rest_with_statistics(buffers), buffers);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW((void)unpack(cut, buffers), WireError) << length;
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_THROW((void)unpack(longer, buffers), WireError);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 0x40, 0x80, 0xff}) {
      Bytes altered = bytes;
      altered[i] = static_cast<std::uint8_t>(altered[i] ^ change);
      try {
        (void)unpack(altered, buffers);
      } catch (const WireError&) {
      }
    }
  }
}

}  // namespace
}  // namespace isobit::scale
