#include "archive/cache_database.h"

#include <string>

namespace isobit::archive {

Statement prepare(sqlite3* database, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, sql, -1, &statement, nullptr);
  return Statement(statement);
}

Database open_cache(const std::filesystem::path& file, const CacheSchema& schema, bool& busy) {
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(file.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(raw);
  if (opened != SQLITE_OK) return nullptr;
  sqlite3_busy_timeout(raw, 2000);
  // After a power failure it may be lost, but a commit need not wait for the disk.
  const std::string make =
      "PRAGMA synchronous=OFF; BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS about (schema TEXT"
      " PRIMARY KEY);" +
      std::string(schema.tables) + "INSERT OR IGNORE INTO about VALUES ('" + schema.name + "'); COMMIT;";
  const int code = sqlite3_exec(raw, make.c_str(), nullptr, nullptr, nullptr);
  busy = code == SQLITE_BUSY;
  if (code != SQLITE_OK) return nullptr;
  // Another version has left its own name beside ours; a foreign table lacks our columns.
  const Statement about = prepare(raw, "SELECT count(*) FROM about");
  if (!about || sqlite3_step(about.get()) != SQLITE_ROW || sqlite3_column_int64(about.get(), 0) != 1) return nullptr;
  for (const char* probe : schema.probes) {
    if (!prepare(raw, probe)) return nullptr;
  }
  return database;
}

}  // namespace isobit::archive
