#include "process/execution_place.h"

#include <gtest/gtest.h>

namespace isobit::process {
namespace {

using Words = std::vector<std::string>;

TEST(ExecutionPlace, TakesItsOptionOutOfTheLine) {
  EXPECT_EQ(without_option({"run", "--machine", "a", "x.toml"}, "--machine"), (Words{"run", "x.toml"}));
  EXPECT_EQ(without_option({"run", "--machine=a", "x.toml", "--machine", "b"}, "--machine"), (Words{"run", "x.toml"}));
  EXPECT_EQ(without_option({"run", "--machines", "a"}, "--machine"), (Words{"run", "--machines", "a"}));
  EXPECT_EQ(without_option({"run", "--machine"}, "--machine"), (Words{"run"}));
}

TEST(ExecutionPlace, LeavesAnotherProgramsWords) {
  EXPECT_EQ(without_option({"verify", "last", "--machine", "a", "--", "--machine", "b"}, "--machine"),
            (Words{"verify", "last", "--", "--machine", "b"}));
}

}  // namespace
}  // namespace isobit::process
