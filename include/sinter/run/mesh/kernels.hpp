// run/mesh/kernels.hpp: which rank makes a kernel for all, and the bundles that it sends. The ledger has the lock, and the messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../ranks.hpp"
#include "wire.hpp"

namespace sinter::engine::run {

/// SHA-256 of the text that identifies a kernel.
using kernel_names = std::vector<std::string>;
inline constexpr std::size_t name_bytes = 32, max_names = std::size_t{1} << 16;

inline void put_names(std::string& to, const kernel_names& names) {
  put_number(to, names.size(), 4);
  for (const auto& n : names) to += n;
}
inline bool take_names(std::string_view& from, kernel_names& names) {
  std::uint64_t n = 0;
  if (!take_number(from, n, 4) || n == 0 || n > max_names || n * name_bytes > from.size()) return false;
  for (names.clear(); n > 0; --n) {
    names.emplace_back(from.substr(0, name_bytes));
    from.remove_prefix(name_bytes);
  }
  return true;
}

/// A bundle on its way, with the names of its kernels.
struct named_bundle {
  kernel_names names;
  std::string bytes;
};
using shared_bundle = std::shared_ptr<const named_bundle>;

/// A bundle that comes in pieces: its names and size, then its bytes.
class incoming_bundle {
 public:
  /// False, too, if the one before is not complete.
  bool begin(kernel_names names, std::uint64_t bytes) {
    if (left_ > 0 || bytes == 0 || bytes > kernel_order::max_bytes) return false;
    held_ = {std::move(names), {}};
    left_ = static_cast<std::size_t>(bytes);
    return true;
  }
  bool add(std::string_view piece) {
    if (piece.empty() || piece.size() > left_) return false;
    held_.bytes += piece;
    left_ -= piece.size();
    return true;
  }
  /// The bundle once it is complete, and only once.
  shared_bundle take() {
    if (left_ > 0 || held_.names.empty()) return nullptr;
    return std::make_shared<const named_bundle>(std::exchange(held_, {}));
  }

 private:
  named_bundle held_;
  std::size_t left_ = 0;
};

/// The kernels that a rank asks for at once.
struct ordered_kernels {
  kernel_names names;
  std::vector<int> makers;     ///< by kernel: another rank, or -1 for this one; empty before rank 0 has answered
  std::set<std::string> open;  ///< not yet come
  std::vector<shared_bundle> bundles;

  bool is_complete() const {
    if (makers.empty()) return false;
    for (std::size_t k = 0; k < names.size(); ++k)
      if (makers[k] >= 0 && open.contains(names[k])) return false;
    return true;
  }
  /// The rank of a kernel that is still to come; -1 if there is none.
  int awaited() const {
    for (std::size_t k = 0; k < makers.size(); ++k)
      if (makers[k] >= 0 && open.contains(names[k])) return makers[k];
    return -1;
  }
  void resolve(const kernel_names& which, const shared_bundle& with) {
    bool any = false;
    for (const auto& n : which) any = open.erase(n) > 0 || any;
    if (any && with) bundles.push_back(with);
  }
};

/// Rank 0's knowledge of the kernels that ranks make for all.
class kernel_table {
 public:
  explicit kernel_table(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  struct answer {
    std::vector<int> makers;  ///< as in ordered_kernels
    std::vector<shared_bundle> ready;
  };
  /// A rank asks. The first one to ask for a kernel makes it.
  answer ask(int rank, const kernel_names& names) {
    answer out;
    for (const auto& n : names) {
      entry& e = entries_[n];
      if (e.maker < 0) e.maker = rank;
      out.makers.push_back(e.maker == rank && !e.made ? -1 : e.maker);
      if (!e.made) {
        if (e.maker != rank) e.waiting.insert(rank);
      } else if (std::find(out.ready.begin(), out.ready.end(), e.made) == out.ready.end()) {
        out.ready.push_back(e.made);
      }
    }
    for (const auto& b : out.ready) has(b, rank);
    return out;
  }

  /// A rank gives a bundle; the ranks that wait for some of it. Kernels that others make are none of its business.
  std::set<int> deliver(int rank, const shared_bundle& b) {
    std::set<int> to;
    bool any = false;
    for (const auto& n : b->names) {
      const auto at = entries_.find(n);
      if (at == entries_.end() || at->second.maker != rank || at->second.made) continue;
      at->second.made = b;
      to.merge(at->second.waiting);
      at->second.waiting.clear();
      any = true;
    }
    if (!any) return to;
    kept_.push_back({b, {}});
    bytes_ += b->bytes.size();
    has(b, rank);
    for (const int r : to) has(b, r);
    while (bytes_ > max_kept && kept_.size() > 1) forget(0);
    return to;
  }

  using told = std::map<int, kernel_names>;
  /// A rank does not make these, or with an empty list any; what ranks that wait are to be told.
  told withdraw(int rank, const kernel_names& names) {
    told out;
    const auto drop = [&](auto at) {
      if (at == entries_.end() || at->second.maker != rank || at->second.made) return;
      for (const int r : at->second.waiting) out[r].push_back(at->first);
      entries_.erase(at);
    };
    for (const auto& n : names) drop(entries_.find(n));
    if (names.empty())
      for (auto at = entries_.begin(); at != entries_.end();) drop(at++);
    return out;
  }
  std::size_t size() const { return entries_.size(); }
  std::size_t kept_bytes() const { return bytes_; }

 private:
  static constexpr std::size_t max_kept = std::size_t{64} << 20;

  struct entry {
    int maker = -1;
    std::set<int> waiting;
    shared_bundle made;
  };
  /// For ranks that come late.
  struct kept_bundle {
    shared_bundle of;
    std::set<int> ranks;  ///< that have it
  };

  void has(const shared_bundle& b, int rank) {
    const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.of == b; });
    if (at == kept_.end()) return;
    at->ranks.insert(rank);
    if (at->ranks.size() == ranks_) forget(static_cast<std::size_t>(at - kept_.begin()));
  }
  void forget(std::size_t k) {
    for (const auto& n : kept_[k].of->names)
      if (const auto at = entries_.find(n); at != entries_.end() && at->second.made == kept_[k].of) entries_.erase(at);
    bytes_ -= kept_[k].of->bytes.size();
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(k));
  }

  std::size_t ranks_;
  std::map<std::string, entry> entries_;
  std::deque<kept_bundle> kept_;  ///< the oldest first
  std::size_t bytes_ = 0;
};

/// Bundles that go out to a rank, piece by piece.
class outgoing_bundles {
 public:
  static constexpr std::size_t piece_bytes = std::size_t{256} << 10;

  void add(shared_bundle b) { waiting_.push_back(std::move(b)); }
  bool empty() const { return waiting_.empty(); }
  /// The next message, of one of two kinds: names and size of a bundle, or a piece of it.
  std::string next(char begins, char goes_on) {
    const named_bundle& b = *waiting_.front();
    std::string out;
    if (!std::exchange(begun_, true)) {
      out += begins;
      put_names(out, b.names);
      put_number(out, b.bytes.size(), 8);
      return out;
    }
    const std::string_view piece = std::string_view(b.bytes).substr(sent_, piece_bytes);
    out.append(1, goes_on).append(piece);
    sent_ += piece.size();
    if (sent_ == b.bytes.size()) {
      waiting_.pop_front();
      begun_ = false;
      sent_ = 0;
    }
    return out;
  }

 private:
  std::deque<shared_bundle> waiting_;
  bool begun_ = false;
  std::size_t sent_ = 0;
};

}  // namespace sinter::engine::run
