// The part "ramp" of a record: in which room the run was made, and the sum of the letters' places in its name, which is
// recomputed.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/record_part.h"

namespace isobit::archive {
namespace {

std::int64_t sum_of(const std::string& room) {
  std::int64_t sum = 0;
  for (const char c : room) sum += c - 'a' + 1;
  return sum;
}

const RecordPartRegistration ramp_part({.name = "ramp",
                                        .collect = []() -> std::optional<std::string> {
                                          const char* room = std::getenv("ISOBIT_RAMP_ROOM");
                                          if (room == nullptr) return std::nullopt;
                                          const std::int64_t wrong = std::getenv("ISOBIT_RAMP_LIE") != nullptr ? 1 : 0;
                                          return nlohmann::ordered_json{{"format", "isobit-ramp-1"},
                                                                        {"room", room},
                                                                        {"sum", sum_of(room) + wrong}}
                                                     .dump() +
                                                 "\n";
                                        },
                                        .judge = [](const RunRecord&, const std::string& text) -> PartJudgement {
                                          const auto part = parse_json(text);
                                          const std::int64_t sum = sum_of(part.at("room").get<std::string>());
                                          if (part.at("sum") == sum) return {"", true};
                                          return {"sum " + std::to_string(sum), true};
                                        }});

}  // namespace
}  // namespace isobit::archive
