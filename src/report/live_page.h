// The page of runs that go on: what it shows now, and what changed since.
//
// Every answer carries a version. A page that has version v asks for what came after it and gets the document with the
// runs that did not change as {"id", "unchanged": true}. Runs are read again only where their files look different, and
// not more often than `rest` apart. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "report/document.h"

namespace isobit::report {

class LivePage {
 public:
  static constexpr std::size_t kMostRuns = 40;

  // The runs at `folders`; where there are none, the newest kMostRuns of the archive, new ones among them.
  LivePage(std::filesystem::path archive, std::vector<std::filesystem::path> folders,
           std::chrono::milliseconds rest = std::chrono::milliseconds(900));

  [[nodiscard]] std::string html();
  // JSON; `since` of 0: everything.
  [[nodiscard]] std::string changes(std::int64_t since);

 private:
  struct Cached {
    std::string stamp;
    RunEntry entry;
  };
  void refresh();
  [[nodiscard]] std::vector<std::filesystem::path> newest() const;

  std::filesystem::path archive_;
  std::vector<std::filesystem::path> folders_;
  std::chrono::milliseconds rest_;
  std::chrono::steady_clock::time_point looked_{};
  std::map<std::filesystem::path, Cached> cache_;
  std::int64_t version_ = 0;
  Json document_;
  std::string whole_;                            // the document's text, to see whether anything changed
  std::map<std::string, std::string> texts_;     // of each run, by id
  std::map<std::string, std::int64_t> changed_;  // the version in which it changed last, by id
};

}  // namespace isobit::report
