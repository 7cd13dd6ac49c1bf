// data/batches.hpp: rows of a dataset in batches, in an order that a key gives, prepared by a thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../io/array.hpp"

namespace sinter::data {

/// A place among several that share the batches: a rank of a mesh, m.slot<dp>().
struct slot {
  std::int64_t index = 0, count = 1;

  slot() = default;
  template <class S>
  requires requires(const S& s) {
    std::int64_t(s.index);
    std::int64_t(s.count);
  }
  slot(const S& s) : index(s.index), count(s.count) {}  // NOLINT: a conversion
};

struct batch_options {
  std::int64_t size = 32;
  /// The same key gives the same order; fold_in(key, epoch) gives each epoch its own.
  std::optional<key> shuffle = {};
  /// Drops rows that do not fill a batch; otherwise the last batch is short.
  bool drop_last = false;
  /// The number of batches that a thread prepares ahead.
  int prefetch = 0;
  /// Copies batches to this device. With `prefetch`, the thread copies them, on its own stream.
  std::optional<device> where = {};
  /// The first batch, to resume within an epoch.
  std::int64_t first = 0;
  /// The part of each batch that this rank takes. `size` is that of all ranks, so all see the same order and number of batches,
  /// and may resume with another number of ranks.
  slot shard = {};
};

namespace detail {

/// 0 to n - 1 in the order of a key's state.
inline std::vector<std::int64_t> order_of(std::int64_t n, const std::optional<std::uint64_t>& state) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (!state) return order;
  // splitmix64, and unbiased indices below a bound.
  std::uint64_t s = *state;
  const auto next = [&s] {
    std::uint64_t z = s += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  };
  for (std::size_t i = order.size(); i > 1; --i) {
    const std::uint64_t bound = i, fair = (0 - bound) % bound;
    std::uint64_t x = next();
    while (x < fair) x = next();
    std::swap(order[i - 1], order[x % bound]);
  }
  return order;
}

/// Copies of the rows of x with these indices, on x's device.
inline sinter::detail::handle rows_of(const sinter::detail::handle& x, std::span<const std::int64_t> rows,
                                      location at) {
  dims extents = x.extents;
  extents[0] = static_cast<std::int64_t>(rows.size());
  if (x.memory.where().is_cuda()) {
    io::array index = io::detail::copied_array(dtype::i64, {static_cast<std::int64_t>(rows.size())}, rows.data());
    sinter::detail::handle i = io::detail::handle_of(index);
    const storage there = engine::allocate(rows.size_bytes(), x.memory.where());
    engine::copy(there, there.data(), i.memory, i.data, rows.size_bytes());
    i.memory = there;
    i.data = static_cast<std::byte*>(there.data());
    return sinter::detail::take_at(x, i, 0, extents, at);
  }
  const sinter::detail::handle from = sinter::detail::contiguous(x, at);
  from.memory.wait();
  const sinter::detail::handle to = sinter::detail::allocate("data::batches", x.type, extents, at);
  std::size_t bytes = size_of(x.type);
  for (int i = 1; i < extents.rank; ++i) bytes *= static_cast<std::size_t>(extents[i].bits);
  for (std::size_t i = 0; bytes > 0 && i < rows.size(); ++i)
    std::memcpy(to.data + i * bytes, from.data + static_cast<std::size_t>(rows[i]) * bytes, bytes);
  return to;
}

/// A handle's elements on a device, row-major.
inline sinter::detail::handle moved(const sinter::detail::handle& x, device where, location at) {
  if (x.memory.where() == where) return x;
  sinter::detail::handle from = sinter::detail::contiguous(x, at);
  const std::size_t bytes = static_cast<std::size_t>(from.extents.numel().bits) * size_of(from.type);
  const storage there = engine::allocate(bytes, where);
  engine::copy(there, there.data(), from.memory, from.data, bytes);
  from.memory = there;
  from.data = static_cast<std::byte*>(there.data());
  return from;
}

/// Makes things 0, 1, … of a count, on demand or ahead of their use by a thread.
class producer {
 public:
  using thing = std::shared_ptr<void>;

  producer(std::int64_t first, std::int64_t count, int ahead, std::optional<device> where,
           std::function<thing(std::int64_t)> make)
      : next_(first), count_(count), ahead_(static_cast<std::size_t>(ahead > 0 ? ahead : 0)), make_(std::move(make)) {
    if (ahead_ > 0 && next_ < count_) thread_ = std::thread([this, where] { work(where); });
  }
  producer(const producer&) = delete;
  producer& operator=(const producer&) = delete;
  ~producer() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  /// The next thing, null at the end. Rethrows exceptions of `make`.
  thing next() {
    if (!thread_.joinable()) return next_ < count_ ? make_(next_++) : nullptr;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || over_; });
    if (ready_.empty()) {
      if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
      return nullptr;
    }
    thing t = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return t;
  }

 private:
  void work(std::optional<device> where) {
    try {
      std::optional<stream> own;
      std::optional<stream_scope> scope;
      if (where && where->is_cuda()) {
        own.emplace(*where);
        scope.emplace(*own);
      }
      for (; next_ < count_; ++next_) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return stop_ || ready_.size() < ahead_; });
          if (stop_) return;
        }
        thing t = make_(next_);
        {
          const std::lock_guard lock(mutex_);
          ready_.push_back(std::move(t));
        }
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failed_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
  }

  std::int64_t next_, count_;
  std::size_t ahead_;
  std::function<thing(std::int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<thing> ready_;
  std::exception_ptr failed_;
  bool stop_ = false, over_ = false;
  std::thread thread_;
};

/// A dataset that makes its own batches: `size()` rows, `batch(indices)`.
template <class D>
concept batch_maker = requires(const D& d, std::span<const std::int64_t> rows) {
  std::int64_t(d.size());
  d.batch(rows);
};

[[noreturn]] inline void fail_rows(std::int64_t first, std::int64_t other, location at) {
  fail(at.op,
       "the tensors of the dataset have " + std::to_string(first) + " and " + std::to_string(other) +
           " rows, along their first axis; give tensors of one length",
       at);
}

/// The number of rows: the common extent of its tensors' first axes.
template <class D>
std::int64_t row_count(const D& d, location at) {
  if constexpr (batch_maker<D>) {
    return static_cast<std::int64_t>(d.size());
  } else {
    std::int64_t rows = -1;
    sinter::detail::for_each_leaf(d, [&]<class Leaf>(const Leaf& x) {
      if constexpr (tensor_like<Leaf>) {
        static_assert(Leaf::rank > 0,
                      "sinter: [data::batches] each tensor of a dataset has its rows along the first axis");
        const std::int64_t n = x.shape()[0].bits;
        if (rows >= 0 && n != rows) fail_rows(rows, n, at);
        rows = n;
      }
    });
    if (rows < 0) fail(at.op, "the dataset has no tensor", at);
    return rows;
  }
}

/// The batch with these rows.
template <class D>
auto batch_of(const D& d, std::span<const std::int64_t> rows, location at) {
  if constexpr (batch_maker<D>) {
    return d.batch(rows);
  } else {
    D out = d;
    sinter::detail::for_each_leaf(out, [&]<class Leaf>(Leaf& x) {
      if constexpr (tensor_like<Leaf>) {
        static_assert(
            Leaf::static_shape[0].bits == dyn,
            "sinter: [data::batches] the first extent of a dataset's tensors is the number of rows: declare it dyn");
        x = sinter::detail::typed<typename Leaf::value_type, Leaf::static_shape>(
            rows_of(sinter::detail::untyped(x, at), rows, at), at);
      }
    });
    return out;
  }
}

/// Moves a batch to its device. Marks its first axes dynamic if the epoch's last batch is short.
template <class B>
void finish_batch(B& batch, const std::optional<device>& where, std::int64_t most, location at) {
  sinter::detail::for_each_leaf(batch, [&]<class Leaf>(Leaf& x) {
    if constexpr (any_tensor<Leaf>) {
      if (where)
        x = sinter::detail::typed<typename Leaf::value_type, Leaf::static_shape>(
            moved(sinter::detail::untyped(x, at), *where, at), at);
      if constexpr (Leaf::rank > 0)
        if (most > 0) mark_dynamic(x, 0, {.min = 1, .max = most}, at);
    }
  });
}

}  // namespace detail

/// The batches of a dataset; see batches(). Each loop over them starts from the beginning.
template <class Dataset>
class batch_range {
 public:
  using value_type = decltype(detail::batch_of(std::declval<const Dataset&>(), {}, {}));

  batch_range(Dataset d, const batch_options& how, location at)
      : data_(std::move(d)), how_(how), at_(at), rows_(detail::row_count(data_, at.in("data::batches"))) {
    if (how.size < 1) fail("data::batches", "a batch has 1 row or more; .size is " + std::to_string(how.size), at);
    if (how.first < 0) fail("data::batches", ".first is a batch from 0 on; it is " + std::to_string(how.first), at);
    check_slot();
    if (how.where) engine::check_device(*how.where, "data::batches", at);
    if (how.shuffle) state_ = static_cast<std::uint64_t>(how.shuffle->state.to(device::cpu(), at).item(at));
  }

  /// The number of batches of an epoch.
  std::int64_t size() const { return how_.drop_last ? rows_ / how_.size : (rows_ + how_.size - 1) / how_.size; }
  /// The number of rows.
  std::int64_t rows() const { return rows_; }

  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = batch_range::value_type;
    using difference_type = std::ptrdiff_t;
    using pointer = value_type*;
    using reference = value_type&;

    iterator() = default;
    explicit iterator(std::shared_ptr<detail::producer> from) : from_(std::move(from)) { ++*this; }
    reference operator*() const { return *static_cast<value_type*>(now_.get()); }
    pointer operator->() const { return static_cast<value_type*>(now_.get()); }
    iterator& operator++() {
      now_ = from_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !now_; }

   private:
    std::shared_ptr<detail::producer> from_;
    std::shared_ptr<void> now_;
  };

  iterator begin() const {
    auto order = std::make_shared<const std::vector<std::int64_t>>(detail::order_of(rows_, state_));
    const bool uneven = !how_.drop_last && rows_ % how_.size != 0 && rows_ > how_.size;
    auto make = [order, uneven, data = data_, size = how_.size, own = how_.shard, where = how_.where,
                 at = at_](std::int64_t k) {
      const auto first = static_cast<std::size_t>(k * size), ranks = static_cast<std::size_t>(own.count);
      const auto n = std::min(static_cast<std::size_t>(size), order->size() - first) / ranks;
      const auto rows = std::span(*order).subspan(first + n * static_cast<std::size_t>(own.index), n);
      auto batch = std::make_shared<value_type>(detail::batch_of(data, rows, at));
      detail::finish_batch(*batch, where, uneven ? size / own.count : 0, at);
      return std::static_pointer_cast<void>(std::move(batch));
    };
    return iterator(std::make_shared<detail::producer>(how_.first, size(), how_.prefetch, how_.where, std::move(make)));
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  void check_slot() const {
    const slot& own = how_.shard;
    if (own.count < 1 || own.index < 0 || own.index >= own.count)
      fail("data::batches",
           ".shard is index " + std::to_string(own.index) + " of " + std::to_string(own.count) +
               "; give an index from 0 to the number of ranks - 1",
           at_);
    const std::int64_t last = how_.drop_last ? 0 : rows_ % how_.size;
    for (const std::int64_t n : {how_.size, last})
      if (n % own.count != 0)
        fail("data::batches",
             (n == how_.size ? "a batch of " : "the last batch of ") + std::to_string(n) +
                 " rows does not divide among " + std::to_string(own.count) + " ranks; " +
                 (n == how_.size ? "give .size a multiple of them" : "set .drop_last, or pad the dataset"),
             at_);
  }

  Dataset data_;
  batch_options how_;
  location at_;
  std::int64_t rows_;
  std::optional<std::uint64_t> state_;
};

/// Batches of `size` rows of a dataset, for a loop:
/// `for (auto& [x, y] : data::batches(std::tuple{images, labels}, {.size = 64, .shuffle = k}))`.
/// A dataset is a tree of tensors with rows along the first axes, and batches have its type. Or it is a class with `size()`
/// and `batch(std::span<const std::int64_t> rows)`, such as data::items. If the last batch is short, all first axes are
/// marked dynamic, so that a compiled step has one specialisation for all lengths except 1. user_error for tensors of
/// different lengths, for a size below 1, and for batches that the ranks of `.shard` do not divide.
template <class Dataset>
batch_range<Dataset> batches(const Dataset& d, const batch_options& how = {}, location at = location::current()) {
  return {d, how, at};
}

/// A dataset of n items f(i), trees of tensors of one shape. A batch is the stack_tree of some items: pairs of tensors become
/// pairs of tensors with one more axis. The thread that prepares batches calls f.
template <class F>
struct items {
  std::int64_t count;
  F item;

  std::int64_t size() const { return count; }
  auto batch(std::span<const std::int64_t> rows) const {
    std::vector<std::remove_cvref_t<decltype(item(std::int64_t{}))>> all;
    all.reserve(rows.size());
    for (const std::int64_t i : rows) all.push_back(item(i));
    return stack_tree(all);
  }
};
template <class F>
items(std::int64_t, F) -> items<F>;

}  // namespace sinter::data
