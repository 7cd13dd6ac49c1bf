// tests/emulator/nvrtc.cpp: a stand-in for libnvrtc.so whose "CUBIN" is a shared object for the emulated driver.
//
// Where the real NVRTC is found it judges each source first, for sm_80 and sm_90: what it refuses is refused. Sources with
// words of one chip are judged for sm_90a alone.
// SINTER_EMULATOR_NVRTC  the real one's path; "none": do without
// SINTER_EMULATOR_REJECT text that is refused where it is part of a source
// SINTER_EMULATOR_CACHE  a folder that keeps what the sources became, for suites of several compilers; their kernels are the same
#include <sinter/run/build/cache.hpp>
#include <sinter/run/cuda/device/library.hpp>
#include <sinter/run/host/compiler.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "memory.hpp"

#if !defined(SINTER_EMULATOR_DEVICE) || !defined(SINTER_EMULATOR_CXX)
#error "the build says where device.hpp and the compiler are"
#endif

namespace {

namespace run = sinter::engine::run;

struct program {
  std::string source, log, image;
};

/// The real NVRTC's entry points; null where there is none.
struct judge {
  int (*create)(void** out, const char* source, const char* name, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(void** which) = nullptr;
  int (*compile)(void* which, int options, const char* const* option) = nullptr;
  int (*log_bytes)(void* which, std::size_t* bytes) = nullptr;
  int (*log)(void* which, char* out) = nullptr;
  int major = 0;
};

const judge& real() {
  static const judge found = [] {
    judge j;
    if (run::detail::environment("SINTER_EMULATOR_NVRTC") == "none") return j;
    const auto library = run::cuda::open_library(
        {"SINTER_EMULATOR_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, {"cu13", "cuda_nvrtc"}});
    if (library.handle == nullptr) {
      std::fputs("[emulator] no NVRTC: kernels are compiled by the host compiler only\n", stderr);
      return j;
    }
    const auto take = [&](auto& pointer, const char* name) {
      pointer = reinterpret_cast<std::decay_t<decltype(pointer)>>(::dlsym(library.handle, name));
    };
    take(j.create, "nvrtcCreateProgram");
    take(j.destroy, "nvrtcDestroyProgram");
    take(j.compile, "nvrtcCompileProgram");
    take(j.log_bytes, "nvrtcGetProgramLogSize");
    take(j.log, "nvrtcGetProgramLog");
    int (*version)(int* major, int* minor) = nullptr;
    take(version, "nvrtcVersion");
    int minor = 0;
    if (version != nullptr) version(&j.major, &minor);
    return j;
  }();
  return found;
}

/// NVRTC's words when it refuses the source for an architecture; "" when it does not.
std::string refusal(const std::string& source, const char* architecture) {
  const judge& j = real();
  if (j.create == nullptr) return "";
  void* which = nullptr;
  if (j.create(&which, source.c_str(), "kernel.cu", 0, nullptr, nullptr) != 0) return "NVRTC made no program";
  const std::string option = std::string("--gpu-architecture=") + architecture;
  // As run/cuda/program/nvrtc.hpp has them; what is thrown away need not be fast.
  std::vector<const char*> options = {option.c_str(), "--std=c++17", "--fmad=false", "-w"};
  if (j.major >= 13) options.insert(options.end(), {"--minimal", "-Ofc=max"});
  std::string log;
  if (j.compile(which, static_cast<int>(options.size()), options.data()) != 0) {
    std::size_t bytes = 0;
    j.log_bytes(which, &bytes);
    log.resize(bytes);
    j.log(which, log.data());
    while (!log.empty() && log.back() == '\0') log.pop_back();
    log = std::string(architecture) + ": " + log;
  }
  j.destroy(&which);
  return log;
}

/// The kernels of a text: their names, and these within their namespaces.
std::vector<std::pair<std::string, std::string>> kernels_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  std::vector<std::string> scopes;  // of each open brace: the namespace that it opens, or ""
  std::string last, before_last;    // words
  bool wants_name = false;
  int parentheses = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '/' && text.compare(i, 2, "//") == 0) {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '/' && text.compare(i, 2, "/*") == 0) {
      i = std::min(text.find("*/", i + 2), text.size()) + 1;
    } else if (c == '#') {
      while (i < text.size() && (text[i] != '\n' || text[i - 1] == '\\')) ++i;
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c; ++i)
        if (text[i] == '\\') ++i;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::size_t end = i;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      before_last = last;
      last = text.substr(i, end - i);
      i = end - 1;
      if (last == "__global__") wants_name = true;
    } else if (c == '(') {
      if (wants_name && parentheses == 0 && last != "__launch_bounds__") {
        std::string scope;
        for (const auto& s : scopes)
          if (!s.empty()) scope += s + "::";
        out.emplace_back(last, scope + last);
        wants_name = false;
      }
      ++parentheses;
    } else if (c == ')') {
      --parentheses;
    } else if (c == '{') {
      scopes.push_back(before_last == "namespace" ? last : "");
      last.clear();
    } else if (c == '}' && !scopes.empty()) {
      scopes.pop_back();
      last.clear();
    }
  }
  return out;
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/// `extern __shared__ T name[];` becomes a pointer to the block's dynamic shared memory.
void dynamic_shared(std::string& text) {
  const std::string words = "extern __shared__";
  for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos;) {
    const std::size_t bracket = text.find('[', at), end = text.find(';', at);
    if (bracket == std::string::npos || end == std::string::npos || bracket > end) return;
    std::size_t stop = bracket;
    while (text[stop - 1] == ' ') --stop;
    std::size_t start = stop;
    while (std::isalnum(static_cast<unsigned char>(text[start - 1])) || text[start - 1] == '_') --start;
    const std::string name = text.substr(start, stop - start);
    std::string type = text.substr(at + words.size(), start - at - words.size());
    // The memory is aligned, not each element.
    if (const auto align = type.find("__align__("); align != std::string::npos)
      type.erase(align, type.find(')', align) + 1 - align);
    const std::string made = "typedef " + type + " sinter_type_" + name + ";\n#define " + name + " ((sinter_type_" +
                             name + "*)sinter_emulated->dynamic_shared)\n";
    text.replace(at, end + 1 - at, made);
    at += made.size();
  }
}

/// What follows device.hpp.
std::string host_text(const std::string& source) {
  std::string text = source;
  dynamic_shared(text);
  replace_all(text, "static __shared__", "__shared__");
  std::string out = "#line 1 \"kernel.cu\"\n" + text + "\n";
  for (const auto& [name, qualified] : kernels_of(text)) out += "SINTER_EMULATE(" + name + ", " + qualified + ")\n";
  if (text.find("__shared__") != std::string::npos)
    out +=
        "extern \"C\" char __start_sinter_shared[] __attribute__((weak)), __stop_sinter_shared[] "
        "__attribute__((weak));\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void sinter_shared_bounds(char** first, char** last) {\n"
        "  *first = __start_sinter_shared;\n  *last = __stop_sinter_shared;\n}\n";
  return out;
}

const std::vector<std::string>& host_command() {
  static const std::vector<std::string> all = {SINTER_EMULATOR_CXX,
                                               "-std=c++17",
                                               "-O1",
                                               "-shared",
                                               "-fPIC",
                                               "-fwrapv",
                                               "-fno-strict-aliasing",
                                               "-ffp-contract=off",
                                               "-fvisibility=hidden",
                                               "-w",
                                               "-fsanitize=alignment,bounds",
                                               "-fsanitize-undefined-trap-on-error",
                                               "-nodefaultlibs"};
  return all;
}

bool compile_for_host(program& p) {
  const run::detail::scratch_folder scratch;
  const std::string text = scratch.path() + "/kernel.cpp", object = scratch.path() + "/kernel.so";
  run::detail::write_file(text, "#include \"" SINTER_EMULATOR_DEVICE "\"\n" + host_text(p.source));
  std::vector<std::string> argv = host_command();
  for (const std::string& last : {text, std::string("-o"), object, std::string("-lm")}) argv.push_back(last);
  const auto result = run::run_process(argv, scratch.path(), std::chrono::seconds(120));
  p.log = result.log;
  p.image = result.how == run::outcome::ok ? run::detail::read_file(object) : "";
  if (p.image.empty()) {
    p.log = "NVRTC accepts the kernel, the emulator's host compiler does not:\n" + p.log;
    return false;
  }
  return true;
}

/// The architectures for which NVRTC judges a text: both, or with SINTER_EMULATOR_TURN, 0 or 1, one by the text.
std::vector<const char*> architectures_of(const std::string& source) {
  if (source.find("wgmma.mma_async") != std::string::npos) return {"sm_90a"};
  const std::string turn = run::detail::environment("SINTER_EMULATOR_TURN");
  if (turn.empty()) return {"sm_80", "sm_90"};
  return {(run::digest_of(source).first + (turn == "1")) % 2 ? "sm_80" : "sm_90"};
}

/// Everything but the source that decides what it becomes; the file of the compiler stands for its version.
const std::string& surroundings() {
  static const std::string all = [] {
    std::string out = std::to_string(real().major);
    for (const auto& word : host_command()) out += " " + word;
    struct stat file {};
    if (::stat(SINTER_EMULATOR_CXX, &file) == 0)
      out += " " + std::to_string(file.st_size) + " " + std::to_string(file.st_mtime);
    return out + "\n" + run::detail::read_file(SINTER_EMULATOR_DEVICE);
  }();
  return all;
}

/// Where SINTER_EMULATOR_CACHE keeps what the source became; "": nowhere.
std::string kept_at(const std::string& source) {
  const std::string folder = run::detail::environment("SINTER_EMULATOR_CACHE");
  if (folder.empty()) return "";
  std::string judged;
  for (const char* architecture : architectures_of(source)) judged += architecture;
  const run::digest d = run::digest_of(surroundings() + judged + source + host_text(source));
  char name[40];
  std::snprintf(name, sizeof name, "/%016llx%016llx", static_cast<unsigned long long>(d.first),
                static_cast<unsigned long long>(d.second));
  return folder + name;
}

/// What is accepted, from the folder or for it.
bool accept(program& p) {
  const std::string kept = kept_at(p.source);
  if (!kept.empty() && !(p.image = run::detail::read_file(kept)).empty()) return true;
  for (const char* architecture : architectures_of(p.source))
    if (p.log = refusal(p.source, architecture); !p.log.empty()) return false;
  if (!compile_for_host(p)) return false;
  const std::string whole =
      kept + "." + std::to_string(::getpid()) + "." + std::to_string(reinterpret_cast<std::uintptr_t>(&p));
  if (!kept.empty() && run::detail::write_file(whole, p.image)) std::rename(whole.c_str(), kept.c_str());
  return true;
}

}  // namespace

#define SINTER_EXPORT extern "C" __attribute__((visibility("default")))

SINTER_EXPORT int nvrtcVersion(int* major, int* minor) { return *major = emulator::library_major(), *minor = 0, 0; }
SINTER_EXPORT int nvrtcGetNumSupportedArchs(int* count) { return *count = 3, 0; }
SINTER_EXPORT int nvrtcGetSupportedArchs(int* all) { return all[0] = 75, all[1] = 80, all[2] = 90, 0; }
SINTER_EXPORT int nvrtcCreateProgram(program** out, const char* source, const char*, int, const char* const*,
                                     const char* const*) {
  return *out = new program{source, "", ""}, 0;
}
SINTER_EXPORT int nvrtcDestroyProgram(program** which) { return delete *which, *which = nullptr, 0; }
SINTER_EXPORT int nvrtcCompileProgram(program* p, int, const char* const*) {
  // Asked for to warm NVRTC up.
  if (p->source.empty()) return p->image = "\177ELF of nothing", 0;
  const std::string bad = run::detail::environment("SINTER_EMULATOR_REJECT");
  if (!bad.empty() && p->source.find(bad) != std::string::npos) return p->log = "error: rejected", 6;
  return accept(*p) ? 0 : 6;
}
SINTER_EXPORT int nvrtcGetCUBINSize(program* p, std::size_t* bytes) { return *bytes = p->image.size(), 0; }
SINTER_EXPORT int nvrtcGetCUBIN(program* p, char* out) { return std::memcpy(out, p->image.data(), p->image.size()), 0; }
SINTER_EXPORT int nvrtcGetPTXSize(program* p, std::size_t* bytes) { return nvrtcGetCUBINSize(p, bytes); }
SINTER_EXPORT int nvrtcGetPTX(program* p, char* out) { return nvrtcGetCUBIN(p, out); }
SINTER_EXPORT int nvrtcGetProgramLogSize(program* p, std::size_t* bytes) { return *bytes = p->log.size() + 1, 0; }
SINTER_EXPORT int nvrtcGetProgramLog(program* p, char* out) {
  return std::memcpy(out, p->log.c_str(), p->log.size() + 1), 0;
}
SINTER_EXPORT const char* nvrtcGetErrorString(int r) { return r == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
