// dispatch/eager_programs.hpp: eager work on a GPU: the programs of stage points, by computation and operand layouts.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "../base/callback.hpp"
#include "../engine/engine.hpp"
#include "dispatch.hpp"

namespace sinter::engine {

namespace detail {

/// The programs of one computation for one layout of its operands.
struct stage_entry {
  std::string numbers;                        ///< the values for which `exact` was made
  std::shared_ptr<const program> exact, any;  ///< with the numbers as constants; with numbers as operands
};

/// The key of a stage: operands without repetitions, numbers separately.
class stage_key {
 public:
  explicit stage_key(const stage& s) {
    add(s.signature);
    add(s.where.index);
    arguments_.reserve(s.operands.size());
    for (const operand& x : s.operands) {
      const auto before =
          std::find_if(arguments_.begin(), arguments_.end(), [&](const argument& y) { return same(x, y); });
      add(before - arguments_.begin());
      if (before != arguments_.end()) continue;
      add(kernel_facts(x) | std::int64_t{x.is_number()} << fact_number);
      if (x.is_number()) {
        numbers_.append(static_cast<const char*>(x.data), size_of(x.type));
      } else {
        append(x.extents, x.rank);
        if (x.strides) append(x.strides, x.rank);
        else add(x.axis);
      }
      if (x.owner || x.by_value) arguments_.push_back(x);
    }
    append(s.facts.data(), static_cast<int>(s.facts.size()));
  }

  const std::string& text() const { return text_; }
  const std::string& numbers() const { return numbers_; }

  /// The program's arguments, in order.
  std::vector<argument> arguments(bool with_numbers) const {
    std::vector<argument> out;
    out.reserve(arguments_.size());
    for (const auto& a : arguments_)
      if (a.owner || with_numbers) out.push_back(a);
    return out;
  }

 private:
  static bool same(const argument& x, const argument& y) {
    return x.data == y.data && x.type == y.type && x.rank == y.rank &&
           std::equal(x.extents, x.extents + x.rank, y.extents) && std::equal(x.strides, x.strides + x.rank, y.strides);
  }
  template <class T>
  void add(T x) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &x, sizeof(T));
    text_.append(bytes, sizeof(T));
  }
  void append(const std::int64_t* x, int count) {
    if (count > 0) text_.append(reinterpret_cast<const char*>(x), static_cast<std::size_t>(count) * sizeof(*x));
  }

  std::string text_, numbers_;
  std::vector<argument> arguments_;
};

class stage_table {
 public:
  /// The program for a stage, and its arguments.
  std::pair<std::shared_ptr<const program>, std::vector<argument>> get(const stage& s, pushing trace) {
    const stage_key key(s);
    bool exact = true;
    std::unordered_map<std::string, stage_entry> gone;  // freed without the lock
    {
      const std::lock_guard lock(mutex_);
      if (known_.size() >= max_stages) known_.swap(gone);
      const auto [at, fresh] = known_.try_emplace(key.text());
      stage_entry& e = at->second;
      if (fresh) e.numbers = key.numbers();
      exact = e.numbers == key.numbers();
      if (const auto& code = exact ? e.exact : e.any) return {code, key.arguments(!exact)};
    }
    keep_loaded(s.signature);
    auto arguments = key.arguments(!exact);
    auto code = make(s, arguments, !exact, trace);
    const std::lock_guard lock(mutex_);
    stage_entry& e = known_[key.text()];
    if (!exact) e.any = code;
    else if (e.numbers == key.numbers()) e.exact = code;
    return {std::move(code), std::move(arguments)};
  }

 private:
  static std::shared_ptr<const program> make(const stage& s, std::span<const argument> arguments, bool numbers,
                                             pushing trace) {
    auto t = make_on_heap<tracer>();
    t->where = s.where;
    t->numbers_by_value = numbers;
    {
      const tracing_scope scope(t);
      for (const auto& a : arguments) t->capture(a, s.at);
      t->graph.outputs = {trace.run(trace.what)};
    }
    ensure(t->captures.size() == arguments.size(), "a stage reads the operands that it names");
    t->captures.clear();
    options how;
    how.name = s.name;
    return build(std::move(t), arguments, how, s.where);
  }

  static constexpr std::size_t max_stages = 1 << 14;
  std::mutex mutex_;
  std::unordered_map<std::string, stage_entry> known_;
};

}  // namespace detail

SINTER_API output run_stage(const stage& s, pushing trace) {
  static detail::stage_table table;
  const auto [code, arguments] = table.get(s, trace);
  output out;
  code->run(arguments, {}, &out);
  return out;
}

}  // namespace sinter::engine
