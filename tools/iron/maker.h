// Builds the data and oracles of cases ahead of the device that will run them, on as many threads as allowed.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "bundle.h"

namespace iron::tool {

/// A case with the generator that keeps its arrays alive, or why it could not be made.
struct Made {
  std::unique_ptr<Gen> gen;
  std::optional<Case> c;
  std::string error;
};

inline Made make_case(const CaseSource& source, u64 seed) {
  Made m;
  m.gen = std::make_unique<Gen>(seed);
  try {
    m.c = source.make(*m.gen);
  } catch (const std::exception& e) {
    m.error = e.what();
  }
  return m;
}

/// Hands out the cases in order, at most `threads` of them made and waiting.
class Maker {
 public:
  Maker(const std::vector<CaseSource>& sources, u64 seed, int threads)
      : sources_(sources),
        seed_(seed),
        window_(threads > 0 ? static_cast<std::size_t>(threads) : std::max(1u, std::thread::hardware_concurrency())) {}
  Made next() {
    while (started_ < sources_.size() && waiting_.size() < window_)
      waiting_.push_back(std::async(std::launch::async, make_case, std::cref(sources_[started_++]), seed_));
    auto made = waiting_.front().get();
    waiting_.pop_front();
    if (started_ < sources_.size())
      waiting_.push_back(std::async(std::launch::async, make_case, std::cref(sources_[started_++]), seed_));
    return made;
  }

 private:
  const std::vector<CaseSource>& sources_;
  u64 seed_;
  std::size_t window_, started_ = 0;
  std::deque<std::future<Made>> waiting_;
};

}  // namespace iron::tool
