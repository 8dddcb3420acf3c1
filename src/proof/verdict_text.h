// What `isobit verify` says at its end: one line for people, one JSON object for programs (docs/cli.md). No state;
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "archive/summary_text.h"
#include "train/verdict.h"

namespace isobit::proof {

// What is known when a verification ends, in whatever way.
struct Judgement {
  std::string folder;                     // "" until the run is found
  std::string recorded_weights;           // "" until the record is read
  std::string signer;                     // who signed the exported file; "" where nobody was asked for
  std::string settings;                   // how it was executed again: "2 threads, reference"
  std::string hint;                       // why it differs
  std::string script_output;              // what code from the record printed, escaped
  std::optional<train::Verdict> verdict;  // nothing: an error came first

  [[nodiscard]] bool judged() const { return verdict && !verdict->interrupted; }
};

// One line for people. Where nothing can be said it belongs on stderr. Precondition: there is a verdict.
[[nodiscard]] std::string sentence(const Judgement& judgement);

// Of what nothing was compared with: whoever recorded the run may have written there what he liked.
[[nodiscard]] std::vector<std::string> not_recomputed(const train::Verdict& verdict);

// Every key is always there. `message` is the line for people, or that of the error.
[[nodiscard]] archive::Json verdict_json(const Judgement& judgement, const std::string& message);

// Of such an object: what was compared, how far, and the first difference; nothing where it is no verdict. Throws
// std::exception where it is no such object.
[[nodiscard]] std::optional<train::Verdict> verdict_of_json(const archive::Json& object);

}  // namespace isobit::proof
