// front/runtime/streams.hpp: streams and events, which order the work of a GPU.
#pragma once

#include <memory>
#include <utility>

#include "devices.hpp"

namespace sinter {

class event;

/// A queue of a GPU's work. Work of one stream runs in order, and beside the work of other streams. Memory of destroyed tensors
/// is reused safely across streams. Data that another stream writes must be ordered by an event. A handle.
class stream {
 public:
  /// user_error for the host, or if the device does not exist.
  explicit stream(sinter::device where = default_device(), location at = location::current())
      : where_(where), queue_(engine::make_stream(where, at)) {}

  sinter::device device() const { return where_; }
  /// True when all work of the stream is done.
  bool done() const { return queue_->done(); }
  /// Waits until all work of the stream is done; system_error for a failure.
  void synchronize() const { queue_->synchronize(); }
  /// Holds later work of the stream until the event is reached.
  void wait(const event& e) const;

 private:
  friend class event;
  friend class stream_scope;
  sinter::device where_;
  std::shared_ptr<engine::stream_queue> queue_;
};

/// Sends this thread's work on the stream's GPU to the stream, until the end of the scope.
class stream_scope {
 public:
  explicit stream_scope(const stream& s) : stream_(s), entered_(s.queue_->enter()) {}
  stream_scope(const stream_scope&) = delete;
  stream_scope& operator=(const stream_scope&) = delete;

 private:
  stream stream_;
  std::shared_ptr<void> entered_;
};

struct timed_t {};
/// event(where, timed): `since` can measure the time between two such events.
inline constexpr timed_t timed{};

/// A point in a stream's work. A handle.
class event {
 public:
  /// user_error for the host, or if the device does not exist. With `timed`, `since` can measure the time to another event.
  explicit event(sinter::device where = default_device(), location at = location::current())
      : where_(where), event_(engine::make_event(where, false, at)) {}
  event(sinter::device where, timed_t, location at = location::current())
      : where_(where), event_(engine::make_event(where, true, at)) {}

  sinter::device device() const { return where_; }
  /// Marks the point after all work so far of a stream, or of this thread's current stream. user_error for a stream of
  /// another GPU.
  void record(location at = location::current()) { event_->record(nullptr, at); }
  void record(const stream& s, location at = location::current()) { event_->record(s.queue_.get(), at); }
  /// Holds later work of this thread's current stream until the point is reached.
  void wait() const { event_->hold(nullptr); }
  /// True when the point is reached.
  bool done() const { return event_->done(); }
  /// Waits until the point is reached.
  void synchronize() const { event_->synchronize(); }
  /// Milliseconds from start's point to this point; waits for it. user_error unless both events are timed, recorded and of one
  /// GPU.
  float since(const event& start, location at = location::current()) const { return event_->since(*start.event_, at); }

 private:
  friend class stream;
  sinter::device where_;
  std::shared_ptr<engine::stream_event> event_;
};

inline void stream::wait(const event& e) const { e.event_->hold(queue_.get()); }

}  // namespace sinter
