// plan/kernel/kernel.hpp: what an emitter prints: an iteration space, a body of scalar operations, loads and stores.
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

/// What the loops do with an axis. Loops nest in this order.
enum class role : std::uint8_t {
  outer,  ///< parallel; no reduction runs along it
  row,    ///< parallel in chunks; reductions along it are combined over the chunks
  inner,  ///< a sequence of passes over it for each row; the last inner axis is the vector
};

struct axis {
  dim extent;
  plan::role role = role::inner;
  std::int64_t hint = 0;  ///< of a scheduled kernel: the extent in the traced call
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

/// Where 0 <= at < extent.
struct range {
  affine at;
  dim extent;
  bool mostly = false;  ///< holds at most positions, as at all but the edges of what is padded

  bool operator==(const range& y) const { return at == y.at && extent == y.extent; }
};

enum class kind : std::uint8_t {
  literal,   ///< instruction::literal; where `at` has another offset than 0, its bits
  position,  ///< the affine `at.at` itself, as an i64
  inside,    ///< a bool: all of `ranges` hold
  load,  ///< memory at `at`; guarded, if there is an args[0]: where that is false nothing is read, and the value is 0
  compute,     ///< the pointwise op `code` of args
  reduce,      ///< `code` over args[0] along `over`
  arg_reduce,  ///< index along `over` of the first extreme (code maximum or minimum) of args[0]
  product,     ///< the element of the kernel's matrix product
  scan,  ///< `code` of args[0] at this and all earlier positions along `over`, the first axis slowest; see is_scan. What
         ///< comes before a position is multiplied by its args[1], if there is one
  sort,  ///< the place along `over` of the element that comes, of args[0], as this position says: stable, NaN last, from the
         ///< greatest on with `reverse`; of the first ranges[0].extent positions alone
  search,  ///< how many of the sorted ranges[0].extent elements at `at`, ranges[0].at.offset apart, precede args[0]; with
           ///< `reverse` equal ones do, too
};

/// Which axes a reduction runs along.
enum class span_of : std::uint8_t { none, inner, row, both };

/// Longest row, in bytes of all kept values, that lies in a thread's memory.
inline constexpr std::int64_t kept_row_bytes = 128 << 10;
/// The same of a block of columns, for which less would not reach far.
inline constexpr std::int64_t kept_column_bytes = 512 << 10;

struct instruction {
  plan::kind kind = kind::literal;
  ir::op code = ir::op::identity;
  dtype type = dtype::f32;
  series<int> args;
  access at;
  ir::scalar literal{};
  series<range> ranges;    ///< inside; sort, search: one
  series<int> over;        ///< reduce, scan, sort: kernel axes
  bool squares = false;    ///< reduce: adds up the squares of args[0], an f32 or f64, as f64
  bool reverse = false;    ///< scan: later positions instead of earlier ones; sort, search
  std::uint32_t axes = 0;  ///< bit a: the value varies along axis a
  span_of span = span_of::none;
  int stage = 0;                 ///< number of inner reductions that must have finished
  bool after_rows = false;       ///< needs a reduction along the rows: runs when all chunks are combined
  bool kept = false;             ///< saved per row for later passes instead of being computed again
  int last_pass = 0;             ///< the last pass over a row that computes or loads it
  node_id node = ir::no_node;    ///< compute: what it is the value of, if of a node
  node_id origin = ir::no_node;  ///< the node for which it is there, if any
  location where;                ///< of the origin
};

struct store {
  int value = -1;
  access at;
  bool accumulate = false;  ///< combined with what is there, at at.at.index; indices outside [0, bound) are dropped
  dim bound;
  ir::op combiner = ir::op::add;  ///< of what accumulates; identity: replaces it, the last one where several meet
  bool apart = false;             ///< where several meet they are equal
};

struct buffer_use {
  int id = -1;  ///< the plan's buffer
  dtype type = dtype::f32;
  bool written = false;
  bool by_value = false;        ///< a single element that comes as the kernel's parameter itself
  std::int64_t alignment = 64;  ///< bytes that the buffer's address is known to be a multiple of
};

/// The operands of a matrix product (B…, M…, K…) · (B…, K…, N…); offsets are affine in batch, m, n and k separately.
struct product {
  access a, b;              ///< over the kernel's axes followed by the k axes
  series<dim> k;            ///< extents of the k axes
  std::int64_t terms = 1;   ///< their product, as the hints say
  int batch = 0, m = 0;     ///< axes [0, batch) are batch, [batch, batch + m) rows of a, the rest columns of b
  dtype type = dtype::f32;  ///< of the result
};

/// What the code of a kernel with symbols counts on; whoever runs it sees to it.
struct size_fit {
  bool small = false;        ///< counts and offsets fit 31 bits
  bool narrow = false;       ///< a matrix product has one to 16 columns
  bool whole = false;        ///< a row has as many elements as the longest
  std::int64_t longest = 0;  ///< elements of a row at most; 0: any number
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
  std::int64_t block = 0;  ///< not 0: the only axis is inner; its blocks of this length are the rows
  int chunks = 1;          ///< the rows are summed in this many runs, then the runs are combined
  bool replaces = false;   ///< copies what a scatter writes into: nothing is to be done where both are the same memory
  int columns = 0;  ///< not 0: vectors run along the last outer axis; blocks of so many of it walk the inner axes

  /// Of an opaque node, which is no kernel but a step among them: its number, and per operand, then per result, an index into
  /// buffers, -1 for a result that nothing reads.
  node_id opaque = ir::no_node;
  series<int> places;
  bool has_effect = false;

  bool is_opaque() const { return opaque != ir::no_node; }
  bool is_product() const { return !products.empty(); }
  /// A kernel with a scan has one, stores its value and nothing else, and no passes: outer axes are parallel, row axes are
  /// scanned, at each of whose positions the whole body runs; an inner axis, at most one and the last, is the vector.
  bool is_scan() const { return has(kind::scan); }
  /// A kernel with a sort has one, stores its value and nothing else: row axes are sorted, the others are outer.
  bool is_sort() const { return has(kind::sort); }
  /// A kernel with a search stores its value and nothing else, and has outer axes alone.
  bool is_search() const { return has(kind::search); }
  /// It has one root, and passes of its own.
  bool stands_alone() const { return is_scan() || is_sort() || is_search(); }
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

/// True for a load that happens only where a value is true.
inline bool is_guarded(const instruction& i) { return i.kind == kind::load && !i.args.empty(); }

/// True for a condition that holds at most positions.
inline bool is_mostly(const instruction& i) {
  return i.kind == kind::inside &&
         std::all_of(i.ranges.begin(), i.ranges.end(), [](const range& r) { return r.mostly; });
}

/// True where `at` is read.
inline bool reads_memory(const instruction& i) { return i.kind == kind::load || i.kind == kind::search; }

inline bool is_reduction(const instruction& i) { return i.kind == kind::reduce || i.kind == kind::arg_reduce; }

/// True for a value that is the same everywhere, and known before the first loop.
inline bool is_uniform(const kernel& k, int id) {
  const auto& i = k.body[static_cast<std::size_t>(id)];
  return i.axes == 0 && i.stage == 0 && !i.after_rows && !is_reduction(i);
}

/// True when a store goes elsewhere, or another value there, along some of the axes; one that adds does so at every position.
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

/// Per node the kernels, by number, that use it; for nodes up to the last that one uses.
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

/// Labels in order, each once, with how often it is there: "exp | mul x3".
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

/// Of the matrices that a kernel multiplies.
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
