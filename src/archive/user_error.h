// The one exception for what a user can mend: bad input, missing or damaged files, a full disk.
//
// Carries a place (a file, a file with line and column, an option), the problem and the remedy. The command
// line prints "isobit: PLACE: PROBLEM (REMEDY)" on one line and ends with kUserErrorExit. Defects of the
// program are other exceptions. Immutable; thread-safe.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace isobit::archive {

inline constexpr int kUserErrorExit = 2;

class UserError : public std::runtime_error {
 public:
  // `place` and `remedy` may be empty.
  UserError(std::string place, std::string problem, std::string remedy)
      : std::runtime_error((place.empty() ? "" : place + ": ") + problem + (remedy.empty() ? "" : " (" + remedy + ")")),
        place_(std::move(place)),
        problem_(std::move(problem)),
        remedy_(std::move(remedy)) {}

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] const std::string& remedy() const { return remedy_; }

 private:
  std::string place_, problem_, remedy_;
};

}  // namespace isobit::archive
