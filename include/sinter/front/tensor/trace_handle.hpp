// front/tensor/trace_handle.hpp: the part of a tensor that makes it the value of a node while a function is traced.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "../../engine/engine.hpp"

namespace sinter::detail {

/// The graph value that a tensor stands for, or nothing. It is one pointer, and copies of nothing are free, because most
/// tensors are not traced.
class trace_handle {
 public:
  trace_handle() = default;
  trace_handle(std::shared_ptr<engine::tracer> t, ir::node_id node) : value_(engine::make_value(std::move(t), node)) {}
  trace_handle(const trace_handle& other) noexcept : value_(other.value_) {
    if (value_) value_->references.fetch_add(1, std::memory_order_relaxed);
  }
  trace_handle(trace_handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  trace_handle& operator=(trace_handle other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~trace_handle() {
    if (value_) engine::release(value_);
  }
  explicit operator bool() const { return value_ != nullptr; }
  engine::traced_value& operator*() const { return *value_; }
  const std::shared_ptr<engine::tracer>& tracer() const {
    static const std::shared_ptr<engine::tracer> none;
    return value_ ? value_->of : none;
  }

 private:
  engine::traced_value* value_ = nullptr;
};

}  // namespace sinter::detail
