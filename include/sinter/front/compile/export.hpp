// front/compile/export.hpp: export_library(fn, {...}, args...): a function as a library that needs no sinter.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "../../engine/export.hpp"
#include "../trees/paths.hpp"
#include "compile.hpp"
#include "explain.hpp"

namespace sinter {

namespace detail {

/// An argument of an exported function whose tensors calls give: their facts, and the argument for some sizes.
template <class T>
struct library_tree {
  series<engine::library_input> inputs;  ///< with their paths in place of names
  bool whole_names = false;              ///< the paths are names
  series<engine::library_size> sizes;
  callback<T(const series<std::int64_t>& sizes)> make;
};
template <class T>
inline constexpr bool is_library_tree = false;
template <class T>
inline constexpr bool is_library_tree<library_tree<T>> = true;
template <class T>
struct tensor_of_spec<library_tree<T>> {
  using type = T;
};

/// Collects the tensors of a library's arguments and their sizes.
class library_arguments {
 public:
  explicit library_arguments(engine::library_request& to) : to_(to) {}

  /// An argument; `Number`: a C++ number that calls give.
  template <bool Number, class T>
  void add(const T& x) {
    const std::size_t k = count_++;
    const std::string name = k < to_.how.inputs.size() ? to_.how.inputs[k] : "in" + std::to_string(k);
    if constexpr (is_spec<T>) {
      engine::library_input in{name, false, {}, {}};
      for (const extent& e : x.extents) {
        in.size_of.push_back(e.is_open() ? size_of_axis(e) : -1);
        in.extents.push_back(e.is_open() ? 0 : e.least());
      }
      to_.inputs.push_back(std::move(in));
    } else if constexpr (is_library_tree<T>) {
      for (engine::library_input in : x.inputs) {
        in.name = in.name.empty() ? name : x.whole_names ? in.name : name + "." + in.name;
        to_.inputs.push_back(std::move(in));
      }
      to_.sizes.insert(to_.sizes.end(), x.sizes.begin(), x.sizes.end());
    } else if constexpr (Number) {
      to_.inputs.push_back({name, false, {}, {}});
    } else if constexpr (facts_of<T>.tensors != 0) {
      for (const std::string& path : tree_paths(x))
        to_.inputs.push_back({path.empty() ? name : name + "." + path, true, {}, {}});
    }
  }

 private:
  int size_of_axis(const extent& e) {
    for (std::size_t k = 0; k < to_.sizes.size(); ++k) {
      engine::library_size& s = to_.sizes[k];
      if (s.name != e.name()) continue;
      s.least = std::max(s.least, e.least());
      s.most = std::min(s.most, e.most());
      return static_cast<int>(k);
    }
    to_.sizes.push_back({e.name(), e.least(), e.most()});
    return static_cast<int>(to_.sizes.size()) - 1;
  }

  engine::library_request& to_;
  std::size_t count_ = 0;
};

/// The argument itself; for a spec, a tensor with these sizes.
template <class T>
decltype(auto) sized_argument(const engine::library_request& what, const series<std::int64_t>& sizes, const T& x) {
  if constexpr (is_spec<T>) {
    using X = typename tensor_of_spec<T>::type;
    index_array<X::rank> extents;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      extents[d] = dim(x.extents[d].least());
      for (std::size_t k = 0; k < sizes.size(); ++k)
        if (x.extents[d].name() == what.sizes[k].name) extents[d] = dim(sizes[k]);
    }
    try {
      return unfilled<X>(extents, x.where, "export_library", what.where);
    } catch (const system_error&) {
      std::string of;
      for (const dim& e : extents) of += (of.empty() ? "" : ", ") + std::to_string(std::int64_t(e));
      fail("export_library",
           "the function takes another way for an input of (" + of +
               "), which needs more memory than there is; give smaller bounds",
           what.where);
    }
  } else if constexpr (is_library_tree<T>) {
    return x.make(sizes);
  } else {
    return static_cast<const T&>(x);
  }
}

template <class F, class... Args>
exported_library export_compiled(const compiled<F>& fn, const library_options& how, const Args&... args) {
  engine::library_request what;
  what.how = how;
  what.where = how.where;
  if (!fn.how().passes.empty())
    fail("export_library", "the function has passes of its own, which libraries do not run; compile it without passes",
         how.where);
  library_arguments all(what);
  constexpr bool numbers = takes_numbers<F, const typename tensor_of_spec<Args>::type&...>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (all.template add < (numbers && is_floating_scalar<Args>) ||
         opens_integer<F, I, const typename tensor_of_spec<Args>::type&...>() > (args),
     ...);
  }
  (std::index_sequence_for<Args...>{});
  const auto work = engine::make_library_exporter(what);
  while (const series<std::int64_t>* const sizes = work->sizes()) {
    const auto take = [&](const engine::call& c, const engine::tracing& t) { work->take(c, t); };
    fn.ask(take, given<numbers>(sized_argument(what, *sizes, args))...);
  }
  return work->finish();
}

}  // namespace detail

/// An argument of export_library() whose tensors calls give, all like those of `x`, whose elements are not read:
/// `export_library(step, {...}, spec_of(state), spec<tensor<float, 2>>{{64, 784}})`
template <class T>
auto spec_of(const T& x) {
  detail::library_tree<T> out;
  for (const std::string& path : tree_paths(x)) out.inputs.push_back({path, false, {}, {}});
  out.make = [x](const series<std::int64_t>&) { return x; };
  return out;
}

/// Writes fn as a library: its kernels, a driver in C, a header, a Python file. Machines that run it need neither sinter nor a compiler.
/// A spec is an input of the library's calls, and so are the tensors of spec_of(tree) and floating numbers. The tensors of other arguments, and tensors that fn
/// captures, are weights. Results are those of fn, in order. Values that fn reads from other arguments are constants.
///
/// `export_library(step, {.name = "mlp", .isas = {isa::avx2}}, spec<tensor<float, 2>>{{extent("n", 1, 512), 784}}, params)`
///
/// user_error with all reasons why fn cannot leave (functions of this program: custom ops, host calls, FFT, factorisations), for a
/// function that reads values, for tensors on a GPU, and for sizes that cannot stay open. system_error for files and compilers.
template <class F, class... Args>
exported_library export_library(F&& fn, const library_options& how, const Args&... args) {
  return detail::export_compiled(detail::as_compiled(std::forward<F>(fn), {.name = how.name}, how.where), how, args...);
}

}  // namespace sinter
