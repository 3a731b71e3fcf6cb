#include "nvptx.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "emit/cuda/cuda.h"
#include "iron/error.h"
#include "target/profile.h"

namespace iron {

namespace {
namespace fs = std::filesystem;
using runtime::cuda::OfflineJob;
using runtime::cuda::OfflineResult;

constexpr std::size_t texts_a_process = 24;  // the prelude and the process cost as much as several kernels

std::string contents(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A folder that goes away with it.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("iron-nvptx-{}", getpid())) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path file(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

class Nvptx {
 public:
  Nvptx(const std::vector<OfflineJob>& jobs, std::string clang) : jobs_(jobs), clang_(std::move(clang)) {}

  std::vector<OfflineResult> run() {
    results_.resize(jobs_.size()), texts_.resize(jobs_.size());
    each(jobs_.size(), [&](std::size_t i) { emit(i); });
    std::map<std::string, std::vector<std::size_t>> by_arch;
    for (std::size_t i = 0; i < jobs_.size(); ++i)
      if (results_[i].ok()) by_arch[jobs_[i].arch].push_back(i);
    std::vector<std::vector<std::size_t>> batches;
    for (const auto& [arch, all] : by_arch) {
      std::string log;
      if (!compile("", arch, "nothing-" + arch, nullptr, log)) {
        for (const std::size_t i : all)
          results_[i].refused = fmt::format("{} does not compile for {}: {}", clang_, arch, log);
        continue;
      }
      for (std::size_t at = 0; at < all.size(); at += texts_a_process)
        batches.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                             all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), at + texts_a_process)));
    }
    each(batches.size(), [&](std::size_t b) { together(batches[b]); });
    return std::move(results_);
  }

 private:
  template <class F>
  static void each(std::size_t n, const F& work) {
    std::atomic<std::size_t> next{0};
    const auto loop = [&] {
      for (std::size_t i = next++; i < n; i = next++) work(i);
    };
    std::vector<std::thread> workers;
    for (u32 t = 1; t < std::thread::hardware_concurrency(); ++t) workers.emplace_back(loop);
    loop();
    for (auto& w : workers) w.join();
  }

  static std::string entry(std::size_t i) { return fmt::format("kernel_{}", i); }

  void emit(std::size_t i) {
    const OfflineJob& job = jobs_[i];
    try {
      auto kernel = *job.optimised;
      kernel.name = entry(i);  // those that tests record have one name
      texts_[i] = emit::emit_cuda(kernel, job.threads, target::profile(job.arch)).text;
    } catch (const Error& e) {
      const bool lacks = e.code() == "D20" || e.code() == "D27";
      (lacks ? results_[i].refused : results_[i].error) = e.what();
    } catch (const std::exception& e) {
      results_[i].error = e.what();
    }
  }

  // Each text brings its own helpers: a namespace a kernel keeps them apart.
  std::string wrapped(std::size_t i) const {
    return fmt::format("namespace text{} {{\n#line 1 \"{}\"\n{}\n}}\n", i, jobs_[i].name, texts_[i]);
  }

  void together(const std::vector<std::size_t>& batch) {
    std::string all, ptx, log;
    for (const std::size_t i : batch) all += wrapped(i);
    const bool fine = compile(all, jobs_[batch[0]].arch, fmt::format("batch-{}", batch[0]), &ptx, log);
    for (const std::size_t i : batch) {
      auto& r = results_[i];
      // What is wrong with one text is asked of it alone.
      if (!fine && !compile(wrapped(i), jobs_[i].arch, fmt::format("text-{}", i), &ptx, log))
        r.error = log;
      else if (ptx.find(fmt::format(".entry {}(", entry(i))) == std::string::npos)
        r.error = fmt::format("the PTX has no entry '{}'", entry(i));
    }
  }

  bool compile(const std::string& text, const std::string& arch, const std::string& name, std::string* ptx,
               std::string& log) const {
    const auto in = folder_.file(name + ".cu"), out = folder_.file(name + ".ptx"),
               messages = folder_.file(name + ".log");
    std::ofstream(in) << text;
    // The highest CUDA version that this clang knows is below the newest toolkit's: it says so each time.
    const auto command = fmt::format(
        "'{}' -std=c++17 -x cuda --cuda-device-only --cuda-gpu-arch={} -nocudainc -nocudalib -Wno-unknown-cuda-version "
        "-ffp-contract=off -O1 -include '{}' -S -o '{}' '{}' 2>'{}'",
        clang_, arch, IRON_NVPTX_PRELUDE, out.string(), in.string(), messages.string());
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): glibc's is safe
    log = contents(messages);
    if (ptx) *ptx = contents(out);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  const std::vector<OfflineJob>& jobs_;
  const std::string clang_;
  Folder folder_;
  std::vector<OfflineResult> results_;
  std::vector<std::string> texts_;
};
}  // namespace

std::vector<OfflineResult> compile_nvptx(const std::vector<OfflineJob>& jobs, const std::string& clang) {
  return Nvptx(jobs, clang).run();
}

}  // namespace iron
