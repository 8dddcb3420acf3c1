// What the processes of a job hear: messages, a worker's state, frames, addresses, and a host to whom several workers
// say anything in any order. The first byte says which.
#include <algorithm>
#include <utility>

#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "scale/channel.h"
#include "scale/membership.h"
#include "scale/messages.h"
#include "scale/state_message.h"

namespace isobit::fuzz {
namespace {

using namespace scale;

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(char kind, const Bytes& bytes) { return kind + std::string(bytes.begin(), bytes.end()); }

// A WireError is the only refusal.
template <class Decode>
void read_message(const Bytes& bytes, const Decode& decode) {
  try {
    const auto message = decode(bytes);
    const Bytes written = encode(message);
    require(encode(decode(written)) == written, "a message that is read is written");
  } catch (const WireError&) {
  }
}

void read_state(const Bytes& bytes) {
  try {
    const DecodedState state = decode_state(bytes);
    require(encode_state(state.steps_done, state.sums, state.result.get(), state.notes) == bytes,
            "a state has one spelling");
  } catch (const WireError&) {
  }
}

// Of the other side, without the key: never ready, whatever is said in whatever pieces.
void greet(Frames::Side side, std::string_view text, std::size_t piece) {
  Frames frames(side, std::string(64, 'a'));
  try {
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
      const Bytes bytes = bytes_of(text.substr(0, piece));
      frames.received(bytes.data(), bytes.size());
    }
  } catch (const WireError&) {
  }
  require(!frames.ready() && !frames.next(), "nobody gets in without the key");
}

// Two who have the key; of what one sends, one byte is altered on its way.
void alter(std::string_view text) {
  const std::string key(64, 'a');
  Frames host(Frames::Side::host, key), worker(Frames::Side::worker, key);
  const auto carry = [](Frames& from, Frames& to) {
    const Bytes bytes = std::exchange(from.outgoing(), {});
    to.received(bytes.data(), bytes.size());
  };
  carry(host, worker), carry(worker, host), carry(host, worker);
  require(host.ready() && worker.ready(), "who has the key gets in");
  const auto change = text.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(text[0]);
  const Bytes content = bytes_of(text.substr(std::min<std::size_t>(1, text.size())));
  worker.send(content);
  Bytes travels = std::exchange(worker.outgoing(), {});
  std::uint8_t& byte = travels[(change * std::size_t{31}) % travels.size()];
  byte = static_cast<std::uint8_t>(byte ^ change);
  host.received(travels.data(), travels.size());
  std::optional<Bytes> delivered;
  try {
    delivered = host.next();
  } catch (const WireError&) {
  }
  require(change == 0 ? delivered == content : !delivered, "what was altered is not delivered, and all else is");
}

// Requests "worker, length, CBOR" one after the other; worker 7 is one who is gone.
void converse(std::string_view text) {
  Membership membership("", "{}", 2);
  Replies replies;
  while (text.size() >= 2) {
    const WorkerId id = text[0] & 3;
    const auto length = static_cast<unsigned char>(text[1]);
    const bool gone = (text[0] & 7) == 7;
    const Bytes bytes = bytes_of(text.substr(2, length));
    text.remove_prefix(std::min<std::size_t>(text.size(), 2 + length));
    try {
      const Request request = decode_request(bytes);
      if (gone) {
        membership.drop(id, replies);
      } else if (const auto* join = std::get_if<Join>(&request)) {
        membership.join(id, *join, replies);
      } else {
        membership.request(id, request, replies);
      }
    } catch (const WireError&) {
      membership.drop(id, replies);  // as the host does
    }
    for (const auto& [to, reply] : replies) static_cast<void>(encode(reply));
    replies.clear();
    require(membership.workers().size() <= 4, "nobody works who did not join");
  }
}

std::string spoken(std::initializer_list<std::pair<char, Request>> requests) {
  std::string text = "6";
  for (const auto& [id, request] : requests) {
    const Bytes bytes = encode(request);
    text += id;
    text += text_of(static_cast<char>(bytes.size()), bytes);
  }
  return text;
}

}  // namespace

void run_messages(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  switch (input[0] & 7) {
    case 0: return read_message(bytes_of(text), decode_request);
    case 1: return read_message(bytes_of(text), decode_reply);
    case 2: return read_state(bytes_of(text));
    case 3: return greet(Frames::Side::host, text, 1 + text.size() % 50);
    case 4: return greet(Frames::Side::worker, text, 1 + text.size() % 50);
    case 5: return alter(text);
    case 6: return converse(text);
    default: break;
  }
  accepts([&] {
    const Address address = parse_address(std::string(text), "--join");
    require(!address.host.empty() && address.port >= 0 && address.port <= 65535, "an address has host and port");
  });
}

std::vector<std::string> messages_seeds() {
  const Failure failure{Failure::Kind::user_error, 3, "model.bias", "is not \xc3\xa4", "say more"};
  const Request finish = Finish{1, 1, 3, {0, 2}, true, failure, {0, 4, 255}, std::int64_t{1} << 40};
  train::EpochSums sums{0.5, 3, 7, {4, 7, 0.25}, false};
  train::StepResult result{{3, 1, 2, 4, true}, 1e-3, 0.5f, 2, {1, ~std::uint64_t{0}}};
  return {text_of('0', encode(Request(Join{"isobit-0.1, data 12", "node:7", "a CPU"}))),
          text_of('0', encode(finish)),
          text_of('0', encode(Request(ClaimPart{1, 2, 3, PartResult{2, {1, 2, 3}}}))),
          text_of('1', encode(Reply(Formed{2, 1, 3, 0, 4, 2, 17, {0, 1}, false, true}))),
          text_of('1', encode(Reply(Reduce{{1, 0, 3}, {8, 0, 9}, {1, 2}, true}))),
          text_of('2', encode_state(3, sums, &result, "[0,0,[]]")),
          text_of('2', encode_state(3, sums, nullptr, "")),
          "3" + std::string(64, 'x'),
          "4isobit1\n" + std::string(64, 'x'),
          "5" + std::string(1, '\0') + "content",
          "5acontent",
          spoken({{'\0', Join{"i", "a", "c"}},
                  {'\1', Join{"i", "b", "c"}},
                  {'\0', Regroup{0, {}, true}},
                  {'\1', Regroup{0, {}, true}},
                  {'\0', Claim{1, 1, 2, false}},
                  {'\1', Claim{1, 1, 2, false}},
                  {'\0', Finish{1, 1, 2, {0}, false, {}, {1}, 8}},
                  {'\1', Finish{1, 1, 2, {1}, false, {}, {1}, 8}},
                  {'\0', ClaimPart{1, 1, 2, {}}},
                  {'\0', ClaimPart{1, 1, 2, PartResult{0, {1}}}},
                  {'\1', Evaluated{1, 1}},
                  {'\1', End{1, true}}}),
          spoken({{'\0', Join{"i", "a", "c"}},
                  {'\1', Join{"i", "b", "c"}},
                  {'\0', Regroup{INT64_MAX, {0, 1}, true}},
                  {'\1', Regroup{-1, {1}, true}},
                  {'\1', Lost{1, "gone"}},
                  {'\0', Claim{1, 1, 131072, true}}}),
          "710.0.0.1:29400",
          "7[::1]:29400"};
}

}  // namespace isobit::fuzz
