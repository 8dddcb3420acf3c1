// Messages come out as they went in; whatever else comes in is WireError, and never the end of the process.
#include <gtest/gtest.h>

#include <random>

#include "scale/membership.h"
#include "scale/messages.h"

namespace isobit::scale {
namespace {

const Failure kFailure{Failure::Kind::user_error, 3, "model.bias", "is not \xc3\xa4", "say more"};

const Request kRequests[] = {
    Join{"isobit-0.1, data 12", "node:7", "a CPU"},
    Regroup{},
    Regroup{-1, {0, 1, 131071, std::int64_t{1} << 62}, true},
    Claim{5, 7, 131072, true, 18},
    Finish{},
    Finish{1, 2, 3, {0, 2}, true, kFailure, {0, 4, 255}, std::int64_t{1} << 40},
    Lost{4, "gone"},
    ClaimPart{1, 2, 3, {}},
    ClaimPart{1, 2, 3, PartResult{2, {1, 2, 3}}},
    Evaluated{1, 2},
    End{3, true},
    Fail{kFailure},
    Put{"g1/0", Bytes(300, 7)},
    Get{""},
    Alive{INT64_MAX},
    GiveBack{1, 2, 3},
};
const Reply kReplies[] = {
    Admitted{1, "{}"},
    Refused{"the job is a\n  this worker is b"},
    Formed{2, 1, 3, 0, 4, 2, 17, {0, 1}, false, true},
    Granted{},
    Granted{0, {}},
    Granted{3, {4, 131071}},
    Reduce{{1, 0, 3}, {8, 0, 9}, {1, 2}, true},
    AllParts{{{}, {1}, {2, 3}}},
    Again{},
    Failed{kFailure},
    Value{{}},
    Done{},
};

template <class Message>
void expect_refused(const Bytes& bytes, Message (*decode)(const Bytes&), const char* what) {
  EXPECT_THROW((void)decode(bytes), WireError) << what;
}

template <class Messages, class Message>
void attack(const Messages& messages, Message (*decode)(const Bytes&)) {
  for (const Message& message : messages) {
    const Bytes bytes = encode(message);
    const Message back = decode(bytes);
    EXPECT_EQ(back.index(), message.index());
    EXPECT_EQ(encode(back), bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      expect_refused(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)), decode, "cut off");
    Bytes longer = bytes;
    longer.push_back(0);
    expect_refused(longer, decode, "longer");
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const int change : {1, 0x20, 0x80, 0xff}) {
        Bytes altered = bytes;
        altered[i] = static_cast<std::uint8_t>(altered[i] ^ change);
        try {
          (void)encode(decode(altered));  // another message, perhaps
        } catch (const WireError&) {
        }
      }
    }
  }
}

TEST(Messages, ComeOutAsTheyWentIn) {
  attack(kRequests, &decode_request);
  attack(kReplies, &decode_reply);
}

Bytes head(std::uint8_t kind, std::uint64_t length) {
  Bytes bytes{kind};
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(length >> shift));
  return bytes;
}

TEST(Messages, DeepHugeAndStrangeOnesAreRefused) {
  for (const std::size_t depth : {9, 1000, 1 << 22}) {
    expect_refused(Bytes(depth, 0x81), &decode_request, "deep");
    expect_refused(Bytes(depth, 0x9f), &decode_request, "deep, without lengths");
    expect_refused(Bytes(depth, 0xa1), &decode_request, "deep maps");
    expect_refused(Bytes(depth, 0xc6), &decode_request, "deep tags");
    for (const std::uint8_t kind : {0x5f, 0x7f}) {
      Bytes texts{0x82, 0x0b};  // Alive of a text of texts
      texts.insert(texts.end(), depth, kind);
      expect_refused(texts, &decode_request, "texts within texts");
      expect_refused(texts, &decode_reply, "texts within texts");
      expect_refused(Bytes(depth, kind), &decode_request, "texts within texts");
    }
  }
  for (const std::uint64_t length : {std::uint64_t{1} << 31, std::uint64_t{1} << 60, UINT64_MAX - 1, UINT64_MAX}) {
    for (const std::uint8_t kind : {0x5b, 0x7b, 0x9b, 0xbb}) {
      expect_refused(head(kind, length), &decode_request, "huge");
      Bytes within{0x82, 0x0b};  // Alive of something huge
      const Bytes huge = head(kind, length);
      within.insert(within.end(), huge.begin(), huge.end());
      expect_refused(within, &decode_request, "huge within");
      expect_refused(within, &decode_reply, "huge within");
    }
  }
  expect_refused({0x82, 0x0b, 0xf9, 0x3c, 0x00}, &decode_request, "a fraction for a number");
  expect_refused({0x82, 0x0b, 0xf5}, &decode_request, "true for a number");
  expect_refused({0x82, 0x18, 0x63, 0x00}, &decode_request, "message 99");
  expect_refused({0x82, 0x20, 0x00}, &decode_request, "message -1");
  expect_refused({0x81, 0x0b}, &decode_request, "too few members");
  expect_refused({0x83, 0x0b, 0x00, 0x00}, &decode_request, "too many members");
  expect_refused({0x0b}, &decode_request, "no array");
  expect_refused({}, &decode_request, "nothing");
}

TEST(Messages, RandomBytesAreRefusedOrRead) {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes(random() % 40);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    if (bytes.size() > 2) bytes[0] = static_cast<std::uint8_t>(0x80 + random() % 10), bytes[1] = random() % 12;
    try {
      (void)decode_request(bytes);
    } catch (const WireError&) {
    }
    try {
      (void)decode_reply(bytes);
    } catch (const WireError&) {
    }
  }
}

// From somebody who has the key: the host goes on, without him.
TEST(Membership, RefusesStepsAndGrainsThatNoRunHas) {
  const auto refused = [](const Request& request) {
    Membership job("", "{}", 1);
    Replies replies;
    job.join(1, {"i", "a", "c"}, replies);
    job.request(1, Regroup{0, {}, true}, replies);
    EXPECT_EQ(job.generation(), 1);
    try {
      job.request(1, request, replies);
      return false;
    } catch (const WireError&) {
      return true;
    }
  };
  EXPECT_TRUE(refused(Finish{1, 1, 0, {}, false, {}, {}, 0}));  // nobody holds a grain of none
  EXPECT_TRUE(refused(Finish{1, 1, -1, {}, false, {}, {}, 0}));
  EXPECT_TRUE(refused(Finish{1, INT64_MAX, 1, {0}, false, {}, {}, 0}));
  EXPECT_TRUE(refused(Finish{1, -1, 1, {0}, false, {}, {}, 0}));
  EXPECT_TRUE(refused(Regroup{INT64_MAX, {}, true}));
  EXPECT_TRUE(refused(Claim{1, 1, 0, false}));
  EXPECT_FALSE(refused(Finish{1, 1, 1, {0}, false, {}, {}, 0}));
}

// What each of `workers` members of the first group gets who claims `claims` in turn, from the first on.
std::vector<std::vector<std::int64_t>> granted(int workers, const std::vector<Claim>& claims) {
  Membership job("", "{}", workers);
  Replies replies;
  for (int id = 1; id <= workers; ++id) job.join(id, {"i", "a", "c"}, replies);
  for (int id = 1; id <= workers; ++id) job.request(id, Regroup{0, {}, true}, replies);
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    replies.clear();
    job.request(static_cast<WorkerId>(i) % workers + 1, claims[i], replies);
    const auto grains = std::get<Granted>(replies.at(0).second);
    all.push_back(grains.further);
    if (grains.index) all.back().insert(all.back().begin(), *grains.index);
  }
  return all;
}

TEST(Membership, AClaimBringsWhatIsWantedAndNoMoreThanHalfAnEvenShare) {
  using Grants = std::vector<std::vector<std::int64_t>>;
  // Two workers: a quarter of what is left, then one at a time.
  EXPECT_EQ(granted(2, {{1, 1, 12, false, 100}, {1, 1, 12, false, 100}, {1, 1, 12, false, 1}, {1, 1, 12, false, 0}}),
            (Grants{{0, 1, 2}, {3, 4}, {5}, {6}}));
  EXPECT_EQ(granted(2, {{1, 1, 3, false, 100}}), (Grants{{0}}));
  // Alone: all that is wanted.
  EXPECT_EQ(granted(1, {{1, 1, 4, false, 3}, {1, 1, 4, true, 3}, {1, 1, 4, false, INT64_MAX}}),
            (Grants{{0, 1, 2}, {}, {3}}));
  EXPECT_EQ(granted(1, {{1, 1, 4, false, -5}, {1, 1, 4, false, 100}}), (Grants{{0}, {1, 2, 3}}));
  // Of the next step one, once none of this is left.
  EXPECT_EQ(granted(1, {{1, 1, 2, false, 2}, {1, 2, 2, true, 100}, {1, 2, 2, true, 100}}), (Grants{{0, 1}, {0}, {1}}));
}

TEST(Membership, GrainsOfABatchComeBack) {
  Membership job("", "{}", 1);
  Replies replies;
  job.join(1, {"i", "a", "c"}, replies);
  job.request(1, Regroup{0, {}, true}, replies);
  job.request(1, Claim{1, 1, 5, false, 4}, replies);
  EXPECT_EQ(job.granted(), 4);
  for (const std::int64_t grain : {2, 3, 3, 4}) job.request(1, GiveBack{1, 1, grain}, replies);  // 4 was never given
  EXPECT_EQ(job.granted(), 2);
  replies.clear();
  job.request(1, Claim{1, 1, 5, false, 100}, replies);
  const auto again = std::get<Granted>(replies.at(0).second);
  EXPECT_EQ(again.index, 3);
  EXPECT_EQ(again.further, (std::vector<std::int64_t>{2, 4}));
}

}  // namespace
}  // namespace isobit::scale
