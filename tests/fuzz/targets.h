// The targets, one a reader; targets.cpp lists them with their names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::fuzz {

// text_targets.cpp: what reads a text in memory.
void run_json(std::string_view input);
std::vector<std::string> json_seeds();
void run_log_lines(std::string_view input);
std::vector<std::string> log_lines_seeds();
void run_state(std::string_view input);
std::vector<std::string> state_seeds();
void run_manifest(std::string_view input);
std::vector<std::string> manifest_seeds();
void run_lock(std::string_view input);
std::vector<std::string> lock_seeds();
void run_patch(std::string_view input);
std::vector<std::string> patch_seeds();
void run_printable(std::string_view input);
std::vector<std::string> printable_seeds();
void run_secrets(std::string_view input);
std::vector<std::string> secrets_seeds();

// experiment_target.cpp
void run_experiment(std::string_view input);
std::vector<std::string> experiment_seeds();
// checkpoint_target.cpp
void run_checkpoint(std::string_view input);
std::vector<std::string> checkpoint_seeds();

// file_targets.cpp: what reads a file.
void run_tuning(std::string_view input);
std::vector<std::string> tuning_seeds();
void run_idx(std::string_view input);
std::vector<std::string> idx_seeds();
void run_safetensors(std::string_view input);
std::vector<std::string> safetensors_seeds();
void run_tar(std::string_view input);
std::vector<std::string> tar_seeds();
void run_zip(std::string_view input);
std::vector<std::string> zip_seeds();
void run_run_index(std::string_view input);
std::vector<std::string> run_index_seeds();

// sample_targets.cpp: training data.
void run_npy(std::string_view input);
std::vector<std::string> npy_seeds();
void run_npz(std::string_view input);
std::vector<std::string> npz_seeds();
void run_csv(std::string_view input);
std::vector<std::string> csv_seeds();
void run_image(std::string_view input);
std::vector<std::string> image_seeds();
void run_text(std::string_view input);
std::vector<std::string> text_seeds();
// The check sums that the headers of a tar file then have.
void make_sums(std::string& tar);

// study_target.cpp: studies, predictions, baselines.
void run_study(std::string_view input);
std::vector<std::string> study_seeds();
void run_study_files(std::string_view input);
std::vector<std::string> study_files_seeds();

// report_target.cpp: what a program that is executed again says and leaves.
void run_reports(std::string_view input);
std::vector<std::string> reports_seeds();

// page_target.cpp: results of other commands that a report shows.
void run_page(std::string_view input);
std::vector<std::string> page_seeds();

// plan_target.cpp: what other programs say while a record is verified.
void run_plan(std::string_view input);
std::vector<std::string> plan_seeds();
void run_signature(std::string_view input);
std::vector<std::string> signature_seeds();

// scale_target.cpp: what processes of a job hear.
void run_messages(std::string_view input);
std::vector<std::string> messages_seeds();
// notes_target.cpp: and what a recorder is told to remember.
void run_notes(std::string_view input);
std::vector<std::string> notes_seeds();

// slurm_target.cpp
void run_slurm(std::string_view input);
std::vector<std::string> slurm_seeds();

// trace_target.cpp
void run_trace(std::string_view input);
std::vector<std::string> trace_seeds();

// record_targets.cpp: folders of a run.
std::map<std::string, std::string> sound_record();  // its files, "ID/steps.jsonl" and so on; the same in each process
void run_record(std::string_view input);
std::vector<std::string> record_seeds();
void run_unfinished(std::string_view input);
std::vector<std::string> unfinished_seeds();

}  // namespace isobit::fuzz
