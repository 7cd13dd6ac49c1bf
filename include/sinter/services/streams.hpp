// services/streams.hpp: the engine's streams and events, which belong to GPUs.
#pragma once

#include "../base/callback.hpp"
#include "../engine/engine.hpp"
#include "../run/cuda/device/stream.hpp"

namespace sinter::engine {

namespace detail {

class gpu_stream final : public stream_queue {
 public:
  explicit gpu_stream(int device) : stream_(device) {}
  bool done() const override { return stream_.done(); }
  void synchronize() const override { run::cuda::synchronize(stream_.get()); }
  std::shared_ptr<void> enter() const override { return make_on_heap<run::cuda::stream_scope>(stream_.get()); }
  run::cuda::queue& queue() const { return stream_.get(); }

 private:
  run::cuda::stream stream_;
};

class gpu_event final : public stream_event {
 public:
  gpu_event(int device, bool timed) : device_(device), timed_(timed), event_(device, timed) {}
  void record(const stream_queue* of, location at) override {
    run::cuda::queue& q = queue(of);
    if (q.where->index != device_)
      fail("event",
           "an event of cuda(" + std::to_string(device_) + ") cannot be recorded on a stream of cuda(" +
               std::to_string(q.where->index) + "); make the event for the stream's device",
           at);
    event_.record(q);
    recorded_ = true;
  }
  void hold(const stream_queue* waiter) const override { event_.hold(queue(waiter)); }
  bool done() const override { return event_.done(); }
  void synchronize() const override { event_.synchronize(); }
  float since(const stream_event& start, location at) const override {
    const auto& from = static_cast<const gpu_event&>(start);
    const auto need = [&](bool both, const char* what) {
      if (!both) fail("event", std::string("the time between events needs both to be ") + what, at);
    };
    need(timed_ && from.timed_, "timed: event(device, timed)");
    need(recorded_ && from.recorded_, "recorded");
    need(device_ == from.device_, "of one GPU");
    event_.synchronize();
    return event_.elapsed(from.event_);
  }

 private:
  run::cuda::queue& queue(const stream_queue* of) const {
    return of ? static_cast<const gpu_stream*>(of)->queue() : run::cuda::current_queue(device_);
  }

  int device_;
  bool timed_, recorded_ = false;
  run::cuda::event event_;
};

inline void check_gpu(device where, const char* op, location at) {
  if (!where.is_cuda()) fail(op, "the host has no streams; name a GPU: device::cuda(0)", at);
  check_device(where, op, at);
}

}  // namespace detail

SINTER_API std::shared_ptr<stream_queue> make_stream(device where, location at) {
  detail::check_gpu(where, "stream", at);
  return make_on_heap<detail::gpu_stream>(where.index);
}

SINTER_API std::shared_ptr<stream_event> make_event(device where, bool timed, location at) {
  detail::check_gpu(where, "event", at);
  return make_on_heap<detail::gpu_event>(where.index, timed);
}

}  // namespace sinter::engine
