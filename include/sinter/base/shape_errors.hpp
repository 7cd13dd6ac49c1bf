// base/shape_errors.hpp: the errors about shapes; out of line, because every program that includes sinter refers to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config.hpp"
#include "device.hpp"
#include "dims.hpp"
#include "location.hpp"

namespace sinter::detail {

[[noreturn]] SINTER_API void fail_ragged(std::int64_t length, std::int64_t expected, location at);
[[noreturn]] SINTER_API void fail_static_shape(const char* op, const dims& shape, const dims& extents, location at);
[[noreturn]] SINTER_API void fail_donation(const std::string& name, int index, std::size_t count, location at);
[[noreturn]] SINTER_API void fail_axis(const char* op, int axis, int rank, location at);
[[noreturn]] SINTER_API void fail_one_element(const char* op, const dims& extents, location at);
[[noreturn]] SINTER_API void fail_index(const dims& index, const dims& extents, location at);
/// system_error: the system has no memory for this number of bytes.
[[noreturn]] SINTER_API void fail_memory(const char* op, const dims& extents, std::size_t bytes, location at);
[[noreturn]] SINTER_API void fail_broadcast(const char* op, const dims* shapes, int count, location at);
[[noreturn]] SINTER_API void fail_traced(const char* op, location at);
/// The reason why a traced tensor has no value here.
enum class out_of_trace { another, ended, thread, untraced };
[[noreturn]] SINTER_API void fail_out_of_trace(out_of_trace why, location at);
/// An addition to an error about shapes, in case a shape belongs to a tensor without an assigned value; mostly empty.
SINTER_API std::string hint_unassigned(const dims* shapes, int count);
/// "donated to the call at FILE:LINE, …".
SINTER_API std::string text_of_donation(location call);
/// The error for an empty handle; names the call at `donated` that took it, if that has a line.
[[noreturn]] SINTER_API void fail_undefined(const char* op, location at, location donated = {});

/// The error for two operands on different devices.
[[noreturn]] SINTER_API void fail_devices(const char* op, const dims& a, device a_where, const dims& b, device b_where,
                                          location at);
/// The error for a tensor on a GPU whose elements the host would have to read or write.
[[noreturn]] SINTER_API void fail_on_gpu(const char* op, const dims& extents, device where, location at);

/// user_error: move tensors between devices before a trace, not inside it.
[[noreturn]] SINTER_API void fail_moved_while_traced(location at);

/// The number of elements; user_error for a negative extent, or if the bytes exceed the address space.
SINTER_API dim checked_numel(const char* op, const dims& extents, std::size_t element, location at);

}  // namespace sinter::detail

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
