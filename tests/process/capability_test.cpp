// The instruction set of stock PyTorch as a choice, and what of a stranger's environment is taken over into a process.
#include "process/capability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "archive/user_error.h"

namespace isobit::process {
namespace {

using Words = std::vector<std::string>;

TEST(Capability, LevelsAreThisCpusAndOthersAreRefusedByName) {
  const Words levels = capability_levels();
  ASSERT_EQ(levels.front(), "default");
  for (const char* const name : {"default", "avx2", "avx512"}) {
    const std::string level = name;
    const bool here = std::find(levels.begin(), levels.end(), level) != levels.end();
    try {
      expect_capability(level, "--capability " + level);
      EXPECT_TRUE(here);
    } catch (const archive::UserError& error) {
      EXPECT_FALSE(here);
      EXPECT_NE(std::string(error.what()).find("this CPU lacks " + level), std::string::npos);
    }
  }
  EXPECT_THROW(expect_capability("AVX2", "x"), archive::UserError);
  EXPECT_TRUE(capability_variables("avx1024").empty());
  EXPECT_TRUE(capability_variables("").empty());
  EXPECT_EQ(capability_variables("default")[0], "ATEN_CPU_CAPABILITY=default");
}

TEST(Capability, OnlyNamedVariablesWithPlainValuesLeaveARecord) {
  EXPECT_EQ(recorded_variables(R"({"variables": {"LD_PRELOAD": "evil.so", "PATH": "x", "ISOBIT_TORCH_DIR": "y",
    "LD_LIBRARY_PATH": "z", "MKL_CBWR": "AVX2,STRICT", "OMP_NUM_THREADS": "2; true", "ONEDNN_MAX_CPU_ISA": "../x",
    "ATEN_CPU_CAPABILITY": "default"}})"),
            (Words{"ATEN_CPU_CAPABILITY=default", "MKL_CBWR=AVX2,STRICT"}));
  for (const char* strange : {"", "[]", "{", "7", R"({"variables": 3, "run": []})", R"({"variables": {"MKL_CBWR": 3}})",
                              R"({"run": {"cpu_capability": 2}})", R"({"run": {"cpu_capability": "NEON"}})"}) {
    EXPECT_TRUE(recorded_variables(strange).empty()) << strange;
  }
}

TEST(Capability, ARecordedLevelIsAskedForWhereThisCpuWouldChooseAnother) {
  const std::string own = capability_levels().back();
  EXPECT_TRUE(recorded_variables(R"({"run": {"cpu_capability": ")" + own + "\"}}").empty());
  if (own != "default") {
    EXPECT_EQ(recorded_variables(R"({"run": {"cpu_capability": "DEFAULT"}})"), capability_variables("default"));
  }
}

TEST(Capability, AProcessThatHasTheVariablesGoesOn) {
  ::setenv("ISOBIT_TEST_VARIABLE", "one", 1);
  EXPECT_NO_THROW(require_variables({"ISOBIT_TEST_VARIABLE=one"}));
  EXPECT_THROW(require_variables({"ISOBIT_TEST_VARIABLE=two"}), BeginAnew);
  EXPECT_THROW(require_variables({"ISOBIT_TEST_NO_VARIABLE="}), BeginAnew);
  EXPECT_NO_THROW(require_variables({}));
}

}  // namespace
}  // namespace isobit::process
