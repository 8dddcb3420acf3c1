// A SQLite file that may be lost at any time: what the index of runs and the cache of digests are kept in.
//
// The objects belong to one thread; processes share the file.
#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <initializer_list>
#include <memory>

namespace isobit::archive {

struct CloseSqlite {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseSqlite>;
using Statement = std::unique_ptr<sqlite3_stmt, CloseSqlite>;

[[nodiscard]] Statement prepare(sqlite3* database, const char* sql);

struct CacheSchema {
  const char* name;                           // stands in the table `about`; another version has another
  const char* tables;                         // CREATE TABLE IF NOT EXISTS ...;
  std::initializer_list<const char*> probes;  // statements that only these tables take
};

// The open database with these tables, made if it is not there; nothing if it is of another version, damaged, or cannot
// be opened. `busy`: another process kept it, it is not broken.
[[nodiscard]] Database open_cache(const std::filesystem::path& file, const CacheSchema& schema, bool& busy);

}  // namespace isobit::archive
