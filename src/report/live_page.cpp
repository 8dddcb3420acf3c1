#include "report/live_page.h"

#include <algorithm>

#include "archive/files.h"
#include "archive/run_state.h"
#include "archive/user_error.h"
#include "report/page.h"

namespace isobit::report {

namespace fs = std::filesystem;

LivePage::LivePage(fs::path archive, std::vector<fs::path> folders, std::chrono::milliseconds rest)
    : archive_(std::move(archive)), folders_(std::move(folders)), rest_(rest) {}

std::vector<fs::path> LivePage::newest() const {
  std::vector<std::string> names = archive::names_in(archive_);  // ids begin with the time
  std::vector<fs::path> found;
  for (auto name = names.rbegin(); name != names.rend() && found.size() < kMostRuns; ++name) {
    if (!name->starts_with('.') && archive::is_there(archive_ / *name / archive::kStateFile))
      found.push_back(archive_ / *name);
  }
  return found;
}

void LivePage::refresh() {
  const auto now = std::chrono::steady_clock::now();
  if (version_ > 0 && now - looked_ < rest_) return;
  ReportParts parts;
  std::map<fs::path, Cached> cache;
  for (const fs::path& folder : folders_.empty() ? newest() : folders_) {
    const std::string stamp = stamp_of_run(folder);
    const auto before = cache_.find(folder);
    Cached& run = cache[folder];
    run = before != cache_.end() && before->second.stamp == stamp ? std::move(before->second)
                                                                  : Cached{stamp, read_run(folder)};
    parts.runs.push_back(run.entry);
  }
  cache_ = std::move(cache);
  if (folders_.empty()) parts.title = "Runs in " + archive_.string();
  Json document = report::document(parts);
  std::string whole = document.dump(-1, ' ', true, Json::error_handler_t::replace);
  looked_ = std::chrono::steady_clock::now();
  if (whole == whole_) return;
  version_ += 1;
  std::map<std::string, std::string> texts;
  for (const Json& run : document["runs"]) {
    const auto id = run["id"].get<std::string>();
    texts[id] = run.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (!texts_.contains(id) || texts_[id] != texts[id]) changed_[id] = version_;
  }
  texts_ = std::move(texts);
  whole_ = std::move(whole);
  document_ = std::move(document);
  document_["live"] = {{"version", version_}};
}

std::string LivePage::html() {
  refresh();
  return page(document_, {.live = true});
}

std::string LivePage::changes(std::int64_t since) {
  refresh();
  Json answer = document_;
  for (Json& run : answer["runs"]) {
    const auto id = run["id"].get<std::string>();
    if (since > 0 && changed_[id] <= since) run = {{"id", id}, {"unchanged", true}};
  }
  return answer.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace isobit::report
