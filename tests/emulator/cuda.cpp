// tests/emulator/cuda.cpp: a stand-in for libcuda.so.1 that runs kernels on the host; modules come from nvrtc.cpp.
//
// SINTER_EMULATOR_DEVICES   number of GPUs (1); 0: the driver finds none
// SINTER_EMULATOR_MEMORY    bytes of each
// SINTER_EMULATOR_DRIVER    version that the driver tells (13000)
// SINTER_EMULATOR_CAPABILITY  90
// SINTER_EMULATOR_MODE      "exclusive": another process holds the GPU; "full": no memory for a context
// SINTER_EMULATOR_FAULT     name of a kernel that makes an illegal access
// SINTER_EMULATOR_REFUSE    name of a kernel whose launch is refused
// SINTER_EMULATOR_DEFER=1   work waits until the host waits for it
// SINTER_EMULATOR_ORDER=reverse  threads and blocks run from the last to the first
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <utility>

#include "stream.hpp"

using namespace emulator;

namespace {

std::recursive_mutex everything;
thread_local context* current = nullptr;

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, unavailable = 46, no_device = 100,
              invalid_device = 101, invalid_image = 200, invalid_context = 201, invalid_handle = 400, not_found = 500,
              not_ready = 600, out_of_resources = 701, update_failure = 910;

/// Holds the emulator for one call. `problem` is what every call answers while something is wrong.
struct call {
  std::lock_guard<std::recursive_mutex> lock{everything};
  world& w = all();
  int problem = !w.started ? not_initialized : w.lost != 0 ? w.lost : current == nullptr ? invalid_context : success;
};

device_memory& memory_here() { return all().memory[static_cast<std::size_t>(current->device)]; }

operation launch_of(function* f, uint3 grid, uint3 block, unsigned shared, void** parameters) {
  operation o;
  o.what = operation::kind::launch;
  o.entry = f;
  o.grid = grid;
  o.block = block;
  o.shared = shared;
  o.parameters = packed(*f, parameters);
  return o;
}

int check_launch(const function& f, uint3 grid, uint3 block, unsigned shared) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    return invalid_value;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > machine::most_threads) return invalid_value;
  if (shared > static_cast<unsigned>(f.dynamic_limit)) return invalid_value;
  if (f.device != current->device) return invalid_handle;
  if (setting("SINTER_EMULATOR_REFUSE") == f.name) return out_of_resources;
  return success;
}

operation copy_of(void* to, const void* from, std::size_t bytes) {
  operation o;
  o.call = [=] { std::memcpy(to, from, bytes); };
  return o;
}

bool is_pinned(const void* p, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  auto found = all().pinned.upper_bound(at);
  return found != all().pinned.begin() && (--found, at + bytes <= found->first + found->second);
}

struct kernel_node {
  function* entry;
  unsigned grid[3], block[3], shared;
  void** parameters;
};
struct memset_node {
  unsigned long long to;
  std::size_t pitch;
  unsigned value, element;
  std::size_t width, height;
};

int add_node(graph::node** out, graph* g, operation o) {
  auto n = std::make_unique<graph::node>();
  n->work = std::move(o);
  n->owner = g;
  n->index = g->nodes.size();
  *out = n.get();
  g->nodes.push_back(std::move(n));
  return success;
}

operation fill_of(unsigned long long to, unsigned value, std::size_t bytes) {
  operation o;
  o.what = operation::kind::fill;
  o.to = to;
  o.value = value;
  o.bytes = bytes;
  return o;
}

operation* node_of(executable* e, graph::node* n) {
  const auto found = e->index.find(n);
  return found == e->index.end() ? nullptr : &e->work[found->second];
}

bool same_shape(const std::vector<operation>& a, const graph& b) {
  if (a.size() != b.nodes.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].what != b.nodes[i]->work.what) return false;
  return true;
}

std::vector<operation> work_of(const graph& g) {
  std::vector<operation> out;
  for (const auto& n : g.nodes) out.push_back(n->work);
  return out;
}

}  // namespace

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
int cuDevicePrimaryCtxRetain(context** out, int device) {
  const std::lock_guard lock(everything);
  if (setting("SINTER_EMULATOR_MODE") == "exclusive") return unavailable;
  if (setting("SINTER_EMULATOR_MODE") == "full") return out_of_memory;
  return *out = all().contexts[static_cast<std::size_t>(device)].get(), success;
}
int cuCtxSetCurrent(context* c) { return current = c, success; }
int cuCtxGetCurrent(context** c) { return *c = current, success; }
int cuCtxSynchronize() {
  call c;
  if (c.problem == success) c.w.drain(current->device), c.problem = c.w.lost;
  return c.problem;
}

int cuModuleLoadData(module** out, const void* image) {
  call c;
  if (c.problem != success) return c.problem;
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
  std::string path = "/proc/self/fd/";
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

int cuStreamCreate(stream** out, unsigned) {
  call c;
  if (c.problem != success) return c.problem;
  *out = new stream;
  (*out)->device = current->device;
  c.w.streams.insert(*out);
  return success;
}
int cuStreamSynchronize(stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  c.w.run_until(*s, s->asked);
  return c.w.lost;
}
int cuStreamQuery(stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  const bool done = s->done == s->asked;
  // Asking makes progress, as time does.
  if (!done) c.w.run_until(*s, s->done + 1);
  return done ? success : not_ready;
}
int cuStreamWaitEvent(stream* s, event* e, unsigned) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where == nullptr) return success;
  operation o;
  o.what = operation::kind::wait;
  o.other = e->where;
  o.until = e->at;
  c.w.enqueue(*s, std::move(o));
  return success;
}
int cuStreamBeginCapture_v2(stream* s, int) {
  call c;
  if (c.problem != success) return c.problem;
  return s->capture = new graph, success;
}
int cuStreamEndCapture(stream* s, graph** out) {
  call c;
  return *out = std::exchange(s->capture, nullptr), success;
}

int cuEventCreate(event** out, unsigned) { return *out = new event, success; }
int cuEventDestroy_v2(event* e) { return delete e, success; }
int cuEventRecord(event* e, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  operation o;
  o.call = [time = e->time] { *time = now(); };
  c.w.enqueue(*s, std::move(o));
  e->where = s;
  e->at = s->asked;
  return success;
}
int cuEventQuery(event* e) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where == nullptr || e->where->done >= e->at) return success;
  c.w.run_until(*e->where, e->where->done + 1);
  return not_ready;
}
int cuEventSynchronize(event* e) {
  call c;
  if (c.problem != success) return c.problem;
  if (e->where != nullptr) c.w.run_until(*e->where, e->at);
  return c.w.lost;
}
int cuEventElapsedTime(float* out, event* start, event* end) {
  return *out = static_cast<float>(*end->time - *start->time), success;
}

int cuGraphCreate(graph** out, unsigned) { return *out = new graph, success; }
int cuGraphDestroy(graph* g) { return delete g, success; }
int cuGraphAddKernelNode_v2(graph::node** out, graph* g, graph::node* const*, std::size_t, const kernel_node* p) {
  call c;
  if (c.problem != success) return c.problem;
  const uint3 grid{p->grid[0], p->grid[1], p->grid[2]}, block{p->block[0], p->block[1], p->block[2]};
  if (const int r = check_launch(*p->entry, grid, block, p->shared); r != success) return r;
  return add_node(out, g, launch_of(p->entry, grid, block, p->shared, p->parameters));
}
int cuGraphAddMemsetNode(graph::node** out, graph* g, graph::node* const*, std::size_t, const memset_node* p,
                         context*) {
  return add_node(out, g, fill_of(p->to, p->value, p->width * p->element));
}
int cuGraphAddChildGraphNode(graph::node** out, graph* g, graph::node* const*, std::size_t, graph* child) {
  operation o;
  o.what = operation::kind::child;
  o.inside = work_of(*child);
  return add_node(out, g, std::move(o));
}
int cuGraphInstantiateWithFlags(executable** out, graph* g, unsigned long long) {
  auto made = std::make_unique<executable>();
  for (const auto& n : g->nodes) made->index[n.get()] = n->index;
  made->work = work_of(*g);
  return *out = made.release(), success;
}
int cuGraphExecKernelNodeSetParams_v2(executable* e, graph::node* n, const kernel_node* p) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::launch || o->entry != p->entry) return invalid_value;
  o->parameters = packed(*p->entry, p->parameters);
  o->grid = {p->grid[0], p->grid[1], p->grid[2]};
  return success;
}
int cuGraphExecMemsetNodeSetParams(executable* e, graph::node* n, const memset_node* p, context*) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::fill || o->bytes != p->width * p->element) return invalid_value;
  return *o = fill_of(p->to, p->value, p->width * p->element), success;
}
int cuGraphExecChildGraphNodeSetParams(executable* e, graph::node* n, graph* child) {
  call c;
  operation* const o = node_of(e, n);
  if (o == nullptr || o->what != operation::kind::child) return invalid_value;
  if (!same_shape(o->inside, *child)) return update_failure;
  return o->inside = work_of(*child), success;
}
int cuGraphLaunch(executable* e, stream* s) {
  call c;
  if (c.problem != success) return c.problem;
  for (const auto& o : e->work) c.w.enqueue(*s, o);
  return success;
}
int cuGraphExecDestroy(executable* e) { return delete e, success; }

/// For the stand-in of cuBLASLt: runs `run(data)` in the stream's order.
int sinterEnqueue(stream* s, void (*run)(void*), void* data) {
  call c;
  if (c.problem != success) return c.problem;
  operation o;
  o.call = [=] { run(data); };
  c.w.enqueue(*s, std::move(o));
  return success;
}

}  // extern "C"
#pragma GCC visibility pop
