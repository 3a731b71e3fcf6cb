// What surrounds a measurement: the folder of kept facts, the lock that makes it exclusive, and what a record must
// name.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace iron::bench {

/// $IRON_CACHE, or $XDG_CACHE_HOME/iron, or ~/.cache/iron; made if absent.
std::filesystem::path cache_folder();

/// P10: whoever times holds it alone; tests share it among themselves, so that they never run beside a timed section.
class MeasureLock {
 public:
  enum class Kind { exclusive, shared };
  /// Waits for the lock; `waiting` is called once if another process holds it. Throws iron::Error (BENCH01) where the
  /// lock file cannot be had.
  explicit MeasureLock(Kind kind, const std::function<void()>& waiting = {});
  ~MeasureLock();
  MeasureLock(const MeasureLock&) = delete;
  MeasureLock& operator=(const MeasureLock&) = delete;
  double waited_seconds() const { return waited_; }

 private:
  int file_ = -1;
  double waited_ = 0;
};

/// The state of the source tree in the current folder; absent outside a git repository.
struct TreeState {
  std::string commit;
  bool dirty = false;
};
std::optional<TreeState> tree_state();

/// Every IRON_* variable that is set: numbers were made under them.
std::map<std::string, std::string> environment_overrides();

/// UTC, "2026-01-31T12:00:00Z".
std::string timestamp();

/// A random id of this process's run, 16 hex digits.
std::string session_id();

}  // namespace iron::bench
