// What must hold for every kernel, each as a function from a subject to the first thing that does not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "subject.h"

namespace iron::fuzz {

struct Failure {
  std::string kind;    ///< what fails, without numbers: two failures of one kind are one fault
  std::string detail;  ///< for people
};

struct Judge {
  std::string_view name, meaning;
  std::optional<Failure> (*run)(const Subject&);
};

/// "sound" first: the others suppose it.
std::span<const Judge> judges();
/// The judge of that name, or nullptr.
const Judge* find_judge(std::string_view name);
/// The first failure under a judge; what it throws is a failure too.
std::optional<Failure> apply(const Judge& judge, const Subject& s);

}  // namespace iron::fuzz
