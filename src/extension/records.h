// The record of a Python program (archive/run_folder.h) as C functions; python/isobit/_recording/_record_files.py is
// written on them. Not where the library has the operators alone.
//
// A function that returns const char* returns nullptr, or a message that stays valid until the thread's next call here;
// isobit_record_problem then says what kind it was. Texts are UTF-8 and end with a zero. One thread per record, and
// only the process that began it.
#pragma once

#include <cstdint>

extern "C" {

struct isobit_record;

// Of this thread's last message: the errno of the file system's error, 0 for any other; *place (may be nullptr) is the
// file or folder it is about, with which the message begins where it is not empty.
int isobit_record_problem(const char** place);

// A new record in the archive `runs`, with these inputs: `count` names, contents and sizes. `contract`: what computes,
// the contract's name or that of stock PyTorch (archive/experiment_text.h). `ending` takes the place of the id's random
// digits, where it is not empty.
const char* isobit_record_create(const char* runs, const char* name, const char* const* names,
                                 const char* const* contents, const std::int64_t* sizes, std::int64_t count,
                                 const char* contract, const char* ending, isobit_record** record);
// An unfinished one of this contract, cut back to its newest sound checkpoint; what is cut off stays aside until the
// next is saved.
const char* isobit_record_resume(const char* folder, const char* environment, const char* contract,
                                 isobit_record** record);

// These stay valid as long as the record.
const char* isobit_record_id(const isobit_record* record);
const char* isobit_record_folder(const isobit_record* record);
// Where the record was resumed: a path within its folder, and the step; nullptr where it began, or begins again because
// it never had a checkpoint.
const char* isobit_record_checkpoint(const isobit_record* record, std::int64_t* step);
// Of a log, in bytes; -1 where the run has none of that name.
std::int64_t isobit_record_size(const isobit_record* record, const char* log);

// A line each, written at once. `loss`: a binary32's bits. gradients, weights and optimizer may be empty.
const char* isobit_record_step(isobit_record* record, std::int64_t step, std::int64_t epoch, std::uint32_t loss,
                               const char* batch, const char* gradients, const char* weights, const char* optimizer);
const char* isobit_record_metrics(isobit_record* record, std::int64_t step, std::int64_t epoch, const char* set,
                                  const char* const* names, const double* values, std::int64_t count);
// The class of each of `count` samples as the program says it, and the samples' own, of which a digest is kept. Where
// the record's experiment.toml says that it keeps predictions (archive/experiment_text.h).
const char* isobit_record_predictions(isobit_record* record, std::int64_t step, std::int64_t epoch, const char* set,
                                      const std::int64_t* classes, const std::int64_t* targets, std::int64_t count);
// A stretch in which the switch was off (archive::OutsideLine).
const char* isobit_record_outside(isobit_record* record, std::int64_t after, std::int64_t until, const char* place,
                                  const char* call);
const char* isobit_record_evaluation(isobit_record* record, std::int64_t step, std::int64_t epoch, std::int64_t tensors,
                                     const char* batches);

// checkpoints/step-<N>.pt after the step last recorded. The two newest stay; and of all that were ever saved every
// 2^k-th, at most 2 * segments - 1 of them and, once there were so many, at least `segments`: places where a
// verification can be cut. 1 segment: the two newest alone. `sha256`: isobit_record_weights_sha256.
const char* isobit_record_save(isobit_record* record, const char* content, std::int64_t size, const char* sha256,
                               std::int64_t segments);
// part-<name>.json: JSON of one object with a "format" (archive/record_part.h). Again under that name: instead of it.
const char* isobit_record_part(isobit_record* record, const char* name, const char* content, std::int64_t size);
const char* isobit_record_replace(isobit_record* record, const char* name, const char* content, std::int64_t size);
// `sha256`: isobit_record_weights_sha256.
const char* isobit_record_finish(isobit_record* record, const char* weights, const char* sha256);
void isobit_record_fail(isobit_record* record, const char* reason);
// Releases the lock; the record stays as it is. Every record is closed once.
void isobit_record_close(isobit_record* record);

// archive::weights_sha256 of `count` tensors, each contiguous in the CPU's memory: names, dtypes as safetensors spells
// them, numbers of dimensions, all extents one tensor after the other, elements, sizes in bytes. 64 digits and a zero
// to `hex`.
const char* isobit_record_weights_sha256(const char* const* names, const char* const* dtypes,
                                         const std::int64_t* dimensions, const std::int64_t* extents,
                                         const void* const* elements, const std::int64_t* sizes, std::int64_t count,
                                         char* hex);

// The text with "(left out)" in the place of what looks like a secret (archive/secret_scan.h); *redacted stays valid
// until the thread's next call here.
const char* isobit_record_redacted(const char* text, const char** redacted);

// The folder of the run that `word` means in the archive `runs` ("": $ISOBIT_RUNS, else runs); *folder stays valid
// until the thread's next call here.
const char* isobit_record_find(const char* runs, const char* word, const char** folder);
}
