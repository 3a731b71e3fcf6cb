// `iron lint`: reads the text of kernels for what is legal C++ and wrong in a recorded body.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "app.h"
#include "iron/error.h"
#include "lint_source.h"
#include "messages.h"

namespace iron::tool {

namespace {

namespace fs = std::filesystem;

bool is_source(const fs::path& p) {
  static const std::vector<std::string> extensions{".cpp", ".cc", ".cxx", ".h", ".hpp", ".hh"};
  return std::find(extensions.begin(), extensions.end(), p.extension().string()) != extensions.end();
}

// The files that were named, and the sources of the folders that were named, in order.
std::vector<fs::path> sources_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> out;
  for (const auto& path : paths) {
    if (!fs::exists(path)) throw Error("TOOL01", path + " does not exist", "name a file or a folder of C++ sources");
    if (!fs::is_directory(path)) {
      out.emplace_back(path);
      continue;
    }
    const auto first = out.size();
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && is_source(entry.path())) out.push_back(entry.path());
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }
  return out;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("TOOL01", path.string() + " cannot be read", "check its permissions");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

int run(const Globals& globals, const std::vector<std::string>& paths) {
  std::size_t files = 0, bodies = 0, findings = 0;
  for (const auto& path : sources_of(paths)) {
    const auto result = lint_source(text_of(path), path.string());
    ++files, bodies += result.bodies, findings += result.findings.size();
    for (const auto& d : result.findings) {
      if (globals.json)
        fmt::print("{}\n", Json{{"type", "finding"},
                                {"code", d.code},
                                {"message", d.message},
                                {"file", d.file},
                                {"line", d.line},
                                {"column", d.column},
                                {"fix", d.fix}}
                               .dump());
      else
        fmt::print(stderr, "{}", d.render());
    }
  }
  if (bodies == 0)
    throw Error("TOOL03", fmt::format("no kernel is in {} files: nothing was read", files),
                "a kernel's body is its 'void operator()() const'");
  if (globals.json)
    fmt::print(
        "{}\n",
        Json{{"type", "done"}, {"ok", findings == 0}, {"files", files}, {"kernels", bodies}, {"findings", findings}}
            .dump());
  else
    fmt::print("{} kernels in {} files, {} findings\n", bodies, files, findings);
  return findings ? failure : success;
}

}  // namespace

void add_lint(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "lint", "Find what is legal C++ and wrong in a kernel's body",
                         "  iron lint my_kernels.cpp\n"
                         "  iron lint kernels/ --json");
  auto paths = std::make_shared<std::vector<std::string>>();
  sub->add_option("FILE", *paths, "C++ sources, or folders of them")->required()->type_name("");
  sub->callback([&globals, &action, paths] { action = [&globals, paths] { return run(globals, *paths); }; });
}

}  // namespace iron::tool
