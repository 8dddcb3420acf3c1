// What workers and the host of a job say to each other (docs/design/workers.md).
//
// A worker asks, the host replies, at once or when the others have come as far. Plain values; encoded as CBOR (RFC
// 8949) objects, read strictly: WireError for anything else. No torch.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace isobit::scale {

// The other side broke off, is silent, or says what nobody says here.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Bytes = std::vector<std::uint8_t>;

// Why a job ends early; of several the first grain's is taken, so that it is the one of a single worker.
struct Failure {
  enum class Kind { not_finite, user_error, other };
  Kind kind = Kind::other;
  std::int64_t grain = 0;
  std::string place, message, remedy;

  friend bool operator==(const Failure&, const Failure&) = default;
};

// ---- a worker's requests

struct Join {
  std::string identity;  // what all workers of a job have in common: differences are refused, naming both
  std::string name;      // for people: "host:pid"
  std::string cpu;       // for people: what computes
};
// Ready for a new group. `held`: grains of step steps_done + 1 in the sums it keeps.
struct Regroup {
  std::int64_t steps_done = 0;
  std::vector<std::int64_t> held;
  bool can_record = false;
};
struct Claim {
  std::int64_t generation = 0, step = 0, grains = 0;
  bool ahead = false;
  std::int64_t most = 1;  // that are wanted at once: what this worker computes in a short time
};
// A grain that was claimed and is not computed.
struct GiveBack {
  std::int64_t generation = 0, step = 0, grain = 0;
};
// The worker knows of no grain left. `held`: of this step; none of them: a step that everybody computes alone.
struct Finish {
  std::int64_t generation = 0, step = 0, grains = 0;
  std::vector<std::int64_t> held;
  bool stop = false;
  std::optional<Failure> failure;
  Bytes tops;               // by parameter, the top limb + 8; empty without grains
  std::int64_t packed = 0;  // bytes of what else the grains left
};
// An exchange with the group failed.
struct Lost {
  std::int64_t generation = 0;
  std::string why;
};
struct PartResult {
  std::int64_t index = 0;
  Bytes value;
};
// A part of an evaluation after `step` to be computed; brings the one before.
struct ClaimPart {
  std::int64_t generation = 0, step = 0, parts = 0;
  std::optional<PartResult> done;
};
// All parts, once they are there.
struct Evaluated {
  std::int64_t generation = 0, step = 0;
};
// Nothing is left to compute; the recorder says it when the record is complete.
struct End {
  std::int64_t generation = 0;
  bool recorded = false;
};
struct Fail {
  Failure failure;
};
// The group's meeting point.
struct Put {
  std::string key;
  Bytes value;
};
struct Get {
  std::string key;
};
// What a worker is at, for people.
struct Alive {
  std::int64_t grains = 0;  // computed so far
};

using Request =
    std::variant<Join, Regroup, Claim, Finish, Lost, ClaimPart, Evaluated, End, Fail, Put, Get, Alive, GiveBack>;

// ---- the host's replies

struct Admitted {
  std::int64_t id = 0;
  std::string job;  // JSON: the experiment and how it is recorded
};
struct Refused {
  std::string why;
};
struct Formed {
  std::int64_t generation = 0, rank = 0, size = 0;
  std::int64_t recorder = 0, recordings = 0;  // rank; how often the recorder has changed
  std::int64_t source = 0, steps_done = 0;    // the rank that is farthest, and how far that is
  std::vector<std::int64_t> behind;           // ranks that are not as far
  bool keep = true;                           // the sums held
  bool stop = false;
};
// Nothing: none is left, or none ahead. `further`: grains of the same step, no more than were asked for in all.
struct Granted {
  std::optional<std::int64_t> index;
  std::vector<std::int64_t> further;
};
struct Reduce {
  std::vector<std::int64_t> counts;  // by rank: grains held
  std::vector<std::int64_t> packed;  // by rank
  Bytes tops;                        // of all
  bool stop = false;
};
struct AllParts {
  std::vector<Bytes> values;  // by index
};
// The group is no more: Regroup.
struct Again {};
struct Failed {
  Failure failure;
};
struct Value {
  Bytes value;
};
struct Done {};

using Reply = std::variant<Admitted, Refused, Formed, Granted, Reduce, AllParts, Again, Failed, Value, Done>;

[[nodiscard]] Bytes encode(const Request& request);
[[nodiscard]] Bytes encode(const Reply& reply);
[[nodiscard]] Request decode_request(const Bytes& bytes);
[[nodiscard]] Reply decode_reply(const Bytes& bytes);

}  // namespace isobit::scale
