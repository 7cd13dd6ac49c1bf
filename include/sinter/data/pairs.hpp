// data/pairs.hpp: joins pairs of tokens by rank, as byte-pair encodings do.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <unordered_map>
#include <vector>

namespace sinter::data::detail {

class pair_merges {
 public:
  struct merge {
    std::uint32_t rank = 0;
    std::int64_t to = 0;
  };
  /// The next rank is for (a, b). `last`: of a pair that is there already, the later rank counts.
  void add(std::int64_t a, std::int64_t b, std::int64_t to, bool last = false) {
    const merge made{rank_++, to};
    if (last) merges_.insert_or_assign(pair_of(a, b), made);
    else merges_.emplace(pair_of(a, b), made);
  }
  void reserve(std::size_t n) { merges_.reserve(n); }
  const merge* find(std::int64_t a, std::int64_t b) const {
    const auto m = merges_.find(pair_of(a, b));
    return m == merges_.end() ? nullptr : &m->second;
  }

  /// Joins the pair of the lowest rank, the first among equals, until there is none; the tokens are appended to `out`.
  void join(const std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& out) const {
    std::vector<symbol> chain;
    chain.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      chain.push_back({tokens[i], i ? i - 1 : none, i + 1 < tokens.size() ? i + 1 : none});
    std::priority_queue<candidate> next;
    for (std::size_t i = 0; i + 1 < chain.size(); ++i) offer(chain, i, next);
    while (!next.empty()) {
      const candidate c = next.top();
      next.pop();
      symbol& left = chain[c.left];
      // A symbol that was joined meanwhile has another id, or none.
      if (left.id != c.a || left.after == none || chain[left.after].id != c.b) continue;
      symbol& right = chain[left.after];
      right.id = -1;
      left.id = c.to;
      left.after = right.after;
      if (left.after != none) chain[left.after].before = c.left;
      offer(chain, left.before, next);
      offer(chain, c.left, next);
    }
    for (std::size_t i = chain.empty() ? none : 0; i != none; i = chain[i].after) out.push_back(chain[i].id);
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct symbol {
    std::int64_t id;
    std::size_t before, after;
  };
  struct candidate {
    std::uint32_t rank;
    std::size_t left;
    std::int64_t a, b, to;
    bool operator<(const candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };
  static std::uint64_t pair_of(std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b);
  }
  void offer(const std::vector<symbol>& chain, std::size_t left, std::priority_queue<candidate>& next) const {
    if (left == none || chain[left].after == none) return;
    const std::int64_t a = chain[left].id, b = chain[chain[left].after].id;
    if (const merge* const m = find(a, b)) next.push({m->rank, left, a, b, m->to});
  }

  std::unordered_map<std::uint64_t, merge> merges_;
  std::uint32_t rank_ = 0;
};

}  // namespace sinter::data::detail
