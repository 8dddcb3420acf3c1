// Where two recorded runs part, by executing both again: `isobit trace` as a child for each, around the first step that
// differs, until an operator is found that gave other outputs for the same inputs. Without torch here the children say
// why they cannot; so does Diff::not_looked_into then. Errors are never thrown for what cannot be executed.
#pragma once

#include <string>

#include "study/diff.h"

namespace isobit::study {

struct AgainOptions {
  std::string data;    // folder of the data files, if they moved; "": as recorded
  bool quiet = false;  // no progress on stderr
};

// Fills first_operator, compared.operators, notes and not_looked_into of `diff`, which is that of `a` and `b`.
void find_operator(const study::ComparedRun& a, const study::ComparedRun& b, const AgainOptions& options,
                   study::Diff& diff);

}  // namespace isobit::study
