#include "samples/digest_cache.h"

#include <algorithm>
#include <vector>

#include "archive/cache_database.h"
#include "archive/run_index.h"
#include "archive/sha256.h"

namespace isobit::samples {
namespace {

namespace fs = std::filesystem;

using archive::Database;
using archive::prepare;
using archive::Statement;

// What names a file, and what tells its content: device, inode, size, times.
struct Row {
  std::int64_t numbers[7];
  std::string sha256;
};

Row row_of(const struct stat& status, const std::string& sha256) {
  return {{static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
           static_cast<std::int64_t>(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
           status.st_ctim.tv_sec, status.st_ctim.tv_nsec},
          sha256};
}

// A row that rotted on disk must not be believed: FNV-1a over what it says.
std::int64_t check_sum(const Row& row) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto add = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3ull; };
  for (const std::int64_t number : row.numbers) {
    for (int shift = 0; shift < 64; shift += 8) add(static_cast<std::uint64_t>(number) >> shift & 0xff);
  }
  for (const char c : row.sha256) add(static_cast<unsigned char>(c));
  return static_cast<std::int64_t>(hash);
}

constexpr const char* kSelect =
    "SELECT sha256, check_sum FROM files WHERE device = ? AND inode = ? AND size = ? AND modified = ? AND"
    " modified_nanoseconds = ? AND changed = ? AND changed_nanoseconds = ?";
constexpr const char* kInsert = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

Database open_database(const fs::path& file, bool& busy) {
  return archive::open_cache(
      file,
      {"isobit-digests-1",
       "CREATE TABLE IF NOT EXISTS files (device INTEGER NOT NULL, inode INTEGER NOT NULL,"
       " size INTEGER NOT NULL, modified INTEGER NOT NULL, modified_nanoseconds INTEGER NOT NULL,"
       " changed INTEGER NOT NULL, changed_nanoseconds INTEGER NOT NULL, sha256 TEXT NOT NULL,"
       " check_sum INTEGER NOT NULL, PRIMARY KEY (device, inode));",
       {kSelect, kInsert}},
      busy);
}

void bind(sqlite3_stmt* statement, const Row& row) {
  for (int i = 0; i < 7; ++i) sqlite3_bind_int64(statement, i + 1, row.numbers[i]);
}

}  // namespace

struct DigestCache::Impl {
  void write() {
    sqlite3* const raw = database.get();
    if (sqlite3_exec(raw, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK) return;
    const Statement insert = prepare(raw, kInsert);
    for (const Row& row : fresh) {
      if (!insert) break;
      bind(insert.get(), row);
      sqlite3_bind_text(insert.get(), 8, row.sha256.data(), static_cast<int>(row.sha256.size()), SQLITE_TRANSIENT);
      sqlite3_bind_int64(insert.get(), 9, check_sum(row));
      sqlite3_step(insert.get());
      sqlite3_reset(insert.get());
    }
    sqlite3_exec(raw, "COMMIT", nullptr, nullptr, nullptr);
  }

  Database database;
  Statement select;  // goes before its database
  std::vector<Row> fresh;
};

fs::path digest_cache_path() {
  const fs::path index = archive::index_path();
  return index.empty() ? fs::path() : index.parent_path() / "digests.sqlite";
}

DigestCache::DigestCache(const fs::path& file) noexcept {
  try {
    impl_ = std::make_unique<Impl>();
    if (file.empty()) return;
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) return;
    bool busy = false;
    impl_->database = open_database(file, busy);
    if (!impl_->database && !busy) {
      // Damaged, or of another version: made anew. A process that has it open goes on with the removed file.
      for (const char* suffix : {"", "-journal", "-wal", "-shm"}) fs::remove(file.string() + suffix, error);
      impl_->database = open_database(file, busy);
    }
    if (impl_->database) impl_->select = prepare(impl_->database.get(), kSelect);
  } catch (const std::exception&) {
    impl_.reset();
  }
}

DigestCache::~DigestCache() {
  try {
    if (impl_ && impl_->database && !impl_->fresh.empty()) impl_->write();
  } catch (const std::exception&) {  // what is not cached is read again
  }
}

std::optional<std::string> DigestCache::find(const struct stat& status) noexcept {
  if (!impl_ || !impl_->select) return std::nullopt;
  try {
    sqlite3_stmt* const select = impl_->select.get();
    bind(select, row_of(status, ""));
    std::optional<std::string> found;
    if (sqlite3_step(select) == SQLITE_ROW) {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(select, 0));
      const std::string sha256 = text == nullptr ? "" : text;
      if (archive::is_hex(sha256, 64) && sqlite3_column_int64(select, 1) == check_sum(row_of(status, sha256)))
        found = sha256;
    }
    sqlite3_reset(select);
    return found;
  } catch (const std::exception&) {  // a row that cannot be read is one that is not there
    return std::nullopt;
  }
}

void DigestCache::put(const struct stat& status, const std::string& sha256) noexcept {
  if (!impl_ || !impl_->database) return;
  try {
    impl_->fresh.push_back(row_of(status, sha256));
  } catch (const std::exception&) {  // what is not cached is read again
  }
}

bool is_settled(const struct stat& status, std::int64_t now_seconds) {
  return std::max<std::int64_t>(status.st_mtim.tv_sec, status.st_ctim.tv_sec) + 2 < now_seconds;
}

bool is_same(const struct stat& a, const struct stat& b) {
  const Row first = row_of(a, ""), second = row_of(b, "");
  return std::equal(std::begin(first.numbers), std::end(first.numbers), std::begin(second.numbers));
}

}  // namespace isobit::samples
