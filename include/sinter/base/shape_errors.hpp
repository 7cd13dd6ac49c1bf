// base/shape_errors.hpp: the errors about shapes; out of line, since every program that includes sinter refers to them.
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
/// system_error: the system has no memory for so many bytes.
[[noreturn]] SINTER_API void fail_memory(const char* op, const dims& extents, std::size_t bytes, location at);
[[noreturn]] SINTER_API void fail_broadcast(const char* op, const dims* shapes, int count, location at);
[[noreturn]] SINTER_API void fail_traced(const char* op, location at);
/// Why a traced tensor is no value here.
enum class out_of_trace { another, ended, thread, untraced };
[[noreturn]] SINTER_API void fail_out_of_trace(out_of_trace why, location at);
/// To be added to a complaint about shapes, one of which may be a tensor's that nothing was assigned to; mostly empty.
SINTER_API std::string hint_unassigned(const dims* shapes, int count);
/// "donated to the call at FILE:LINE, …".
SINTER_API std::string text_of_donation(location call);
/// Of a handle to nothing, which the call at `donated` took if that has a line.
[[noreturn]] SINTER_API void fail_undefined(const char* op, location at, location donated = {});

/// Two operands, each of a shape and on a device, that must be on one.
[[noreturn]] SINTER_API void fail_devices(const char* op, const dims& a, device a_where, const dims& b, device b_where,
                                          location at);
/// A tensor of a GPU where the host would have to read or write elements.
[[noreturn]] SINTER_API void fail_on_gpu(const char* op, const dims& extents, device where, location at);

/// user_error: tensors move between devices before a trace, not in it.
[[noreturn]] SINTER_API void fail_moved_while_traced(location at);

/// The number of elements; user_error for a negative extent, or when the bytes do not fit a pointer.
SINTER_API dim checked_numel(const char* op, const dims& extents, std::size_t element, location at);

}  // namespace sinter::detail

#if !defined(SINTER_COMPILED)
#include "define.hpp"
#endif
