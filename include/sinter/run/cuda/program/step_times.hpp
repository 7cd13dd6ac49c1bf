// run/cuda/program/step_times.hpp: how long a GPU takes for each step of a traced call, by events, for trace.json.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <string_view>

#include "../../trace_file.hpp"
#include "../device/stream.hpp"

namespace sinter::engine::run::cuda {

/// Events before each step of a call and behind the last one.
class step_times {
 public:
  explicit step_times(queue& q) : q_(q) {}

  /// Marks where the step `number` of its report begins, which made `label`; "" for the end of the call. `ops` outlives the
  /// call.
  void begin(int number, const char* label, std::string_view ops = {}) {
    marks_.emplace_back(q_.where->index);
    marks_.back().ops = ops;
    marks_.back().label = number < 0 ? label : std::to_string(number) + ": " + label;
    marks_.back().at.record(q_);
  }

  /// Waits for the end of the call, and notes what came before as spans that end now. A step's time includes the gap before the next.
  void note() const {
    if (marks_.size() < 2) return;
    const event& end = marks_.back().at;
    end.synchronize();
    const auto now = std::chrono::steady_clock::now();
    const auto before_end = [&](const mark& m) {
      return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double, std::milli>(double(end.elapsed(m.at))));
    };
    for (std::size_t i = 0; i + 1 < marks_.size(); ++i)
      note_span("device", marks_[i].label, now - before_end(marks_[i]), now - before_end(marks_[i + 1]), marks_[i].ops);
  }

 private:
  struct mark {
    explicit mark(int device) : at(device, true) {}
    event at;
    std::string label;
    std::string_view ops;
  };

  queue& q_;
  std::deque<mark> marks_;
};

}  // namespace sinter::engine::run::cuda
