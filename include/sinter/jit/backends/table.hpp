// jit/backends/table.hpp: the backends, a row for each.
#pragma once

#include "../../engine/backends.hpp"
#include "cpu.hpp"
#include "cuda.hpp"
#include "reference.hpp"

namespace sinter::engine {

namespace detail {

/// Generates a program from a graph.
struct backend : backend_facts {
  /// Plans, prints, builds and binds c.graph. Throws system_error if the machine cannot.
  void (*generate)(code& c, const ir::graph& g, std::span<const argument> arguments, const options& how);
};

inline constexpr backend backends[] = {
    {{"cpu", true, true, device::kind::cpu}, generate_cpu},
    {{"cuda", true, true, device::kind::cuda}, generate_cuda},
    {{interpreter, false, false}, interpret_graph},
    {{"aot_reference", false, true}, interpret_graph},
};

inline const backend* backend_named(std::string_view name) {
  for (const backend& b : backends)
    if (name == b.name) return &b;
  return nullptr;
}

/// "\"cpu\", \"cuda\"", for errors.
inline std::string backend_names() {
  std::string out = "\"auto\"";
  for (const backend& b : backends)
    out += (&b == std::end(backends) - 1 ? " or \"" : ", \"") + std::string(b.name) + "\"";
  return out;
}

/// The backend that options and device choose together. user_error if there is none.
inline const backend& backend_for(const options& how, device where, location at) {
  if (how.backend == "auto")
    for (const backend& b : backends)
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
