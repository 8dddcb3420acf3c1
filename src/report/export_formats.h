// A finished run for other tools: CSV tables, an MLflow file store, an RO-Crate.
//
// Each is written from an archive::ExportPlan, so that home paths are gone and what looks like a secret has stopped the
// export before. A folder appears whole or not at all. The same plan gives the same bytes (but for MLflow's
// artifact_uri, which names the folder). Errors are UserError. Thread-safe; no state.
#pragma once

#include <filesystem>

#include "archive/run_export.h"
#include "archive/run_record.h"

namespace isobit::report {

// `folder` must not exist: steps.csv, metrics.csv, ... (tables.h).
void write_csv(const archive::ExportPlan& plan, const std::filesystem::path& folder);

// `folder`: a store that exists already, which gets one more run, or a new one. The layout of MLflow's FileStore.
void write_mlflow(const archive::ExportPlan& plan, const archive::RunRecord& record,
                  const std::filesystem::path& folder);

// `folder` must not exist: run.tar (as isobit export writes it, so that anyone can verify it), the tables as CSV, and
// ro-crate-metadata.json (RO-Crate 1.1, profile Process Run Crate 0.5).
void write_ro_crate(const archive::ExportPlan& plan, const archive::RunRecord& record,
                    const std::filesystem::path& folder);

// MLflow's id of a run: the first 32 hexadecimal digits of the SHA-256 of ours.
[[nodiscard]] std::string mlflow_run_id(const std::string& run);

}  // namespace isobit::report
