// Kernels with their tests, benches and notes: what a kernel file registers beside the kernel.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "iron/dsl/kernel.h"
#include "iron/instance.h"

namespace iron {

/// Host data of a test: contiguous elements with a shape, kept alive by the Gen that made it.
template <class T>
class Array {
 public:
  using value_type = T;
  Array(std::shared_ptr<std::vector<T>> storage, std::vector<u64> shape)
      : storage_(std::move(storage)), shape_(std::move(shape)) {}
  T* data() { return storage_->data(); }
  const T* data() const { return storage_->data(); }
  u64 size() const { return storage_->size(); }
  u64 dim(std::size_t i) const { return shape_.at(i); }
  T& operator[](u64 i) { return (*storage_)[i]; }
  const T& operator[](u64 i) const { return (*storage_)[i]; }
  /// The element as f64, exactly.
  f64 at(u64 i) const { return static_cast<f64>((*storage_)[i]); }

 private:
  std::shared_ptr<std::vector<T>> storage_;
  std::vector<u64> shape_;
};

/// Makes test data from a seed: the same on every machine, without period or symmetry, so that every element matters.
class Gen {
 public:
  explicit Gen(u64 seed) : seed_(seed) {}

  /// Uniform in [low, high), rounded to T.
  template <class T, class... D>
  Array<T> uniform(f64 low, f64 high, D... dims) {
    return make<T>([&](u64) { return low + (high - low) * unit(); }, dims...);
  }
  /// Normal with mean 0 and the given deviation, rounded to T; clipped at 6 deviations.
  template <class T, class... D>
  Array<T> normal(f64 deviation, D... dims) {
    return make<T>([&](u64) { return deviation * gaussian(); }, dims...);
  }
  /// The usual activations: normal with deviation 1.
  template <class T, class... D>
  Array<T> values(D... dims) {
    return normal<T>(1.0, dims...);
  }
  /// Integers in [low, high].
  template <class T, class... D>
  Array<T> integers(i64 low, i64 high, D... dims) {
    return make_with<T>(
        [&](u64) { return static_cast<T>(low + static_cast<i64>(next() % static_cast<u64>(high - low + 1))); },
        dims...);
  }
  /// f(i) for each element.
  template <class T, class F, class... D>
  Array<T> from(F f, D... dims) {
    return make_with<T>([&](u64 i) { return static_cast<T>(f(i)); }, dims...);
  }
  /// An output: poisoned, so that an element that is not written shows.
  template <class T, class... D>
  Array<T> output(D... dims) {
    return make_with<T>(
        [](u64) {
          T v;
          std::memset(static_cast<void*>(&v), 0xff, sizeof v);
          return v;
        },
        dims...);
  }
  template <class T, class... D>
  Array<T> zeros(D... dims) {
    return make_with<T>([](u64) { return T{}; }, dims...);
  }

  u64 next();  ///< 64 random bits
  f64 unit();  ///< [0, 1)
  f64 gaussian();
  u64 seed() const { return seed_; }

 private:
  template <class T, class F, class... D>
  Array<T> make_with(F f, D... dims) {
    const std::vector<u64> shape{static_cast<u64>(dims)...};
    u64 n = 1;
    for (const u64 d : shape) n *= d;
    auto storage = std::make_shared<std::vector<T>>(n);
    for (u64 i = 0; i < n; ++i) (*storage)[i] = f(i);
    alive_.push_back(storage);
    return Array<T>(std::move(storage), shape);
  }
  template <class T, class F, class... D>
  Array<T> make(F f, D... dims) {
    return make_with<T>([&](u64 i) { return T(static_cast<f64>(f(i))); }, dims...);
  }
  u64 seed_, counter_ = 0;
  bool has_spare_ = false;
  f64 spare_ = 0;
  std::vector<std::shared_ptr<void>> alive_;
};

/// Largest error of a passing test, absolute for |expected| <= 1 and relative above, by storage type; and the cosine
/// floor.
struct Tolerance {
  f64 f32_error = 0, f16_error = 0, bf16_error = 0;
  f64 cosine = 0.999;
  f64 of(DType t) const { return t == DType::f16 ? f16_error : t == DType::bf16 ? bf16_error : f32_error; }
};
constexpr Tolerance tolerance(f64 f32_error, f64 f16_error, f64 bf16_error) {
  return {f32_error, f16_error, bf16_error};
}
constexpr Tolerance exact_match{0, 0, 0};

/// One launch of a case.
struct Step {
  std::function<std::shared_ptr<ir::Kernel>()> record;
  std::string key;  ///< names type and specialisation: equal keys record the same kernel
  std::vector<BoundArg> args;
  Grid grid;
};

/// What an output must be: f64 values (compared under the test's tolerance) or exact bytes.
struct Expectation {
  const void* data = nullptr;  ///< the output's host address names it
  std::string name;
  DType dtype = DType::none;
  std::vector<f64> values;
  std::vector<std::byte> bytes;
  bool exact = false;
};

/// A kernel with arguments, and what its outputs must be. Several launches in order share their arrays.
class Case {
 public:
  Case() = default;  ///< no launch yet: for cases that are read from a file
  template <class K>
  explicit Case(K kernel) : Case(kernel, grid_of(kernel)) {}
  template <class K>
  Case(K kernel, Grid grid) {
    then(std::move(kernel), grid);
  }

  template <class K>
  Case& then(K kernel) {
    return then(kernel, grid_of(kernel));
  }
  template <class K>
  Case& then(K kernel, Grid grid) {
    Step s;
    s.key = std::string(detail::type_name<K>()) + "{" + specialisation(kernel) + "}";
    s.args = arguments(kernel);
    s.grid = grid;
    s.record = [kernel] { return iron::record(kernel, "case"); };
    steps.push_back(std::move(s));
    return *this;
  }
  /// The parameter of the last launch must equal these values, all of them, under the test's tolerance.
  Case& expect(std::string_view parameter, std::vector<f64> values);
  /// ... must equal these elements bit for bit.
  template <class T>
  Case& expect_exact(std::string_view parameter, const std::vector<T>& values) {
    return expect_bytes(parameter, std::as_bytes(std::span(values)));
  }
  Case& expect_bytes(std::string_view parameter, std::span<const std::byte> bytes);
  /// What a bench moves and computes; bytes default to the sum of the buffers.
  Case& moves(u64 bytes) {
    bytes_moved = bytes;
    return *this;
  }
  Case& computes(f64 flops) {
    flop_count = flops;
    return *this;
  }

  std::vector<Step> steps;
  std::vector<Expectation> expectations;
  u64 bytes_moved = 0;
  f64 flop_count = 0;

 private:
  const BoundArg& output(std::string_view parameter) const;
};

struct TestEntry {
  std::string name;
  Tolerance tolerance;
  std::function<Case(Gen&)> make;
};
struct BenchEntry {
  std::string shape;
  std::function<Case(Gen&)> make;
};
struct RejectedIdea {
  std::string idea, numbers, where;
};

/// One kernel x dtype of the library.
struct KernelEntry {
  std::string name, family, file;
  DType dtype = DType::none;
  Mode mode = Mode::Elementwise;
  std::string determinism = "bitwise";
  std::string needs;  ///< the capability without which a device refuses the kernel: "roles"; empty for portable kernels
  std::string doc;
  /// Shapes of the buffers, where scalars follow from them: "x, y: [..., n]; weight: [n]". A name stands for one size
  /// in all places and for the scalar of that name; "..." for any leading sizes, the same ones everywhere.
  std::string shapes;
  std::function<std::unique_ptr<KernelInstance>()> instance;      ///< with the entry's spec and no arguments
  std::function<std::shared_ptr<ir::Kernel>(bool probe)> record;  ///< the same, recorded
  std::vector<TestEntry> tests;
  std::vector<BenchEntry> benches;
  std::vector<RejectedIdea> rejected;
  /// "iron_rms_norm_f16".
  std::string full_name() const { return name + "_" + std::string(dtype_name(dtype)); }
};

/// The kernel of an entry. It is recorded a second time with every region body recorded twice: throws iron::Error (D33)
/// if that gives another kernel, since the body then changes state of the host.
std::shared_ptr<ir::Kernel> record_checked(const KernelEntry& entry);

template <class... T>
struct DTypes {};
template <class... T>
inline constexpr DTypes<T...> dtypes{};

class Registry;

/// What `Registry::kernel` returns: adds tests, benches and notes to every dtype of one kernel.
template <class... T>
class Registration {
 public:
  Registration(Registry& registry, std::vector<std::size_t> entries)
      : registry_(&registry), entries_(std::move(entries)) {}
  /// `make` is called as make.operator()<T>(gen) for each element type.
  template <class F>
  Registration& test(std::string name, Tolerance t, F make);
  template <class F>
  Registration& bench(std::string shape, F make);
  Registration& doc(const std::string& text);
  Registration& shapes(const std::string& text);  ///< see KernelEntry::shapes
  Registration& determinism(const std::string& note);
  /// A member of the family for devices with this capability (caps.def); others refuse it (D20).
  Registration& needs(const std::string& capability);
  Registration& rejected(const std::string& idea, const std::string& numbers, const std::string& where);

 private:
  template <class F>
  void each(F f);
  Registry* registry_;
  std::vector<std::size_t> entries_;
};

/// All kernels of the library. A duplicate name is an error that names both files (D21).
class Registry {
 public:
  /// A kernel template over element types: `r.kernel<RmsNorm>("rms_norm", "norm", dtypes<f32, f16, bf16>)`.
  template <template <class> class K, class... T>
  Registration<T...> kernel(const std::string& name, const std::string& family, DTypes<T...>,
                            SourceLocation loc = SourceLocation::here()) {
    return kernel<K>(name, family, DTypes<T...>{}, [](auto&) {}, loc);
  }
  /// The same with a specialisation: `set` changes the spec fields of the kernel.
  template <template <class> class K, class... T, class Set>
  Registration<T...> kernel(const std::string& name, const std::string& family, DTypes<T...>, Set set,
                            SourceLocation loc = SourceLocation::here()) {
    std::vector<std::size_t> added;
    (added.push_back(add<K<T>>("iron_" + name, family, dtype_of<T>, set, loc)), ...);
    return Registration<T...>(*this, std::move(added));
  }
  /// A kernel of one fixed element type, named by T: `r.kernel<RandomHash, u32>("random_hash", "generate")`.
  template <class K, class T>
  Registration<T> kernel(const std::string& name, const std::string& family,
                         SourceLocation loc = SourceLocation::here()) {
    return Registration<T>(*this, {add<K>("iron_" + name, family, dtype_of<T>, [](auto&) {}, loc)});
  }
  template <class K, class T, class Set>
    requires std::invocable<Set, K&>
  Registration<T> kernel(const std::string& name, const std::string& family, Set set,
                         SourceLocation loc = SourceLocation::here()) {
    return Registration<T>(*this, {add<K>("iron_" + name, family, dtype_of<T>, set, loc)});
  }

  const std::vector<KernelEntry>& entries() const { return entries_; }
  KernelEntry& entry(std::size_t i) { return entries_[i]; }

 private:
  std::size_t insert(KernelEntry entry, SourceLocation loc);
  template <class K, class Set>
  std::size_t add(std::string name, std::string family, DType dtype, Set set, SourceLocation loc) {
    KernelEntry e;
    e.name = std::move(name), e.family = std::move(family), e.dtype = dtype, e.mode = detail::mode_of<K>();
    e.instance = [set] {
      K k = unbound<K>();
      set(k);
      return std::unique_ptr<KernelInstance>(std::make_unique<detail::InstanceOf<K>>(std::move(k)));
    };
    e.record = [instance = e.instance, full = e.full_name()](bool probe) {
      return instance()->record(full, {.probe = probe});
    };
    return insert(std::move(e), loc);
  }
  std::vector<KernelEntry> entries_;
};

template <class... T>
template <class F>
void Registration<T...>::each(F f) {
  std::size_t i = 0;
  (f.template operator()<T>(registry_->entry(entries_[i++])), ...);
}
template <class... T>
template <class F>
Registration<T...>& Registration<T...>::test(std::string name, Tolerance t, F make) {
  each([&]<class E>(KernelEntry& e) {
    e.tests.push_back({name, t, [make](Gen& g) { return make.template operator()<E>(g); }});
  });
  return *this;
}
template <class... T>
template <class F>
Registration<T...>& Registration<T...>::bench(std::string shape, F make) {
  each([&]<class E>(KernelEntry& e) {
    e.benches.push_back({shape, [make](Gen& g) { return make.template operator()<E>(g); }});
  });
  return *this;
}
template <class... T>
Registration<T...>& Registration<T...>::doc(const std::string& text) {
  for (const auto i : entries_) registry_->entry(i).doc = text;
  return *this;
}
template <class... T>
Registration<T...>& Registration<T...>::shapes(const std::string& text) {
  for (const auto i : entries_) registry_->entry(i).shapes = text;
  return *this;
}
template <class... T>
Registration<T...>& Registration<T...>::determinism(const std::string& note) {
  for (const auto i : entries_) registry_->entry(i).determinism = note;
  return *this;
}
template <class... T>
Registration<T...>& Registration<T...>::needs(const std::string& capability) {
  for (const auto i : entries_) registry_->entry(i).needs = capability;
  return *this;
}
template <class... T>
Registration<T...>& Registration<T...>::rejected(const std::string& idea, const std::string& numbers,
                                                 const std::string& where) {
  for (const auto i : entries_) registry_->entry(i).rejected.push_back({idea, numbers, where});
  return *this;
}

/// Every kernel of the standard library, registered explicitly (kernels/registry.cpp).
const Registry& standard_library();

}  // namespace iron
