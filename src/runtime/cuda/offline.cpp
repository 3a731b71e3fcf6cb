#include "runtime/cuda/offline.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "iron/error.h"

namespace iron::runtime::cuda {

OfflineResult compile_offline(const OfflineJob& job, const DiskCache* cache) {
  OfflineResult r;
  try {
    r.kernel =
        compile_cubin(*job.optimised, job.threads, job.arch, cache, {.dependent_launch = true, .matrix = matrix_use()});
    r.report = ptxas_report(r.kernel.binary.log);
  } catch (const Error& e) {
    // A capability or a limit that the architecture lacks is a refusal, anything else a fault.
    const bool lacks = e.code() == "D20" || e.code() == "D27";
    (lacks ? r.refused : r.error) = e.what();
  } catch (const std::exception& e) {
    r.error = e.what();
  }
  return r;
}

std::vector<OfflineResult> compile_offline(const std::vector<OfflineJob>& jobs, const DiskCache* cache, u32 threads,
                                           const std::function<void(std::size_t)>& done) {
  std::vector<OfflineResult> results(jobs.size());
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  std::mutex reporting;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      results[i] = compile_offline(jobs[i], cache);
      if (!done) continue;
      const std::lock_guard lock(reporting);
      done(i);
    }
  };
  std::vector<std::thread> workers;
  for (u32 t = 1; t < std::min<std::size_t>(threads, jobs.size()); ++t) workers.emplace_back(work);
  work();
  for (auto& w : workers) w.join();
  return results;
}

}  // namespace iron::runtime::cuda
