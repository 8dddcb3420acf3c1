#include "archive/run_index.h"

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/cache_database.h"
#include "archive/json_text.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Infinities and NaN have no number in JSON: texts, as in the logs.
Json number(double value) {
  if (value != value) return "nan";
  if (value - value != 0) return value > 0 ? "inf" : "-inf";
  return value;
}
double number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return std::strtod(value.get_ref<const std::string&>().c_str(), nullptr);
}

std::string to_json(const RunSummary& summary) {
  Json metrics = Json::array();
  for (const MetricsLine& line : summary.metrics) {
    Json values = Json::object();
    for (const auto& [name, value] : line.values) values[name] = number(value);
    metrics.push_back({{"step", line.step}, {"epoch", line.epoch}, {"set", line.set}, {"values", values}});
  }
  return Json{{"id", summary.id},
              {"name", summary.name},
              {"state", static_cast<int>(summary.state)},
              {"contract", summary.contract},
              {"created", summary.created},
              {"steps", summary.steps},
              {"weights", summary.weights},
              {"weights_sha256", summary.weights_sha256},
              {"metrics", metrics},
              {"note", summary.note}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

RunState state_of(const Json& value) {
  const int state = integer<int>(value);
  if (state < static_cast<int>(RunState::running) || state > static_cast<int>(RunState::damaged))
    throw std::invalid_argument("no state");
  return static_cast<RunState>(state);
}

RunSummary from_json(const std::string& text) {
  const Json object = parse_json(text);
  RunSummary summary{object.at("id"),       object.at("name"),           state_of(object.at("state")),
                     object.at("contract"), object.at("created"),        integer<std::int64_t>(object.at("steps")),
                     object.at("weights"),  object.at("weights_sha256"), {},
                     object.at("note")};
  for (const Json& line : object.at("metrics")) {
    MetricsLine metrics{
        integer<std::int64_t>(line.at("step")), integer<std::int64_t>(line.at("epoch")), line.at("set"), {}};
    for (const auto& [name, value] : line.at("values").items()) metrics.values[name] = number(value);
    summary.metrics.push_back(std::move(metrics));
  }
  return summary;
}

void bind_text(sqlite3_stmt* statement, int place, const std::string& text) {
  sqlite3_bind_text(statement, place, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

std::string column(sqlite3_stmt* statement, int place) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, place));
  return text == nullptr ? "" : text;
}

Database open_database(const fs::path& file, bool& busy) {
  return open_cache(file,
                    {"isobit-index-1",
                     "CREATE TABLE IF NOT EXISTS runs (archive TEXT NOT NULL, id TEXT NOT NULL, stamp TEXT NOT NULL,"
                     " summary TEXT NOT NULL, check_sum INTEGER NOT NULL, PRIMARY KEY (archive, id));",
                     {"SELECT archive, id, stamp, summary, check_sum FROM runs"}},
                    busy);
}

// A row that rotted on disk must not be believed: FNV-1a over what it says.
std::int64_t check_sum(const std::string& id, const std::string& stamp, const std::string& summary) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const std::string* text : {&id, &stamp, &summary}) {
    for (const char c : *text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    hash = (hash ^ 0xff) * 0x100000001b3ull;
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace

struct RunIndex::Impl {
  struct Row {
    std::string id, stamp, summary;
  };
  struct Known {
    std::string stamp, summary;
    std::int64_t check_sum = 0;
  };
  void write();
  void read();

  Database database;
  std::string archive;
  std::unordered_map<std::string, Known> known;  // by id: all rows of the archive, read at once
  bool read_already = false;
  std::vector<Row> fresh;  // written at the end, in one short transaction
};

fs::path index_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return fs::path(cache) / "isobit" / "index.sqlite";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return fs::path(home) / ".cache" / "isobit" / "index.sqlite";
  return {};
}

RunIndex::RunIndex(const fs::path& file, const fs::path& runs) noexcept {
  try {
    impl_ = std::make_unique<Impl>();
    if (file.empty()) return;
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) return;
    impl_->archive = fs::weakly_canonical(runs).string();
    bool busy = false;
    impl_->database = open_database(file, busy);
    if (impl_->database || busy) return;
    // Damaged, or of another version: made anew. A process that has it open goes on with the removed file.
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(file.string() + suffix, error);
    impl_->database = open_database(file, busy);
  } catch (const std::exception&) {
    if (impl_) impl_->database.reset();
  }
}

void RunIndex::Impl::write() {
  sqlite3* raw = database.get();
  if (sqlite3_exec(raw, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) return;
  for (const Row& row : fresh) {
    const Statement insert = prepare(raw, "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)");
    if (!insert) break;
    bind_text(insert.get(), 1, archive);
    bind_text(insert.get(), 2, row.id);
    bind_text(insert.get(), 3, row.stamp);
    bind_text(insert.get(), 4, row.summary);
    sqlite3_bind_int64(insert.get(), 5, check_sum(row.id, row.stamp, row.summary));
    sqlite3_step(insert.get());
  }
  sqlite3_exec(raw, "COMMIT", nullptr, nullptr, nullptr);
}

// One statement for ten thousand runs, and not ten thousand.
void RunIndex::Impl::read() {
  read_already = true;
  const Statement select = prepare(database.get(), "SELECT id, stamp, summary, check_sum FROM runs WHERE archive = ?");
  if (!select) return;
  bind_text(select.get(), 1, archive);
  while (sqlite3_step(select.get()) == SQLITE_ROW) {
    known[column(select.get(), 0)] = {column(select.get(), 1), column(select.get(), 2),
                                      sqlite3_column_int64(select.get(), 3)};
  }
}

RunIndex::~RunIndex() {
  try {
    if (usable() && !impl_->fresh.empty()) impl_->write();
  } catch (const std::exception&) {  // what is not cached is read again
  }
}

bool RunIndex::usable() const noexcept { return impl_ && impl_->database; }

std::optional<RunSummary> RunIndex::find(const std::string& id, const std::string& stamp) noexcept {
  if (!usable()) return std::nullopt;
  try {
    if (!impl_->read_already) impl_->read();
    const auto row = impl_->known.find(id);
    if (row == impl_->known.end() || row->second.stamp != stamp) return std::nullopt;
    const std::string& text = row->second.summary;
    if (row->second.check_sum != check_sum(id, stamp, text)) return std::nullopt;
    return from_json(text);
  } catch (const std::exception&) {  // a row we cannot read is a row we do not have
    return std::nullopt;
  }
}

void RunIndex::put(const std::string& id, const std::string& stamp, const RunSummary& summary) noexcept {
  if (!usable()) return;
  try {
    impl_->fresh.push_back({id, stamp, to_json(summary)});
  } catch (const std::exception&) {  // what is not cached is read again
  }
}

}  // namespace isobit::archive
