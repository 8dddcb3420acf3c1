// A run as tables of columns, for other tools: {"steps": {"step": [...], "loss": [...], ...}, "metrics": {...}, ...}.
//
// All columns of a table have the same length. Numbers are numbers, in as few digits as read back to the same bits (a
// loss to the same binary32; `loss_bits` has these bits); NaN and infinities are the texts "nan", "inf", "-inf"; null
// is nothing. docs/formats/tables.md lists tables and columns. Errors are UserError. Thread-safe; no state.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace isobit::report {

using Json = nlohmann::ordered_json;

// `texts`: a finished run's files by name, as archive::plan_export or a reader of the folder gives them.
[[nodiscard]] Json run_tables(const std::map<std::string, std::string>& texts);

// As tables hold numbers: NaN and infinities as texts.
[[nodiscard]] Json number(double value);

// What of them `isobit verify` cannot recompute (archive/field_standing.h): "run", "timings.seconds", ...; of columns
// that hold such values in some rows alone it says in which.
[[nodiscard]] Json claimed_columns(const std::map<std::string, std::string>& texts);

// One table as RFC 4180 says: a header, CRLF, quotes where a value holds a comma, a quote or a line end.
[[nodiscard]] std::string csv_text(const Json& table);

}  // namespace isobit::report
