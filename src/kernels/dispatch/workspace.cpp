#include "kernels/dispatch/workspace.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <vector>

namespace isobit::kernels {
namespace {

// A chunk is whole huge pages where the system has them: packed factors of a large product lie on 300 pages of 4 KiB,
// more than the first level of a processor's table of pages holds. 2 % of such a product's time on a Zen 3.
constexpr std::size_t kAlignment = 64, kSlack = 256, kPage = std::size_t{2} << 20;
constexpr std::size_t kKept = std::size_t{1} << 30;

struct Chunk {
  std::byte* memory;
  std::size_t size;
};

// A stack in chunks: a chunk never moves while frames are open. When the last frame closes, several chunks
// become one of their total size, so that the next such call finds room in one piece.
class Scratch {
 public:
  ~Scratch() { release(); }

  void* take(std::size_t size) {
    size = (size + kSlack + kAlignment - 1) / kAlignment * kAlignment;
    while (chunk < chunks_.size() && used + size > chunks_[chunk].size) {
      ++chunk;
      used = 0;
    }
    if (chunk == chunks_.size()) {
      append(std::max(size, total()));
      used = 0;
    }
    void* block = chunks_[chunk].memory + used;
    used += size;
    return block;
  }

  void close(std::size_t frame_chunk, std::size_t frame_used) {
    chunk = frame_chunk;
    used = frame_used;
    if (--frames > 0 || (chunks_.size() <= 1 && total() <= kKept)) return;
    const std::size_t size = std::min(total(), kKept);
    release();
    try {
      append(size);
    } catch (const std::bad_alloc&) {  // the next call asks again, and may report it
    }
  }

  std::size_t chunk = 0, used = 0;
  int frames = 0;

 private:
  std::size_t total() const {
    std::size_t sum = 0;
    for (const Chunk& c : chunks_) sum += c.size;
    return sum;
  }
  void append(std::size_t size) {
    size = (size + kPage - 1) / kPage * kPage;
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back({static_cast<std::byte*>(::operator new(size, std::align_val_t{kPage})), size});
#ifdef MADV_HUGEPAGE
    (void)madvise(chunks_.back().memory, size, MADV_HUGEPAGE);  // advice: small pages serve as well
#endif
  }
  void release() {
    for (const Chunk& c : chunks_) ::operator delete(c.memory, std::align_val_t{kPage});
    chunks_.clear();
    chunk = used = 0;
  }
  std::vector<Chunk> chunks_;
};

Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

}  // namespace

Workspace::Workspace() : chunk_(scratch().chunk), used_(scratch().used) { ++scratch().frames; }
Workspace::~Workspace() { scratch().close(chunk_, used_); }

void* Workspace::bytes(std::size_t size) { return scratch().take(size); }
float* Workspace::floats(std::int64_t count) {
  return static_cast<float*>(bytes(sizeof(float) * static_cast<std::size_t>(count)));
}
std::int32_t* Workspace::ints(std::int64_t count) {
  return static_cast<std::int32_t*>(bytes(sizeof(std::int32_t) * static_cast<std::size_t>(count)));
}

}  // namespace isobit::kernels
