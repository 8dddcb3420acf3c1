// The group of a generation: exchanges between its workers, over c10d's Gloo.
//
// Made where the host has formed a group; whoever is lost during an exchange shows as ExchangeLost in the others, at
// once where its connection breaks, else when the exchange takes far longer than it should. The object is then of no
// use; a new group has a new one. Buffers lie on the host (CPU). One thread. The connections of Gloo are neither
// authenticated nor encrypted: they are opened on the network that leads to the job's host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "scale/link.h"

namespace isobit::scale {

class ExchangeLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Exchange {
 public:
  // Whether this build has Gloo.
  [[nodiscard]] static bool available();

  // All of the group, at the same time. A group of one needs no connections.
  Exchange(Link& link, std::int64_t generation, std::int64_t rank, std::int64_t size);
  // Of a process group that the program has made, by c10d's name of it; its Gloo, or what it has for the CPU.
  // ExchangeLost where there is none.
  explicit Exchange(const std::string& process_group);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

  // An exchange under way, which runs while the caller works. wait() ends it; the buffers stay alive until then, or
  // until the object is gone.
  class Pending;
  // To one rank, and from one: what was sent with a tag arrives in the order in which it was sent. Not empty.
  [[nodiscard]] std::shared_ptr<Pending> send(std::span<const std::uint8_t> bytes, std::int64_t rank, int tag);
  [[nodiscard]] std::shared_ptr<Pending> receive(std::span<std::uint8_t> bytes, std::int64_t rank, int tag);
  // `receive` has size() times as many bytes as `send`, by rank.
  [[nodiscard]] std::shared_ptr<Pending> all_gather(std::span<const std::uint8_t> send,
                                                    std::span<std::uint8_t> receive);
  [[nodiscard]] std::shared_ptr<Pending> broadcast(std::span<std::uint8_t> bytes, std::int64_t root);
  // The transport's own sum, for comparison; its bits depend on the group.
  [[nodiscard]] std::shared_ptr<Pending> all_reduce(std::span<float> values);

 private:
  struct Group;
  std::int64_t rank_, size_;
  std::unique_ptr<Group> group_;
};

// Ends an exchange: ExchangeLost where it failed.
void wait(const std::shared_ptr<Exchange::Pending>& pending);

}  // namespace isobit::scale
