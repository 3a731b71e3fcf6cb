#include "bench/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>

#include "core/disk_cache.h"
#include "iron/error.h"

extern char** environ;

namespace iron::bench {

namespace fs = std::filesystem;

namespace {
// The output of a command, or nothing if it fails.
std::optional<std::string> output_of(const char* command) {
  std::FILE* pipe = popen(command, "r");
  if (!pipe) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  while (const auto n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  if (pclose(pipe) != 0) return std::nullopt;
  return text;
}
}  // namespace

fs::path cache_folder() {
  fs::path folder = cache_root();
  if (folder.empty()) folder = fs::temp_directory_path() / fmt::format("iron-{}", getuid());
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw Error("BENCH02", fmt::format("the cache folder {} cannot be made: {}", folder.string(), failed.message()),
                "set IRON_CACHE to a folder that can be written");
  return folder;
}

MeasureLock::MeasureLock(Kind kind, const std::function<void()>& waiting) {
  // One for the machine, whatever cache or user: the clock and the memory are shared by all.
  const auto path = fs::temp_directory_path() / "iron-measure.lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == EACCES) file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // another user's
  if (file_ < 0)
    throw Error("BENCH01", fmt::format("the lock file {} cannot be opened: {}", path.string(), std::strerror(errno)),
                "set TMPDIR to a folder that can be written");
  const int how = kind == Kind::exclusive ? LOCK_EX : LOCK_SH;
  if (flock(file_, how | LOCK_NB) == 0) return;
  if (waiting) waiting();
  const auto start = std::chrono::steady_clock::now();
  while (flock(file_, how) != 0)
    if (errno != EINTR) {
      const std::string why = std::strerror(errno);
      close(file_);
      throw Error("BENCH01", fmt::format("the lock {} cannot be taken: {}", path.string(), why));
    }
  waited_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

MeasureLock::~MeasureLock() { close(file_); }

std::optional<TreeState> tree_state() {
  auto commit = output_of("git rev-parse HEAD 2>/dev/null");
  if (!commit) return std::nullopt;
  while (!commit->empty() && commit->back() == '\n') commit->pop_back();
  const auto changes = output_of("git status --porcelain --untracked-files=no 2>/dev/null");
  return TreeState{*commit, !changes || !changes->empty()};
}

std::map<std::string, std::string> environment_overrides() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto eq = text.find('=');
    if (text.starts_with("IRON_") && eq != std::string_view::npos)
      found.emplace(text.substr(0, eq), text.substr(eq + 1));
  }
  return found;
}

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string session_id() {
  static const std::string id = [] {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
  }();
  return id;
}

}  // namespace iron::bench
