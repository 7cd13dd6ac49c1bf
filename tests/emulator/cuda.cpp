// tests/emulator/cuda.cpp: a stand-in for libcuda.so.1 that runs kernels on the host; modules come from nvrtc.cpp.
//
// SINTER_EMULATOR_DEVICES   number of GPUs (1); 0: the driver finds none
// SINTER_EMULATOR_MEMORY    bytes of each
// SINTER_EMULATOR_DRIVER    version that the driver tells (13000)
// SINTER_EMULATOR_CAPABILITY  90
// SINTER_EMULATOR_MODE      "exclusive": another process holds the GPU; "full": no memory for a context
// SINTER_EMULATOR_UUIDS     "shared": processes have the same GPUs; else each has its own
// SINTER_EMULATOR_FAULT     name of a kernel that makes an illegal access
// SINTER_EMULATOR_REFUSE    name of a kernel whose launch is refused
// SINTER_EMULATOR_CONDITIONS  "none": the driver has no conditional nodes; "no products": it takes no child graph in them
// SINTER_EMULATOR_DEFER=1   work waits until the host waits for it; then kernels of a graph are begun as early as its edges let them
// SINTER_EMULATOR_ORDER=reverse  threads, blocks and the independent nodes of graphs run from the last to the first
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "call.hpp"

using namespace emulator;

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) {
  const std::lock_guard lock(everything);
  world& w = all();
  const auto devices = number("SINTER_EMULATOR_DEVICES", 1);
  if (devices == 0) return no_device;
  w.started = true;
  w.memory.resize(static_cast<std::size_t>(devices));
  while (w.contexts.size() < w.memory.size()) {
    w.contexts.push_back(std::make_unique<context>());
    w.contexts.back()->device = static_cast<int>(w.contexts.size()) - 1;
  }
  return success;
}
/// NVRTC looks for tables of a driver that its process has loaded.
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, 500; }
int cuDriverGetVersion(int* version) {
  return *version = static_cast<int>(number("SINTER_EMULATOR_DRIVER", 13000)), success;
}

int cuGetErrorName(int r, const char** text) {
  static const std::map<int, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                   {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                   {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {600, "CUDA_ERROR_NOT_READY"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                   {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                                                   {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {801, "CUDA_ERROR_NOT_SUPPORTED"},
                                                   {910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"}};
  const auto found = names.find(r);
  *text = found == names.end() ? nullptr : found->second;
  return found == names.end() ? invalid_value : success;
}
int cuGetErrorString(int r, const char** text) {
  const int result = cuGetErrorName(r, text);
  if (result == success) *text = "as the emulator has it";
  return result;
}

int cuDeviceGetCount(int* count) { return *count = static_cast<int>(all().memory.size()), success; }
int cuDeviceGet(int* device, int index) {
  if (index < 0 || index >= static_cast<int>(all().memory.size())) return invalid_device;
  return *device = index, success;
}
int cuDeviceGetName(char* name, int length, int) {
  return std::snprintf(name, static_cast<std::size_t>(length), "Emulated GPU"), success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  const auto capability = static_cast<int>(number("SINTER_EMULATOR_CAPABILITY", 90));
  switch (attribute) {
    case 1:
      *value = 1024;
      break;
    case 8:
      *value = 48 * 1024;
      break;
    case 16:
      *value = 4;
      break;
    case 20:
      *value = setting("SINTER_EMULATOR_MODE") == "exclusive" ? 3 : 0;
      break;
    case 38:
      *value = 50 << 20;
      break;
    case 75:
      *value = capability / 10;
      break;
    case 76:
      *value = capability % 10;
      break;
    case 97:
      *value = 227 * 1024;
      break;
    default:
      return invalid_value;
  }
  return success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return *bytes = all().memory[static_cast<std::size_t>(device)].total(), success;
}
/// An emulated GPU is its process's own, but for a test that says otherwise.
int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  std::memset(bytes, 0, 16);
  const long process = setting("SINTER_EMULATOR_UUIDS") == "shared" ? 0 : static_cast<long>(::getpid());
  std::memcpy(bytes, &device, sizeof device);
  std::memcpy(bytes + 8, &process, sizeof process);
  return success;
}
int cuDevicePrimaryCtxRetain(context** out, int device) {
  const std::lock_guard lock(everything);
  if (setting("SINTER_EMULATOR_MODE") == "exclusive") return unavailable;
  if (setting("SINTER_EMULATOR_MODE") == "full") return out_of_memory;
  return *out = all().contexts[static_cast<std::size_t>(device)].get(), success;
}
int cuDevicePrimaryCtxRelease_v2(int) { return success; }
int cuCtxSetCurrent(context* c) { return current = c, success; }
int cuCtxGetDevice(int* device) {
  if (current == nullptr) return invalid_context;
  return *device = current->device, success;
}
int cuCtxGetCurrent(context** c) { return *c = current, success; }
int cuCtxSynchronize() {
  call c;
  if (c.problem == success) c.w.drain(current->device), c.problem = c.w.lost;
  return c.problem;
}

int cuModuleLoadData(module** out, const void* image) {
  call c;
  if (c.problem != success) return c.problem;
  // A kernel's code takes memory too.
  if (memory_here().used() >= memory_here().total()) return out_of_memory;
  const auto* const bytes = static_cast<const unsigned char*>(image);
  if (std::memcmp(bytes, "\177ELF", 4) != 0) return invalid_image;
  const int fd = ::memfd_create("emulated-kernel", MFD_CLOEXEC);
  std::size_t left = image_bytes(bytes);
  for (const unsigned char* p = bytes; left > 0;) {
    const ssize_t n = ::write(fd, p, left);
    if (n <= 0) return ::close(fd), invalid_image;
    p += n;
    left -= static_cast<std::size_t>(n);
  }
  // The loader takes an equal name for an equal library.
  static unsigned counter = 0;
  std::string path = "/proc/self//fd/";
  for (unsigned bits = ++counter; bits != 0; bits >>= 1) path += bits & 1 ? "./" : "/";
  void* const library = ::dlopen((path + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  ::close(fd);
  if (library == nullptr) return std::fprintf(stderr, "[emulator] %s\n", ::dlerror()), invalid_image;
  *out = new module{library, current->device, {}};
  return success;
}
int cuModuleUnload(module* m) {
  call c;
  c.w.drain(m->device);
  ::dlclose(m->library);
  delete m;
  return success;
}
int cuModuleGetFunction(function** out, module* m, const char* name) {
  call c;
  if (c.problem != success) return c.problem;
  auto& f = m->functions[name];
  if (!f) {
    const auto find = [&](const std::string& symbol) { return ::dlsym(m->library, symbol.c_str()); };
    void* const entry = find("sinter_call_" + std::string(name));
    if (entry == nullptr) return not_found;
    f = std::make_unique<function>();
    f->name = name;
    f->library = m->library;
    f->entry = reinterpret_cast<entry_function*>(entry);
    f->sizes = reinterpret_cast<const int* (*)()>(find("sinter_sizes_" + std::string(name)))();
    f->here = static_cast<sinter_thread**>(find("sinter_emulated"));
    f->device = m->device;
    if (auto* const bounds = reinterpret_cast<void (*)(char**, char**)>(find("sinter_shared_bounds")))
      bounds(&f->shared_begin, &f->shared_end);
  }
  return *out = f.get(), success;
}
int cuFuncGetAttribute(int* value, int attribute, function* f) {
  *value = attribute == 0   ? 1024
           : attribute == 1 ? static_cast<int>(f->shared_end - f->shared_begin)
           : attribute == 8 ? f->dynamic_limit
                            : 0;
  return success;
}
int cuFuncSetAttribute(function* f, int attribute, int value) {
  if (attribute != 8 || value > 227 * 1024) return invalid_value;
  return f->dynamic_limit = value, success;
}
int cuLaunchKernel(function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, stream* s, void** parameters, void**) {
  call c;
  if (c.problem != success) return c.problem;
  if (s == nullptr || s->device != current->device) return invalid_handle;
  const uint3 grid{gx, gy, gz}, block{bx, by, bz};
  if (const int r = check_launch(*f, grid, block, shared); r != success) return r;
  c.w.enqueue(*s, launch_of(f, grid, block, shared, parameters));
  return success;
}

int cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  call c;
  if (c.problem != success) return c.problem;
  *total = memory_here().total();
  *available = *total - memory_here().used();
  return success;
}
int cuMemAlloc_v2(unsigned long long* at, std::size_t bytes) {
  call c;
  if (c.problem != success) return c.problem;
  if (bytes == 0) return invalid_value;
  *at = memory_here().allocate(bytes);
  return *at == 0 ? out_of_memory : success;
}
int cuMemFree_v2(unsigned long long at) {
  call c;
  if (c.problem != success) return c.problem;
  c.w.drain(current->device);
  return memory_here().free(at) ? success : invalid_value;
}
int cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
  call c;
  if (c.problem != success) return c.problem;
  *data = std::malloc(bytes);
  c.w.pinned[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  return success;
}
int cuMemFreeHost(void* data) {
  call c;
  c.w.pinned.erase(reinterpret_cast<std::uintptr_t>(data));
  std::free(data);
  return success;
}
int cuPointerGetAttribute(void* value, int attribute, unsigned long long at) {
  call c;
  if (attribute != 2) return invalid_value;
  const bool device = c.w.reachable(at, 0), pinned = is_pinned(reinterpret_cast<void*>(at), 0);
  if (!device && !pinned) return invalid_value;
  return *static_cast<unsigned*>(value) = device ? 2 : 1, success;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, std::size_t bytes, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  if (!c.w.reachable(to, bytes)) return invalid_value;
  if (is_pinned(from, bytes)) {
    c.w.enqueue(*s, copy_of(reinterpret_cast<void*>(to), from, bytes));
    return success;
  }
  // Pageable memory is read before the call returns.
  auto kept =
      std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  operation o;
  o.call = [=] { std::memcpy(reinterpret_cast<void*>(to), kept->data(), bytes); };
  c.w.enqueue(*s, std::move(o));
  return success;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  call c;
  if (c.problem != success) return c.problem;
  if (!c.w.reachable(to, bytes)) return invalid_value;
  c.w.drain(current->device);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  if (!c.w.reachable(from, bytes)) return invalid_value;
  c.w.enqueue(*s, copy_of(to, reinterpret_cast<const void*>(from), bytes));
  return success;
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  if (!c.w.reachable(from, bytes) || !c.w.reachable(to, bytes)) return invalid_value;
  c.w.enqueue(*s, copy_of(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes));
  return success;
}
int cuMemcpyPeerAsync(unsigned long long to, context*, unsigned long long from, context*, std::size_t bytes,
                      stream* s) {
  return cuMemcpyDtoDAsync_v2(to, from, bytes, s);
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  if (!c.w.reachable(to, bytes)) return invalid_value;
  c.w.enqueue(*s, fill_of(to, value, bytes));
  return success;
}
int cuMemsetD2D8Async(unsigned long long to, std::size_t pitch, unsigned char value, std::size_t bytes,
                      std::size_t rows, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  const operation o = fill_of(to, value, bytes, rows, pitch);
  if (pitch < bytes || !c.w.reachable(to, o.span())) return invalid_value;
  c.w.enqueue(*s, o);
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
