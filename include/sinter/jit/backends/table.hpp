// jit/backends/table.hpp: the backends: a row for each of the engine's, then those that programs register.
#pragma once

#include <mutex>

#include "../../base/kept.hpp"
#include "../../engine/backends.hpp"
#include "../../ir/compose_attention.hpp"
#include "attention_notes.hpp"
#include "cpu.hpp"
#include "cuda.hpp"
#include "reference.hpp"
#include "registered.hpp"

namespace sinter::engine {

namespace detail {

/// Generates a program from a graph.
struct backend : backend_facts {
  /// Plans, prints, builds and binds c.graph. Throws system_error if the machine cannot.
  void (*generate)(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how);
  /// Which attention has kernels on a device; without it, or where it gives null, all is composed.
  std::shared_ptr<plan::attention_choice> (*attention)(device where) = nullptr;
  const registered_backend* registered = nullptr;  ///< in place of `generate`

  void make(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how) const {
    if (registered) return generate_registered(*registered, c, arguments, how);
    generate(c, g, arguments, how);
  }
};

inline constexpr backend own_backends[] = {
    {{"cpu", true, true, device::kind::cpu}, generate_cpu, attention_on_host},
    {{"cuda", true, true, device::kind::cuda}, generate_cuda, attention_on_gpu},
    {{"cudagraphs", true, true, device::kind::cuda, false, true}, generate_cuda, attention_on_gpu},
    {{interpreter, false, false}, interpret_graph},
    {{"aot_reference", false, true}, interpret_graph},
};

/// The backends that programs have registered; rows are never removed. Thread-safe.
class backend_registry {
 public:
  static backend_registry& get() {
    static auto& all = *new backend_registry;  // threads may outlive statics
    return all;
  }
  const backend* find(std::string_view name) const {
    for (const backend& b : own_backends)
      if (name == b.name) return &b;
    const std::lock_guard lock(mutex_);
    for (const auto& b : rows_)
      if (name == b->name) return b.get();
    return nullptr;
  }
  void add(const std::string& name, backend_row row, location where) {
    keep_loaded(row.compile.code());
    const char* const kept_name = sinter::detail::kept(name.c_str());
    auto what = std::make_unique<registered_backend>(registered_backend{kept_name, std::move(row)});
    auto made = std::make_unique<backend>();
    made->name = kept_name;
    made->compiles = true;
    made->rewrites = what->row.rewrites;
    made->where = what->row.where;
    made->version = sinter::detail::kept(what->row.version.c_str());
    made->registered = what.get();
    const std::lock_guard lock(mutex_);
    for (const auto& b : rows_)
      if (name == b->name)
        fail("register_backend", "there is a backend '" + name + "' already; choose another name", where);
    what.release();  // as long as its row
    rows_.push_back(std::move(made));
  }
  /// "\"auto\", \"cpu\" or \"cuda\"", for errors.
  std::string names() const {
    series<std::string> all;
    for (const backend& b : own_backends) all.push_back(b.name);
    const std::lock_guard lock(mutex_);
    for (const auto& b : rows_) all.push_back(b->name);
    std::string out = "\"auto\"";
    for (std::size_t k = 0; k < all.size(); ++k) out += (k + 1 == all.size() ? " or \"" : ", \"") + all[k] + "\"";
    return out;
  }

 private:
  mutable std::mutex mutex_;
  series<std::unique_ptr<const backend>> rows_;
};

inline const backend* backend_named(std::string_view name) { return backend_registry::get().find(name); }
inline std::string backend_names() { return backend_registry::get().names(); }

/// The attention that has kernels on a device, or whose gradient has, decided once for equal nodes; empty: all is composed.
inline ir::kept_attention attention_kernels(const backend& on, device where, bool gradients) {
  const auto choice = on.attention ? on.attention(where) : nullptr;
  if (!choice) return {};
  if (gradients) return [choice](const ir::graph& g, ir::node_id id) { return choice->gradient_pays(g, id); };
  return [choice](const ir::graph& g, ir::node_id id) { return choice->why_not(g, id).empty(); };
}

/// The same of gradients on the backend of a trace; empty, too, if the backend is not known.
inline ir::kept_attention attention_kernels(std::string_view name, const std::optional<device>& where) {
  if (name.empty() || !where) return {};
  for (const backend& b : own_backends)
    if (name == "auto" ? b.compiles && b.where == where->type : name == b.name)
      return attention_kernels(b, *where, true);
  return {};
}

/// For explain(): the attention of a traced graph that has no kernels on a device.
inline series<attention_report> composed_attention(const ir::graph& traced, const backend& on, device where) {
  const auto choice = on.attention ? on.attention(where) : nullptr;
  const char* const none = on.attention ? "SINTER_ATTENTION is \"composed\"" : "the backend has none for attention";
  const attention_refusal why = [&](const ir::graph& g, ir::node_id id) {
    return choice ? std::string(choice->why_not(g, id)) : std::string(none);
  };
  return attention_notes(why).of(traced);
}

/// The backend that options and device choose together. user_error if there is none.
inline const backend& backend_for(const options& how, device where, location at) {
  if (how.backend == "auto")
    for (const backend& b : own_backends)
      if (b.compiles && b.where == where.type) return b;
  const backend* const named = backend_named(how.backend);
  if (!named) fail(how.name, "there is no backend '" + how.backend + "'; choose " + backend_names(), at);
  if (named->compiles && named->where != where.type)
    fail(how.name,
         "options.backend is \"" + how.backend + "\" but the arguments are on " + where.text() +
             "; move them with .to(device), or leave the backend \"auto\"",
         at);
  return *named;
}

}  // namespace detail

SINTER_API const backend_facts* find_backend(std::string_view name) { return detail::backend_named(name); }

}  // namespace sinter::engine

namespace sinter {

SINTER_API void register_backend(const std::string& name, backend_row row, location where) {
  const auto refuse = [&](const char* what) { fail("register_backend", "'" + name + "' " + what, where); };
  if (name.empty() || name == "auto" || name.find_first_of("\n\r") != std::string::npos)
    refuse("is no name for a backend; choose a word");
  for (const auto& own : engine::detail::own_backends)
    if (name == own.name) refuse("is a backend of sinter's; choose another name");
  if (row.version.empty()) refuse("has no version, which keys of caches need; set .version");
  if (!row.compile) refuse("has no function; set .compile = [](const graph& g, backend_arrays examples) { ... }");
  engine::detail::backend_registry::get().add(name, std::move(row), where);
}

}  // namespace sinter
