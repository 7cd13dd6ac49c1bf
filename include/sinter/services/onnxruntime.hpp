// services/onnxruntime.hpp: the definitions for engine/onnxruntime.hpp: sessions, and tensors over memory of others.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "../engine/onnxruntime.hpp"
#include "../run/host/onnxruntime.hpp"

namespace sinter::engine {

namespace detail {

/// ONNXTensorElementDataType of a dtype. (onnxruntime_c_api.h)
struct element_row {
  dtype type;
  int number;
};
inline constexpr element_row onnxruntime_elements[] = {
    {dtype::f32, 1},  {dtype::u8, 2},   {dtype::i8, 3},    {dtype::u16, 4},      {dtype::i16, 5},
    {dtype::i32, 6},  {dtype::i64, 7},  {dtype::b8, 9},    {dtype::f16, 10},     {dtype::f64, 11},
    {dtype::u32, 12}, {dtype::u64, 13}, {dtype::bf16, 16}, {dtype::f8_e4m3, 17}, {dtype::f8_e5m2, 19},
};

/// A status becomes an error.
inline void check_onnxruntime(void* status, const char* op, const char* what, location where) {
  if (!status) return;
  const auto& call = run::onnxruntime_library().call;
  const struct released {
    void* status;
    ~released() { run::onnxruntime_library().call.release_status(status); }
  } at_the_end{status};
  const std::string words = call.error_message(status);
  fail(op, std::string("ONNX Runtime refuses ") + what + ": " + words + "; choose another backend, or other dtypes",
       where);
}

/// Values, which are released at the end.
class onnxruntime_values {
 public:
  explicit onnxruntime_values(std::size_t room) : all_(room, nullptr) {}
  ~onnxruntime_values() {
    for (void* const v : all_)
      if (v) run::onnxruntime_library().call.release_value(v);
  }
  onnxruntime_values(const onnxruntime_values&) = delete;
  onnxruntime_values& operator=(const onnxruntime_values&) = delete;
  void* const* data() const { return all_.data(); }
  void** data() { return all_.data(); }
  std::size_t size() const { return all_.size(); }

  /// Tensors over the arrays' memory.
  void view(ir::foreign_arrays arrays, const char* op, location where) {
    const auto& ort = run::onnxruntime_library();
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      const ir::foreign_array& a = arrays[k];
      std::size_t bytes = size_of(a.type);
      for (int d = 0; d < a.rank; ++d) bytes *= static_cast<std::size_t>(a.extents[d]);
      static char nothing[64];
      void* const data = a.data ? a.data : nothing;  // an empty tensor has no memory
      check_onnxruntime(ort.call.create_tensor(ort.memory, data, bytes, a.extents, static_cast<std::size_t>(a.rank),
                                               number_of(a.type), &all_[k]),
                        op, "a tensor", where);
    }
  }

 private:
  static int number_of(dtype type) {
    for (const element_row& r : onnxruntime_elements)
      if (r.type == type) return r.number;
    return 0;
  }
  series<void*> all_;
};

}  // namespace detail

SINTER_API std::string onnxruntime_problem() { return run::onnxruntime_library().problem; }
SINTER_API std::string onnxruntime_version() { return run::onnxruntime_library().version; }

struct onnxruntime_session::state {
  const char* op;
  location where;
  void* session = nullptr;
  series<std::string> inputs = {}, outputs = {};

  state(const char* name, location at) : op(name), where(at) {}
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    if (session) run::onnxruntime_library().call.release_session(session);
  }

  template <class Make>
  void open(Make&& make) {
    const run::onnxruntime& ort = run::onnxruntime_library();
    if (!ort.found()) throw system_error("ONNX Runtime is missing: " + ort.problem);
    void* how = nullptr;
    detail::check_onnxruntime(ort.call.create_session_options(&how), op, "options", where);
    void* const status = make(ort, how);
    ort.call.release_options(how);
    detail::check_onnxruntime(status, op, "the model", where);
    name_all(ort, ort.call.input_count, ort.call.input_name, inputs);
    name_all(ort, ort.call.output_count, ort.call.output_name, outputs);
  }
  template <class Count, class Name>
  void name_all(const run::onnxruntime& ort, Count count, Name name, series<std::string>& to) {
    std::size_t n = 0;
    detail::check_onnxruntime(count(session, &n), op, "the model", where);
    for (std::size_t k = 0; k < n; ++k) {
      char* text = nullptr;
      detail::check_onnxruntime(name(session, k, ort.allocator, &text), op, "the model", where);
      const struct freed {
        const run::onnxruntime& ort;
        char* text;
        ~freed() {
          if (void* const status = ort.call.free(ort.allocator, text)) ort.call.release_status(status);
        }
      } at_the_end{ort, text};
      to.push_back(text);
    }
  }
  /// Computes results: those of `out` that are null are allocated.
  void run(ir::foreign_arrays operands, detail::onnxruntime_values& out) const {
    if (operands.size() != inputs.size())
      fail(op, "the model takes " + std::to_string(inputs.size()) + " inputs, not " + std::to_string(operands.size()),
           where);
    const auto names = [](const series<std::string>& of) {
      series<const char*> all;
      for (const auto& name : of) all.push_back(name.c_str());
      return all;
    };
    detail::onnxruntime_values in(operands.size());
    in.view(operands, op, where);
    const series<const char*> from = names(inputs), to = names(outputs);
    detail::check_onnxruntime(run::onnxruntime_library().call.run(session, nullptr, from.data(), in.data(), in.size(),
                                                                  to.data(), to.size(), out.data()),
                              op, "the call", where);
  }
};

SINTER_API onnxruntime_session::onnxruntime_session(std::span<const std::byte> model, const char* op, location where)
    : state_(nullptr) {
  auto made = std::make_unique<state>(op, where);
  made->open([&](const run::onnxruntime& ort, const void* how) {
    return ort.call.create_session_from_array(ort.env, model.data(), model.size(), how, &made->session);
  });
  state_ = made.release();
}
SINTER_API onnxruntime_session::onnxruntime_session(const std::string& path, const char* op, location where)
    : state_(nullptr) {
  auto made = std::make_unique<state>(op, where);
  made->open([&](const run::onnxruntime& ort, const void* how) {
    return ort.call.create_session(ort.env, path.c_str(), how, &made->session);
  });
  state_ = made.release();
}
SINTER_API onnxruntime_session::~onnxruntime_session() { delete state_; }
SINTER_API const series<std::string>& onnxruntime_session::inputs() const { return state_->inputs; }
SINTER_API const series<std::string>& onnxruntime_session::outputs() const { return state_->outputs; }

SINTER_API void onnxruntime_session::run(ir::foreign_arrays operands, ir::foreign_arrays results) const {
  ensure(results.size() == state_->outputs.size(), "one memory for each result");
  detail::onnxruntime_values out(results.size());
  out.view(results, state_->op, state_->where);
  state_->run(operands, out);
}

SINTER_API series<onnxruntime_result> onnxruntime_session::run(ir::foreign_arrays operands) const {
  const auto& call = run::onnxruntime_library().call;
  detail::onnxruntime_values out(state_->outputs.size());
  state_->run(operands, out);
  const auto checked = [&](void* status) {
    detail::check_onnxruntime(status, state_->op, "to give a result", state_->where);
  };
  series<onnxruntime_result> all;
  for (std::size_t k = 0; k < out.size(); ++k) {
    int tensor = 0, number = 0;
    checked(call.is_tensor(out.data()[k], &tensor));
    if (!tensor) fail(state_->op, "the result '" + state_->outputs[k] + "' is no tensor", state_->where);
    void *info = nullptr, *data = nullptr;
    checked(call.type_and_shape(out.data()[k], &info));
    const struct released {
      void* info;
      ~released() { run::onnxruntime_library().call.release_info(info); }
    } at_the_end{info};
    onnxruntime_result r;
    std::size_t rank = 0;
    void* status = call.element_type(info, &number);
    if (!status) status = call.rank(info, &rank);
    r.extents.resize(rank);
    if (!status) status = call.extents(info, r.extents.data(), rank);
    if (!status) status = call.data(out.data()[k], &data);
    checked(status);
    bool known = false;
    for (const detail::element_row& row : detail::onnxruntime_elements)
      if (row.number == number) r.type = row.type, known = true;
    if (!known) fail(state_->op, "the result '" + state_->outputs[k] + "' has no dtype of sinter's", state_->where);
    std::size_t bytes = size_of(r.type);
    for (const auto e : r.extents) bytes *= static_cast<std::size_t>(e);
    r.memory = allocate(bytes);
    if (bytes) std::memcpy(r.memory.data(), data, bytes);
    all.push_back(std::move(r));
  }
  return all;
}

}  // namespace sinter::engine
