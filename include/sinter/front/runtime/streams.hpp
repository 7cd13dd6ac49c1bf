// front/runtime/streams.hpp: streams and events: order in the work of a GPU.
#pragma once

#include <memory>
#include <utility>

#include "devices.hpp"

namespace sinter {

class event;

/// A queue of work of a GPU: what is asked of one stream is done in order, beside what other streams do. Memory that tensors
/// give back is reused safely across streams; what a stream reads must have been ordered before, by an event. A handle.
class stream {
 public:
  /// user_error for the host, or when there is no such device.
  explicit stream(sinter::device where = default_device(), location at = location::current())
      : where_(where), queue_(engine::make_stream(where, at)) {}

  sinter::device device() const { return where_; }
  /// True when everything asked of it is done.
  bool done() const { return queue_->done(); }
  /// Waits for that; system_error for what failed.
  void synchronize() const { queue_->synchronize(); }
  /// Does nothing more before the event is reached.
  void wait(const event& e) const;

 private:
  friend class event;
  friend class stream_scope;
  sinter::device where_;
  std::shared_ptr<engine::stream_queue> queue_;
};

/// Asks this thread's work on the stream's GPU of the stream, until the end of the scope.
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
/// event(where, timed): the time between two such events can be asked for.
inline constexpr timed_t timed{};

/// A point in a stream's work. A handle.
class event {
 public:
  /// user_error for the host, or when there is no such device. With `timed` the time to another one can be asked for.
  explicit event(sinter::device where = default_device(), location at = location::current())
      : where_(where), event_(engine::make_event(where, false, at)) {}
  event(sinter::device where, timed_t, location at = location::current())
      : where_(where), event_(engine::make_event(where, true, at)) {}

  sinter::device device() const { return where_; }
  /// Marks the point after everything asked so far of a stream, or of this thread's current one. user_error for a stream of
  /// another GPU.
  void record(location at = location::current()) { event_->record(nullptr, at); }
  void record(const stream& s, location at = location::current()) { event_->record(s.queue_.get(), at); }
  /// This thread's current stream does nothing more before the point is reached.
  void wait() const { event_->hold(nullptr); }
  /// True when the point is reached.
  bool done() const { return event_->done(); }
  /// Waits until the point is reached.
  void synchronize() const { event_->synchronize(); }
  /// Milliseconds from start's point to this one, for which it waits. user_error unless both are timed, recorded and of one
  /// GPU.
  float since(const event& start, location at = location::current()) const { return event_->since(*start.event_, at); }

 private:
  friend class stream;
  sinter::device where_;
  std::shared_ptr<engine::stream_event> event_;
};

inline void stream::wait(const event& e) const { e.event_->hold(queue_.get()); }

}  // namespace sinter
