// plan/kernel/kernel.hpp: the input of an emitter: an iteration space, a body of scalar operations, loads and stores.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

#include "../../base/series.hpp"
#include "../../ir/graph.hpp"

namespace sinter::engine::plan {

using ir::dim;
using ir::node_id;

/// The loops over an axis. Loops nest in this order.
enum class role : std::uint8_t {
  outer,  ///< parallel; no reduction runs along it
  row,    ///< parallel in chunks; reductions along it are combined over the chunks
  inner,  ///< a sequence of passes over it for each row; the last inner axis is the vector
};

struct axis {
  dim extent;
  plan::role role = role::inner;
  std::int64_t hint = 0;  ///< in a scheduled kernel: the extent in the traced call
};

/// An affine function of the axes, and of at most one loaded index.
struct affine {
  dim offset;
  series<dim> stride;  ///< per axis of the kernel
  dim indirect;        ///< multiplies the value of the instruction `index`
  int index = -1;

  bool operator==(const affine&) const = default;
};

/// A memory operand: an element of a buffer.
struct access {
  int buffer = -1;  ///< index into kernel::buffers
  affine at;

  bool operator==(const access&) const = default;
};

/// The condition 0 <= at < extent.
struct range {
  affine at;
  dim extent;
  bool likely = false;  ///< holds at most positions, such as all except the edges of a pad

  bool operator==(const range& y) const { return at == y.at && extent == y.extent; }
};

enum class kind : std::uint8_t {
  literal,     ///< instruction::literal; if `at` has an offset other than 0, its bits
  position,    ///< the affine `at.at` itself, as an i64
  inside,      ///< a bool: all of `ranges` hold
  load,        ///< memory at `at`; args[0], if given, is a guard: if it is false, the value is 0 without a read
  compute,     ///< the pointwise op `code` of args
  reduce,      ///< `code` over args[0] along `over`
  arg_reduce,  ///< index along `over` of the first extreme (code maximum or minimum) of args[0]
  product,     ///< the element of the kernel's matrix product
  scan,  ///< `code` of args[0] at this and all earlier positions along `over`, the first axis slowest; see is_scan. With
         ///< args[1], the preceding result is multiplied by it
  sort,  ///< the index along `over` of the element of args[0] with this position in order: stable, NaN last, descending with
         ///< `reverse`; only for the first ranges[0].extent positions
  search,  ///< the number of the sorted ranges[0].extent elements at `at`, ranges[0].at.offset apart, that precede args[0];
           ///< with `reverse` equal elements count, too
  part,  ///< number `index` of the tuple that the reduce args[0] makes
};

/// How a reduce merges its elements, which are tuples if it has several args. A `part` names a number of the result.
enum class merge_rule : std::uint8_t {
  one,       ///< `code` of args[0]
  first,     ///< (extreme of args[0] by `code`, args[1] there); NaN comes first, and of equals the least args[1]
  weighted,  ///< (m = max of args[0], sum of exp(args[0] - m)·args[k] for k >= 1); of nothing (-inf, 0, …)
  moments,   ///< (count, mean, squares about the mean) of args[0]
};

/// The axes of a reduction.
enum class reduce_scope : std::uint8_t { none, inner, row, both };

/// Longest row, in bytes of all kept values, that lies in a thread's memory.
inline constexpr std::int64_t kept_row_bytes = 128 << 10;
/// The same for a block of columns; a smaller limit would not reach far.
inline constexpr std::int64_t kept_column_bytes = 512 << 10;

struct instruction {
  plan::kind kind = kind::literal;
  ir::op code = ir::op::identity;
  dtype type = dtype::f32;
  series<int> args;
  access at;
  ir::scalar literal{};
  series<range> ranges;               ///< inside; sort, search: one
  series<int> over;                   ///< reduce, scan, sort: kernel axes
  bool squares = false;               ///< reduce: adds up the squares of args[0], an f32 or f64, as f64
  bool reverse = false;               ///< scan: later positions instead of earlier ones; sort, search
  merge_rule rule = merge_rule::one;  ///< reduce
  int index = 0;                      ///< part: its number in the tuple
  std::uint32_t axes = 0;             ///< bit a: the value varies along axis a
  reduce_scope span = reduce_scope::none;
  int stage = 0;                 ///< number of inner reductions that must finish before
  bool after_rows = false;       ///< needs a reduction along the rows: runs after all chunks are combined
  bool kept = false;             ///< saved per row for later passes instead of recomputed
  int last_pass = 0;             ///< the last pass over a row that computes or loads it
  node_id node = ir::no_node;    ///< compute: the node whose value it is, if any
  node_id origin = ir::no_node;  ///< the node for which it exists, if any
  location where;                ///< of the origin
};

struct store {
  int value = -1;
  access at;
  bool accumulate = false;  ///< combined with the stored value, at at.at.index; indices outside [0, bound) are dropped
  dim bound;
  ir::op combiner = ir::op::add;  ///< of an accumulating store; identity: replaces the value, the last of several wins
  bool apart = false;             ///< several updates of one element are equal
};

struct buffer_use {
  int id = -1;  ///< the plan's buffer
  dtype type = dtype::f32;
  bool written = false;
  bool by_value = false;        ///< a single element that is the kernel's parameter itself
  std::int64_t alignment = 64;  ///< known divisor of the buffer's address, in bytes
};

/// The operands of a matrix product (B…, M…, K…) · (B…, K…, N…); offsets are affine in batch, m, n and k separately.
struct product {
  access a, b;             ///< over the kernel's axes followed by the k axes
  series<dim> k;           ///< extents of the k axes
  std::int64_t terms = 1;  ///< their product, for the hints
  /// Conditions over the axes of a and b. Where one does not hold, the operand lies in a pad, and the term is 0. Only calls of
  /// libraries compute such products.
  series<range> within;
  int batch = 0, m = 0;     ///< axes [0, batch) are batch, [batch, batch + m) rows of a, the rest columns of b
  dtype type = dtype::f32;  ///< of the result
};

/// Assumptions of a symbolic kernel's code about sizes; its caller must check them.
struct size_fit {
  bool small = false;        ///< counts and offsets fit 31 bits
  bool narrow = false;       ///< a matrix product has one to 16 columns
  bool whole = false;        ///< a row has `longest` elements
  std::int64_t longest = 0;  ///< greatest number of elements of a row; 0: any number
  bool operator==(const size_fit&) const = default;
};

struct kernel {
  series<axis> axes;
  series<instruction> body;  ///< operands precede users
  series<store> stores;
  series<buffer_use> buffers;
  series<plan::product> products;  ///< one for a matrix product, none otherwise
  std::string label;               ///< the ops in it, for logs: "sub exp reduce"
  int symbols = 0;                 ///< size symbols that may occur in extents and strides
  size_fit fit;
  int stages = 1;          ///< passes over the inner axes
  std::int64_t block = 0;  ///< not 0: the only axis is inner; blocks of this length are the rows
  int chunks = 1;          ///< the number of runs in which the rows are summed, before the runs are combined
  bool by_recipe = false;  ///< printed from its recipe's tree alone: axes have no roles
  int option = by_rule;    ///< of the recipe that prints it
  static constexpr int by_rule = -1, no_recipe = -2;
  bool replaces = false;  ///< copies the base of a scatter; unnecessary if both have the same memory
  int columns = 0;  ///< not 0: vectors run along the last outer axis; blocks of this many columns walk the inner axes

  /// For an opaque node, which is a step and not a kernel: its node, and an index into buffers for each operand, then for
  /// each result. The index is -1 for a result that is not read.
  node_id opaque = ir::no_node;
  series<int> places;
  bool has_effect = false;

  bool is_opaque() const { return opaque != ir::no_node; }
  bool is_product() const { return !products.empty(); }
  /// A kernel with a scan stores only its value, and has no passes. Outer axes are parallel. Row axes are scanned, and the
  /// whole body runs at each position of them. At most one inner axis, the last, is the vector.
  bool is_scan() const { return has(kind::scan); }
  /// A kernel with a sort stores only its value. Row axes are sorted, the other axes are outer.
  bool is_sort() const { return has(kind::sort); }
  /// A kernel with a search stores only its value, and has only outer axes.
  bool is_search() const { return has(kind::search); }
  /// Whether the kernel takes no further roots, and has its own kind of passes.
  bool stands_alone() const { return by_recipe || is_scan() || is_sort() || is_search(); }
  bool has(plan::kind what) const {
    for (const auto& i : body)
      if (i.kind == what) return true;
    return false;
  }
  std::uint32_t mask(plan::role r) const {
    std::uint32_t m = 0;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (axes[a].role == r) m |= 1u << a;
    return m;
  }
  /// The axis along which vectors run.
  std::size_t vector_axis() const {
    return (columns ? static_cast<std::size_t>(std::popcount(mask(role::outer))) : axes.size()) - 1;
  }
  dim extent(plan::role r) const {
    dim n = 1;
    for (const auto& a : axes)
      if (a.role == r) n *= a.extent;
    return n;
  }
};

/// True for a load under a condition.
inline bool is_guarded(const instruction& i) { return i.kind == kind::load && !i.args.empty(); }

/// True for a condition that holds at most positions.
inline bool is_likely(const instruction& i) {
  return i.kind == kind::inside &&
         std::all_of(i.ranges.begin(), i.ranges.end(), [](const range& r) { return r.likely; });
}

/// True if the instruction reads memory at `at`.
inline bool reads_memory(const instruction& i) { return i.kind == kind::load || i.kind == kind::search; }

/// The dtype in which values of a dtype are computed.
constexpr dtype compute_type(dtype t) { return is_narrow(t) ? dtype::f32 : t; }

/// A sum that would lose accuracy in f32 as its terms increase.
inline bool is_f32_sum(const instruction& i) {
  return i.kind == kind::reduce && i.code == ir::op::add && compute_type(i.type) == dtype::f32;
}

inline bool is_reduction(const instruction& i) { return i.kind == kind::reduce || i.kind == kind::arg_reduce; }

/// True for a value that is the same everywhere, and known before the first loop.
inline bool is_uniform(const kernel& k, int id) {
  const auto& i = k.body[static_cast<std::size_t>(id)];
  return i.axes == 0 && i.stage == 0 && !i.after_rows && !is_reduction(i);
}

/// True if a store's place or value varies along some of the axes; an accumulating store varies along all.
inline bool varies(const kernel& k, const store& s, std::uint32_t axes) {
  if (s.accumulate) return axes != 0;
  std::uint32_t mask = k.body[static_cast<std::size_t>(s.value)].axes;
  if (s.at.at.index >= 0) mask |= k.body[static_cast<std::size_t>(s.at.at.index)].axes;
  for (std::size_t a = 0; a < s.at.at.stride.size(); ++a)
    if (!s.at.at.stride[a].is(0)) mask |= 1u << a;
  return (mask & axes) != 0;
}

inline bool is_uniform_store(const kernel& k, const store& s) { return is_uniform(k, s.value) && !varies(k, s, ~0u); }

inline bool uses(const kernel& k, int buffer) {
  for (const auto& b : k.buffers)
    if (b.id == buffer) return true;
  return false;
}

/// For each node up to the last one used, the numbers of the kernels that use it.
inline series<series<std::size_t>> users_of(const series<kernel>& kernels) {
  series<series<std::size_t>> out;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    for (const auto& b : kernels[k].buffers) {
      const auto id = static_cast<std::size_t>(b.id);
      if (out.size() <= id) out.resize(id + 1);
      if (out[id].empty() || out[id].back() != k) out[id].push_back(k);
    }
  return out;
}

/// Labels in order, each once, with its count: "exp | mul x3".
SINTER_API std::string joined(const series<std::string>& labels, std::string_view separator) {
  series<std::string> distinct;
  series<int> count;
  for (const auto& l : labels) {
    const auto at = std::find(distinct.begin(), distinct.end(), l) - distinct.begin();
    if (at == static_cast<std::ptrdiff_t>(distinct.size())) {
      distinct.push_back(l);
      count.push_back(0);
    }
    ++count[static_cast<std::size_t>(at)];
  }
  std::string text;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    if (i > 0) text += separator;
    text += distinct[i];
    if (count[i] > 1) text += " x" + std::to_string(count[i]);
  }
  return text;
}

/// The extents of the matrices that a kernel multiplies.
struct product_extents {
  dim batch = 1, m = 1, n = 1, k = 1;
};

inline product_extents extents_of(const kernel& c) {
  const product& p = c.products[0];
  product_extents e;
  for (std::size_t a = 0; a < c.axes.size(); ++a)
    (static_cast<int>(a) < p.batch ? e.batch : static_cast<int>(a) < p.batch + p.m ? e.m : e.n) *= c.axes[a].extent;
  for (const auto& k : p.k) e.k *= k;
  return e;
}

}  // namespace sinter::engine::plan
