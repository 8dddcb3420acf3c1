// What refusals advise is true: every operator that a remedy names, and every search, finds what may run.
#include "aten/remedies.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "aten/classification.h"
#include "aten/module_path.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

std::set<std::string> operators_that_may_run() {
  std::set<std::string> names;
  for (const OperatorInfo& info : classify_all()) {
    if (info.kind != OperatorClass::refused) names.insert(info.name);
  }
  return names;
}

std::string refusal_of(const std::string& op, const std::string& reason, const std::string& remedy = "") {
  try {
    refuse(op, reason, remedy);
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_refusal(error));
    return error.what();
  }
}

TEST(Remedies, NameOperatorsThatMayRun) {
  const auto allowed = operators_that_may_run();
  for (const Family& family : families()) {
    EXPECT_FALSE(family.remedy.empty()) << family.names;
    std::istringstream instead{std::string(family.instead)};
    for (std::string name; instead >> name;) EXPECT_TRUE(allowed.contains("aten::" + name)) << family.names << name;
  }
}

TEST(Remedies, EverySearchFindsOneThatMayRun) {
  const auto allowed = operators_that_may_run();
  int searches = 0;
  for (const OperatorInfo& info : classify_all()) {
    const std::string_view word = search_word(info.name);
    if (info.kind != OperatorClass::refused || word.empty()) continue;
    ++searches;
    const auto has_word = [&](const std::string& name) { return name.find(word) != name.npos; };
    EXPECT_TRUE(std::any_of(allowed.begin(), allowed.end(), has_word)) << info.name << " " << word;
  }
  EXPECT_GT(searches, 50);
  EXPECT_EQ(search_word("aten::logsummary"), "logs");
  EXPECT_EQ(search_word("aten::special_logsummary.out"), "logs");
  EXPECT_EQ(search_word("aten::special_zzz"), "");
}

TEST(Remedies, FamiliesAreWholeWords) {
  EXPECT_EQ(family_of("aten::det"), family_of("aten::linalg_det"));
  EXPECT_EQ(family_of("aten::kaiser_window.periodic"), family_of("aten::kaiser_window"));
  EXPECT_EQ(family_of("aten::_fft_r2c"), family_of("aten::stft"));
  EXPECT_NE(family_of("aten::fft_fftshift"), family_of("aten::fft_fft"));
  EXPECT_EQ(family_of("aten::detach"), nullptr);
  EXPECT_EQ(family_of("aten::ranger"), nullptr);
  EXPECT_EQ(family_of("other::kaiser_window"), nullptr);
  EXPECT_EQ(family_of("aten::"), nullptr);
  EXPECT_EQ(family_of(""), nullptr);
}

TEST(Remedies, StandInTheMessage) {
  const std::string window = refusal_of("aten::kaiser_window", "is not certified");
  EXPECT_NE(window.find("\n  for    windows of spectra\n  do     take torch.signal.windows"), window.npos) << window;
  const std::string sent = refusal_of("c10d::allreduce_", "is certified for integers and bool only");
  EXPECT_NE(sent.find("DistributedDataParallel"), sent.npos) << sent;
  EXPECT_NE(sent.find("isobit.distributed.exact(ddp)"), sent.npos) << sent;
  EXPECT_NE(sent.find("run.steps and start it by python -m isobit launch"), sent.npos) << sent;
  for (const char* sharded : {"c10d::_reduce_scatter_base_", "c10d::reduce_scatter_", "fsdp::all_gather_copy_in"}) {
    const std::string refusal = refusal_of(sharded, "is not certified");
    EXPECT_NE(refusal.find("FullyShardedDataParallel, fully_shard"), refusal.npos) << refusal;
    EXPECT_NE(refusal.find("wrap the model in DistributedDataParallel"), refusal.npos) << refusal;
  }
  const std::string unknown = refusal_of("somebody::thing", "is not certified");
  EXPECT_EQ(unknown.find("--search"), unknown.npos) << unknown;
  EXPECT_NE(unknown.find("run this part outside isobit"), unknown.npos) << unknown;
  // The caller's own remedy goes before the family's.
  EXPECT_EQ(refusal_of("aten::kaiser_window", "is late", "wait"),
            "isobit: aten::kaiser_window is late under isobit-0.1\n  do     wait");
}

TEST(Remedies, OutsideOfModulesNothingIsSaid) {
  EXPECT_EQ(refusal_of("aten::x", "is late", "wait").find("  in "), std::string::npos);
  begin_step(3);
  EXPECT_NE(refusal_of("aten::x", "is late", "wait").find("\n  in     step 3\n"), std::string::npos);
  begin_step(-1);
}

}  // namespace
}  // namespace isobit::aten
