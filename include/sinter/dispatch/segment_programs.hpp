// dispatch/segment_programs.hpp: the programs of the graphs between two breaks, by their structure and their sizes.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "../base/log.hpp"
#include "../base/text.hpp"
#include "../engine.hpp"

namespace sinter::engine {

/// For how many sets of sizes one function has had segments compiled. Thread-safe.
class segment_limits {
 public:
  /// Whether segments may be compiled for these sizes of arguments of these types, given that `most` sets may have some. A
  /// new set then counts; with `evict` in place of the oldest.
  bool admit(const std::string& types, const std::string& sizes, std::size_t most, bool evict) {
    const std::lock_guard lock(mutex_);
    series<std::string>& known = known_[types];
    if (std::find(known.begin(), known.end(), sizes) != known.end()) return true;
    if (known.size() >= most) {
      if (!evict) return false;
      known.erase(known.begin());
    }
    known.push_back(sizes);
    return true;
  }
  /// Counts a segment that was made. True once, when these are more than structure and sizes explain.
  bool too_many_now() {
    const std::lock_guard lock(mutex_);
    return ++made_ == most_expected;
  }
  /// True once.
  bool warn_now() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(warned_, true);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, series<std::string>> known_;
  static constexpr int most_expected = 64;
  int made_ = 0;
  bool warned_ = false;
};

namespace detail {

/// The call's extents as far as they are numbers: what a segment beyond its structure is made for.
inline std::string fixed_sizes(const live_call& call, const size_layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const argument& x = call.arguments[i];
    out += (i ? " (" : "(");
    for (int a = 0; a < x.rank; ++a) {
      const auto axis = layout.tensors.empty() ? 0 : static_cast<std::size_t>(layout.tensors[i].first + a);
      const int k = layout.tensors.empty() ? -1 : layout.size_of_axis[axis];
      const bool open = k >= 0 && !layout.sizes[static_cast<std::size_t>(k)].is_fixed();
      out += (a ? ", " : "") + (open ? "any" : std::to_string(x.extents[a]));
    }
    out += ")";
  }
  return out;
}

/// The programs of segments, by the nodes of their graph in order, by how their inputs lie and how these tell the sizes. Nodes
/// have been pushed in the order in which the function does, so that a function's next call finds its segments without
/// printing them. What a run asks of its sizes it asks again at each call: a graph with its layout is all that follows.
class segment_table {
 public:
  std::shared_ptr<const program> get(const tracer& t, const ir::graph& g, std::span<const argument> inputs,
                                     const size_layout& layout) {
    options how = *t.call->how;
    const device where = t.where.value_or(device{});
    std::string key = key_of(g, inputs, layout, how, where);
    if (auto known = find(key, layout, inputs)) return known;
    if (current_stance == stance::fail_on_recompile)
      fail(how.name,
           "a stance forbids to compile, and the call takes a way between two graph breaks that is new: other branches "
           "or extents");
    if (t.call->limits && !admitted(t, layout)) {
      how.backend = "reference";
      key = key_of(g, inputs, layout, how, where);
      if (auto known = find(key, layout, inputs)) return known;
    }
    auto fresh = std::make_shared<tracer>();
    fresh->graph = g;
    fresh->assumed.layout = layout;
    entry made{build(std::move(fresh), inputs, how, where), g, layout};
    auto code = made.code;
    if (t.call->limits && t.call->limits->too_many_now())
      logs::warn_once(
          how.name +
          ": 64 segments between graph breaks have been made so far, and more are; what differs from call to "
          "call is part of their graphs: a value that is read and computed with as a C++ number, or the "
          "counter of a loop. Keep it a tensor: x * loss, not x * loss.item()");
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most_segments) known_.clear();
    known_.insert_or_assign(std::move(key), std::move(made));
    return code;
  }

 private:
  struct entry {
    std::shared_ptr<const program> code;
    ir::graph graph;  ///< keeps alive what the key names by its address
    size_layout layout;
  };

  static std::string key_of(const ir::graph& g, std::span<const argument> inputs, const size_layout& layout,
                            const options& how, device where) {
    std::string key = how.backend;
    const auto add = [&key](auto x) {
      char bytes[sizeof x];
      std::memcpy(bytes, &x, sizeof x);
      key.append(bytes, sizeof x);
    };
    add(where.index * 2 + where.is_cuda());
    add(static_cast<std::int64_t>(how.mode) | static_cast<std::int64_t>(how.precision) << 8 |
        std::int64_t{how.deterministic} << 16);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const argument& x = inputs[i];
      add(kernel_facts(x));
      const bool dense = !layout.tensors.empty() && layout.tensors[i].dense;
      add(dense);
      for (int d = 0; d < x.rank; ++d) {
        if (dense) add(layout.tensors[i].order[static_cast<std::size_t>(d)]);
        else add(x.strides[d]);
      }
    }
    add(layout.sizes.size());
    for (const open_size& s : layout.sizes) {
      add(s.derived);
      if (!s.derived) add(s.factor), add(s.offset), add(s.most);
      add(s.value.is_number());
      if (const auto n = s.value.number()) add(*n);
      else add(reinterpret_cast<std::uintptr_t>(s.value.symbolic()));
      for (const fact_of& f : s.extents) add(f.tensor), add(f.axis);
    }
    ir::append_structure(key, g);
    return key;
  }

  std::shared_ptr<const program> find(const std::string& key, const size_layout& layout,
                                      std::span<const argument> inputs) {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(key);
    if (at == known_.end()) return nullptr;
    series<std::int64_t> sizes(layout.sizes.size());
    ensure(sizes.empty() || bind_sizes(at->second.layout, inputs, sizes.data()),
           "a segment's sizes are those of its inputs");
    return at->second.code;
  }

  /// Whether the function may have segments for these sizes compiled.
  static bool admitted(const tracer& t, const size_layout& layout) {
    const options& how = *t.call->how;
    const auto most = static_cast<std::size_t>(std::max(how.recompile_limit, 1));
    const std::string sizes = fixed_sizes(*t.call, layout);
    std::string types;
    for (const auto& x : t.call->arguments) types += std::string(name(x.type)) + std::to_string(x.rank) + " ";
    if (t.call->limits->admit(types, sizes, most, how.on_limit == on_limit::evict)) return true;
    std::string message = "segments between graph breaks are compiled for " + std::to_string(most) +
                          " sets of extents, as many as .recompile_limit allows; this call has " + sizes;
    for (const narrowed_size& n : narrowed_sizes(t))
      message += "; " + size_report{n.what.tensor, n.what.axis, n.how, n.why, n.where}.text();
    const char* const remedy =
        "Keep the sizes open (dynamic::automatic or mark_dynamic, and no size as an integer), call it with fewer "
        "distinct "
        "extents, raise .recompile_limit, or say .on_limit = on_limit::evict";
    if (how.on_limit == on_limit::error) fail(how.name, message + ". " + remedy);
    if (t.call->limits->warn_now())
      logs::warn_once(how.name + ": " + message + ". It is interpreted, which is slow. " + remedy);
    return false;
  }

  static constexpr std::size_t most_segments = 4096;
  std::mutex mutex_;
  std::unordered_map<std::string, entry> known_;
};

}  // namespace detail
}  // namespace sinter::engine
