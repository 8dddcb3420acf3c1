#include "fuzz/targets.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "fuzz/target.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr Target kTargets[] = {
    {"json", run_json, json_seeds, 2000},
    {"log_lines", run_log_lines, log_lines_seeds, 4000},
    {"state", run_state, state_seeds, 2000},
    {"manifest", run_manifest, manifest_seeds, 2000},
    {"lock", run_lock, lock_seeds, 1000},
    {"patch", run_patch, patch_seeds, 2000},
    {"printable", run_printable, printable_seeds, 2000},
    {"secrets", run_secrets, secrets_seeds, 300},
    {"experiment", run_experiment, experiment_seeds, 2000},
    {"tuning", run_tuning, tuning_seeds, 1000},
    {"idx", run_idx, idx_seeds, 1000},
    {"npy", run_npy, npy_seeds, 2000},
    {"npz", run_npz, npz_seeds, 2000},
    {"csv", run_csv, csv_seeds, 2000},
    {"image", run_image, image_seeds, 2000},
    {"text", run_text, text_seeds, 300},
    {"safetensors", run_safetensors, safetensors_seeds, 2000},
    {"tar", run_tar, tar_seeds, 500},
    {"zip", run_zip, zip_seeds, 1000},
    {"run_index", run_run_index, run_index_seeds, 1000},
    {"record", run_record, record_seeds, 300},
    {"unfinished", run_unfinished, unfinished_seeds, 150},
    {"reports", run_reports, reports_seeds, 300},
    {"page", run_page, page_seeds, 600},
    {"plan", run_plan, plan_seeds, 2000},
    {"signature", run_signature, signature_seeds, 2000},
    {"checkpoint", run_checkpoint, checkpoint_seeds, 2000},
    {"messages", run_messages, messages_seeds, 4000},
    {"notes", run_notes, notes_seeds, 4000},
    {"slurm", run_slurm, slurm_seeds, 3000},
    {"study", run_study, study_seeds, 2000},
    {"study_files", run_study_files, study_files_seeds, 500},
    {"trace", run_trace, trace_seeds, 2000},
};

struct Folder {
  Folder()
      : path((::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path()) / "isobit-fuzz-") {
    path += std::to_string(::getpid());
    fs::create_directories(path);
    ::setenv("XDG_CACHE_HOME", (path / "cache").c_str(), 1);  // no user's index
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path path;
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& find_target(std::string_view name) {
  std::string all;
  for (const Target& target : kTargets) {
    if (name == target.name) return target;
    all += std::string(all.empty() ? "" : " ") + target.name;
  }
  throw std::invalid_argument("no target '" + std::string(name) + "'; there are: " + all);
}

const fs::path& scratch() {
  static const Folder folder;
  return folder.path;
}

void put(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

}  // namespace isobit::fuzz
