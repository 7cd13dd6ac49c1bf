#!/usr/bin/env python3
"""The recipes of packaging/ beside stand-ins of vcpkg and Conan: they parse, agree with the source, and call what there is.

    recipes.py CMAKE SOURCE_FOLDER
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import types

# vcpkg's functions as the port may call them; each prints its name and arguments.
VCPKG = """
foreach(name IN ITEMS vcpkg_cmake_configure vcpkg_cmake_install vcpkg_cmake_config_fixup vcpkg_install_copyright)
  function(${name})
    message(STATUS "${CMAKE_CURRENT_FUNCTION} ${ARGN}")
  endfunction()
endforeach()
set(CURRENT_PACKAGES_DIR "@packages@")
include("@port@/portfile.cmake")
"""


def vcpkg(cmake, root, version, work):
    port = os.path.join(root, "packaging", "vcpkg", "sinter")
    with open(os.path.join(port, "vcpkg.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    names = [d if isinstance(d, str) else d["name"] for d in manifest["dependencies"]]
    wrong = [] if manifest["version"] == version else [f"vcpkg.json has version {manifest['version']}, the source {version}"]
    wrong += [f"vcpkg.json does not depend on {need}" for need in ("boost-hana", "xsimd", "nlohmann-json", "vcpkg-cmake", "vcpkg-cmake-config")
              if need not in names]
    os.makedirs(os.path.join(work, "debug", "include"))
    script = os.path.join(work, "port.cmake")
    with open(script, "w", encoding="utf-8") as f:
        f.write(VCPKG.replace("@packages@", work).replace("@port@", port))
    done = subprocess.run([cmake, "-P", script], capture_output=True, text=True)
    source = re.search(r"vcpkg_cmake_configure SOURCE_PATH;(.*?);OPTIONS", done.stdout)
    if done.returncode != 0 or not source or not os.path.samefile(source.group(1), root):
        wrong.append(f"portfile.cmake: {done.stdout}{done.stderr}")
    wrong += [f"portfile.cmake does not call {name}" for name in ("vcpkg_cmake_install", "vcpkg_cmake_config_fixup") if name not in done.stdout]
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as f:
        known = set(re.findall(r"^option\((SINTER_\w+)", f.read(), re.M))
    wrong += [f"portfile.cmake sets {name}, which CMakeLists.txt lacks" for name in re.findall(r"-D(SINTER_\w+)=", done.stdout) if name not in known]
    return wrong


def conan(root, version, work):
    """Runs each step of the recipe and notes what it asks for."""
    asked, copied = [], []
    cmake = type("CMake", (), {"__init__": lambda self, recipe: None, **{step: (lambda self, step=step: asked.append(step)) for step in ("configure", "build", "install")}})
    toolchain = type("CMakeToolchain", (), {"__init__": lambda self, recipe: setattr(self, "cache_variables", {}),
                                            "generate": lambda self: asked.append(self.cache_variables)})

    class recipe_base:
        recipe_folder = os.path.join(root, "packaging", "conan")
        export_sources_folder = work

        def requires(self, need, transitive_headers=False):
            asked.append(need.split("/")[0] if transitive_headers else f"{need} without its headers")

    modules = {
        "conan": {"ConanFile": recipe_base},
        "conan.tools.build": {"check_min_cppstd": lambda recipe, standard: asked.append(standard)},
        "conan.tools.cmake": {"CMake": cmake, "CMakeToolchain": toolchain, "cmake_layout": lambda recipe: None},
        "conan.tools.files": {"copy": lambda recipe, pattern, source, to: copied.append((pattern, source)),
                              "load": lambda recipe, path: open(path, encoding="utf-8").read()},
    }
    for name in ("conan", "conan.tools", *modules):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(modules.get(name, {}))
    with open(os.path.join(recipe_base.recipe_folder, "conanfile.py"), encoding="utf-8") as f:
        space = {}
        exec(compile(f.read(), "conanfile.py", "exec"), space)
    recipe = space["sinter"]()
    headers = types.SimpleNamespace(cpp_info=types.SimpleNamespace(includedirs=["/headers"]))
    recipe.dependencies = {"boost": headers, "xsimd": headers, "nlohmann_json": headers}
    recipe.cpp_info = types.SimpleNamespace(set_property=lambda name, value: asked.append((name, value)))
    for step in ("set_version", "export_sources", "requirements", "validate", "layout", "generate", "build", "package", "package_info"):
        getattr(recipe, step)()
    wrong = [] if recipe.version == version else [f"conanfile.py has version {recipe.version}, the source {version}"]
    wrong += [f"conanfile.py does not ask for {need}" for need in ("boost", "xsimd", "nlohmann_json", 20, "configure", "build", "install", ("cmake_find_mode", "none"))
              if need not in asked]
    variables = next(a for a in asked if isinstance(a, dict))
    if variables.get("SINTER_TESTS") is not False or variables.get("SINTER_XSIMD_INCLUDE_DIR") != "/headers":
        wrong.append(f"conanfile.py sets {variables}")
    folders = {pattern.split("/")[0] for pattern, source in copied if os.path.samefile(source, root)}
    return wrong + [f"conanfile.py does not export {name}" for name in ("CMakeLists.txt", "cmake", "include") if name not in folders]


def main():
    cmake, root = sys.argv[1:]
    with open(os.path.join(root, "include", "sinter", "base", "config.hpp"), encoding="utf-8") as f:
        version = re.search(r'#define SINTER_VERSION "(.*?)"', f.read()).group(1)
    with tempfile.TemporaryDirectory() as work:
        wrong = vcpkg(cmake, root, version, work) + conan(root, version, work)
    print("\n".join(wrong) or "the recipes agree with the source")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
