#include "archive/run_index.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "archive/cache_database.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

// A summary as text: fields one after the other, each with its length before it ("4:name"). Numbers are decimal, values
// of metrics the bits of their binary64 in hexadecimal. Ten thousand are read in some hundredths of a second.
class FieldWriter {
 public:
  void add(std::string_view field) { text_.append(std::to_string(field.size())).append(1, ':').append(field); }
  void add(std::int64_t number) { add(std::to_string(number)); }
  void add_bits(double value) { add(fmt::format("{:x}", std::bit_cast<std::uint64_t>(value))); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : rest_(text) {}

  std::string_view text() {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
    const auto digits = static_cast<std::size_t>(end - rest_.data());
    if (error != std::errc() || digits == rest_.size() || *end != ':' || size > rest_.size() - digits - 1)
      throw std::invalid_argument("no field");
    const std::string_view field = rest_.substr(digits + 1, size);
    rest_.remove_prefix(digits + 1 + size);
    return field;
  }
  std::int64_t number() { return parse<std::int64_t>(10); }
  double value() { return std::bit_cast<double>(parse<std::uint64_t>(16)); }
  [[nodiscard]] bool done() const { return rest_.empty(); }

 private:
  template <class Number>
  Number parse(int base) {
    const std::string_view field = text();
    Number number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number, base);
    if (error != std::errc() || end != field.data() + field.size()) throw std::invalid_argument("no number");
    return number;
  }

  std::string_view rest_;
};

std::string to_text(const RunSummary& summary) {
  FieldWriter out;
  for (const std::string* field : {&summary.id, &summary.name, &summary.contract, &summary.created, &summary.weights,
                                   &summary.weights_sha256, &summary.note})
    out.add(*field);
  out.add(static_cast<std::int64_t>(summary.state));
  out.add(summary.steps);
  for (const MetricsLine& line : summary.metrics) {
    out.add(line.set);
    out.add(line.step);
    out.add(line.epoch);
    out.add(static_cast<std::int64_t>(line.values.size()));
    for (const auto& [name, value] : line.values) {
      out.add(name);
      out.add_bits(value);
    }
  }
  return out.take();
}

RunState state_of(std::int64_t state) {
  if (state < static_cast<int>(RunState::running) || state > static_cast<int>(RunState::damaged))
    throw std::invalid_argument("no state");
  return static_cast<RunState>(state);
}

RunSummary from_text(std::string_view text) {
  FieldReader in(text);
  RunSummary summary;
  for (std::string* field : {&summary.id, &summary.name, &summary.contract, &summary.created, &summary.weights,
                             &summary.weights_sha256, &summary.note})
    *field = in.text();
  summary.state = state_of(in.number());
  summary.steps = in.number();
  while (!in.done()) {
    MetricsLine line;
    line.set = in.text();
    line.step = in.number();
    line.epoch = in.number();
    for (std::int64_t left = in.number(); left > 0; --left) {
      std::string name(in.text());
      line.values.emplace_hint(line.values.end(), std::move(name), in.value());
    }
    summary.metrics.push_back(std::move(line));
  }
  return summary;
}

void bind_text(sqlite3_stmt* statement, int place, const std::string& text) {
  sqlite3_bind_text(statement, place, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

std::string column(sqlite3_stmt* statement, int place) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, place));
  if (text == nullptr) return "";
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(statement, place))};
}

Database open_database(const fs::path& file, bool& busy) {
  return open_cache(file,
                    {"isobit-index-2",
                     "CREATE TABLE IF NOT EXISTS runs (archive TEXT NOT NULL, id TEXT NOT NULL, stamp TEXT NOT NULL,"
                     " summary TEXT NOT NULL, check_sum INTEGER NOT NULL, PRIMARY KEY (archive, id)) WITHOUT ROWID;",
                     {"SELECT archive, id, stamp, summary, check_sum FROM runs"}},
                    busy);
}

}  // namespace

// FNV-1a over what the row says, eight bytes at a time.
std::int64_t row_check_sum(std::string_view id, std::string_view stamp, std::string_view summary) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3ull;
    hash ^= hash >> 32;  // what a product moves up comes down again
  };
  for (std::string_view text : {id, stamp, summary}) {
    add(text.size());
    for (; text.size() >= 8; text.remove_prefix(8)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data(), 8);
      add(word);
    }
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  return static_cast<std::int64_t>(hash);
}

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
    sqlite3_bind_int64(insert.get(), 5, row_check_sum(row.id, row.stamp, row.summary));
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
    if (row->second.check_sum != row_check_sum(id, stamp, text)) return std::nullopt;
    return from_text(text);
  } catch (const std::exception&) {  // a row we cannot read is a row we do not have
    return std::nullopt;
  }
}

void RunIndex::put(const std::string& id, const std::string& stamp, const RunSummary& summary) noexcept {
  if (!usable()) return;
  try {
    impl_->fresh.push_back({id, stamp, to_text(summary)});
  } catch (const std::exception&) {  // what is not cached is read again
  }
}

}  // namespace isobit::archive
