// The CPU device's bars, each beside its peers on this machine, one thread unless a bar says otherwise:
//   cpu_bars [--only TEXT] [--rounds N] [--seconds S] [--list]
// Arms alternate; a ratio is Iron's rate divided by the peer's, the median of paired rounds. OPENBLAS_* must be unset.
// Exit 1 where a result is wrong; a bar that is missed is marked, not an error.
#define IRON_NO_IF_MACRO
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "attention/cached.h"
#include "cpu/jit.h"
#include "cpu_peers.h"
#include "cpu_race.h"
#include "gemm/gemm.h"
#include "iron/instance.h"
#include "iron/library.h"
#include "iron/runtime/device.h"
#include "runtime/compile.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/run_case.h"

namespace iron::perf {
namespace {

struct Options {
  std::string only;
  u32 rounds = 11;
  f64 seconds = 0.02;
  bool list = false;
};

/// Memory of the device, filled.
template <class T>
std::span<T> memory(runtime::Backend& b, u64 n, f64 scale = 0) {
  std::span<T> s(static_cast<T*>(b.allocate(n * sizeof(T))), n);
  u32 state = 12345;
  for (auto& x : s) {
    state = state * 1664525u + 1013904223u;
    x = T(static_cast<f32>((static_cast<f64>(state >> 8) / 16777216.0 - 0.5) * scale));
  }
  return s;
}

struct Ready {
  runtime::Backend* backend = nullptr;
  std::shared_ptr<runtime::Executable> exe;
  LaunchGeometry geometry;
  std::vector<LaunchArg> args;
  void operator()() const {
    backend->launch(exe, geometry, args);
    backend->synchronize();
  }
};

Ready ready(runtime::Backend& b, const KernelInstance& k) {
  Ready r{&b, {}, {}, {}};
  const Grid g = k.grid();
  r.geometry = Device::geometry_of(g);
  const auto compiled = runtime::compile_for("cpu", k.record("bar"));
  r.exe = b.prepare(*compiled->optimised, {g.threads.x, g.threads.y, g.threads.z});
  for (const auto& a : k.arguments()) r.args.push_back(a.launch_arg(a.buffer.data));
  return r;
}

/// A library kernel with arguments by name; scalars as f64.
Ready ready(runtime::Backend& b, const std::string& name, DType dtype, const std::map<std::string, BufferRef>& buffers,
            const std::map<std::string, f64>& scalars) {
  for (const auto& e : standard_library().entries()) {
    if (e.name != "iron_" + name || e.dtype != dtype) continue;
    const auto k = e.instance();
    for (const auto& f : k->fields()) {
      if (const auto it = buffers.find(std::string(f.name)); it != buffers.end()) f.ops->bind(f.at, it->second);
      if (const auto it = scalars.find(std::string(f.name)); it != scalars.end()) {
        const u64 bits = f.ops->dtype == DType::f32 ? std::bit_cast<u32>(static_cast<f32>(it->second))
                                                    : static_cast<u64>(it->second);
        f.ops->set(f.at, bits);
      }
    }
    return ready(b, *k);
  }
  throw Error("BENCH11", fmt::format("the library has no {} of {}", name, dtype_name(dtype)));
}
template <class T>
BufferRef ref(std::span<T> s) {
  return {s.data(), s.size_bytes(), false};
}

class Bars {
 public:
  explicit Bars(Options o) : options_(std::move(o)), one_(1) { libraries_ = matrix_libraries(); }

  int run();

 private:
  bool wanted(const std::string& label) {
    if (label.find(options_.only) == std::string::npos) return false;
    if (options_.list) fmt::print("{}\n", label);
    return !options_.list;
  }
  void show(const std::string& label, const char* unit, std::vector<Arm>& arms);
  void limit(const std::string& label, f64 value, const char* unit, f64 most, const std::string& note = {});
  void wrong(const std::string& what) {
    fmt::print("WRONG  {}\n", what);
    failed_ = true;
  }
  template <class T>
  void gemm(u32 n);
  void elementwise();
  void rows(const std::string& kernel);
  void attention(u32 keys);
  void jit();
  void launches();

  Options options_;
  runtime::CpuBackend one_;
  std::vector<Library> libraries_;
  std::shared_ptr<Pocl> pocl_;
  bool failed_ = false;
};

void Bars::show(const std::string& label, const char* unit, std::vector<Arm>& arms) {
  race(arms, options_.rounds, options_.seconds);
  // Only the best of the peers that share a floor counts.
  std::map<f64, const Arm*> best;
  for (std::size_t i = 1; i < arms.size(); ++i)
    if (auto& b = best[arms[i].floor]; arms[i].floor > 0 && (!b || arms[i].rate() > b->rate())) b = &arms[i];
  fmt::print("{}\n", label);
  for (const auto& a : arms) {
    fmt::print("  {:<34} {:9.3f} {}", a.name, a.rate() * 1e-9, unit);
    if (&a != arms.data()) fmt::print("   Iron {:6.3f}x", ratio(arms[0], a));
    if (a.floor > 0 && best[a.floor] == &a)
      fmt::print("   floor {:.2f}  {}", a.floor, ratio(arms[0], a) >= a.floor ? "met" : "MISSED");
    fmt::print("\n");
  }
  std::fflush(stdout);
}

void Bars::limit(const std::string& label, f64 value, const char* unit, f64 most, const std::string& note) {
  fmt::print("{:<64} {:9.3f} {}   limit {:.2f}  {}  {}\n", label, value, unit, most, value <= most ? "met" : "MISSED",
             note);
  std::fflush(stdout);
}

template <class T>
void Bars::gemm(u32 n) {
  const std::string type(dtype_name(dtype_of<T>)), label = fmt::format("gemm {} {}", type, n);
  if (!wanted(label)) return;
  const u64 size = u64{n} * n;
  const f64 scale = 2;
  auto a = memory<T>(one_, size, scale), b = memory<T>(one_, size, scale), c = memory<T>(one_, size);
  kernels::SteelGemm<T> k{.a = a, .b = b, .c = c, .m = n, .n = n, .k = n, .spec = {}};
  k.spec = kernels::cpu_gemm_for(n, n, n);
  const f64 flops = 2.0 * n * n * n;
  const auto launch = ready(one_, detail::InstanceOf(k));
  std::vector<Arm> arms{{"Iron", flops, launch}};
  std::vector<f32> wa(size), wb(size), wc(size);
  for (u64 i = 0; i < size; ++i) wa[i] = static_cast<f32>(a[i]), wb[i] = static_cast<f32>(b[i]);
  // Where no instruction multiplies bf16, no library is faster with it than with f32.
  const f64 floor = cpu::host_target().avx512 ? 0.95 : 0.9;
  for (const auto& l : libraries_)
    arms.push_back({l.name + (type == "f32" ? "" : ", the product in f32"), flops,
                    [&, n] { l.sgemm(n, n, n, wa.data(), wb.data(), wc.data()); }, floor});
  launch();
  if (!libraries_.empty()) {
    arms[1].run();
    f64 error = 0;
    for (u64 i = 0; i < size; ++i)
      error = std::max(
          error, std::abs(static_cast<f64>(static_cast<f32>(c[i])) - f64{wc[i]}) / std::max(1.0, std::abs(f64{wc[i]})));
    if (!(error < (type == "f32" ? 1e-4 : 1e-2))) wrong(fmt::format("{}: error {}", label, error));
  }
  show(label, "GFLOP/s", arms);
  for (void* p : {static_cast<void*>(a.data()), static_cast<void*>(b.data()), static_cast<void*>(c.data())})
    one_.release(p);
}

void Bars::elementwise() {
  for (const std::string name : {"add", "swiglu"}) {
    const std::string label = name + " f32 out of cache";
    if (!wanted(label)) continue;
    constexpr u64 n = u64{24} << 20;
    auto a = memory<f32>(one_, n, 4), b = memory<f32>(one_, n, 4), c = memory<f32>(one_, n);
    const bool gate = name == "swiglu";
    const auto launch =
        ready(one_, name, DType::f32,
              {{gate ? "gate" : "a", ref(a)}, {gate ? "up" : "b", ref(b)}, {gate ? "out" : "c", ref(c)}}, {});
    launch();
    for (u64 i = 0; i < n; i += 4099) {
      const f64 x = a[i], y = b[i], want = gate ? x / (1 + std::exp(-x)) * y : x + y;
      if (std::abs(c[i] - want) > 1e-5 * std::max(1.0, std::abs(want))) wrong(label);
    }
    std::vector<Arm> arms{{"Iron", 12.0 * n, launch},
                          {"non-temporal copy", 8.0 * n, [&] { nontemporal_copy(c.data(), a.data(), 4 * n); }, 0.92},
                          {"memcpy", 8.0 * n, [&] { std::memcpy(c.data(), a.data(), 4 * n); }}};
    show(label, "GB/s", arms);
    for (auto* s : {&a, &b, &c}) one_.release(s->data());
  }
}

void Bars::rows(const std::string& kernel) {
  for (const u32 n : {1024u, 4096u}) {
    const std::string label = fmt::format("{} f32 rows of {}", kernel, n);
    if (!wanted(label)) continue;
    const u64 size = u64{16} << 20, rows = size / n;
    auto x = memory<f32>(one_, size, 8), y = memory<f32>(one_, size), z = memory<f32>(one_, size),
         w = memory<f32>(one_, n, 2), bias = memory<f32>(one_, n, 2);
    const bool layer = kernel == "layer_norm", soft = kernel == "softmax";
    const std::string member = kernel == "rms_norm" ? "rms_norm_wide" : soft ? "softmax_staged" : kernel;
    const auto of = [&](const std::string& name) {
      return ready(one_, name, DType::f32, {{"x", ref(x)}, {"weight", ref(w)}, {"bias", ref(bias)}, {"y", ref(y)}},
                   {{"n", n}, {"eps", 1e-5}});
    };
    const auto launch = of(member);
    std::vector<Arm> arms{{"Iron, " + member, 8.0 * static_cast<f64>(size), launch},
                          {"non-temporal copy", 8.0 * static_cast<f64>(size),
                           [&] { nontemporal_copy(z.data(), x.data(), 4 * size); }, 0.55}};
    launch();
    if (pocl_) {
      std::vector<std::pair<void*, u64>> buffers{{x.data(), size * 4}};
      if (!soft) buffers.emplace_back(w.data(), n * 4);
      if (layer) buffers.emplace_back(bias.data(), n * 4);
      buffers.emplace_back(z.data(), size * 4);
      if (auto peer = pocl_->launch(kernel, buffers, {n}, rows)) {
        peer();
        f64 error = 0;
        for (u64 i = 0; i < size; ++i) error = std::max(error, std::abs(f64{y[i]} - f64{z[i]}));
        if (!(error < 1e-4)) wrong(fmt::format("{}: error {}", label, error));
        arms.push_back({"PoCL, " + pocl_->name(), 8.0 * static_cast<f64>(size), peer, 5});
      }
    }
    if (soft) arms.push_back({"Iron, softmax of any length", 8.0 * static_cast<f64>(size), of("softmax")});
    show(label, "GB/s", arms);
    for (auto* s : {&x, &y, &z, &w, &bias}) one_.release(s->data());
  }
}

void Bars::attention(u32 keys) {
  constexpr u32 heads = 9, shared = 3, d = 64;
  const std::string label = fmt::format("attention decode, 9 heads of 64, {} keys", keys);
  if (!wanted(label)) return;
  const u64 cache = u64{heads / shared} * keys * d;
  auto q = memory<f32>(one_, heads * d, 4), k = memory<f32>(one_, cache, 4), v = memory<f32>(one_, cache, 2),
       out = memory<f32>(one_, heads * d);
  std::vector<f32> want(heads * d), scores(keys);
  const f32 scale = 0.125f;
  const auto launch =
      ready(one_, "sdpa_decode_d64", DType::f32, {{"q", ref(q)}, {"k", ref(k)}, {"v", ref(v)}, {"out", ref(out)}},
            {{"n_kv", keys},
             {"kv_stride", keys},
             {"heads_per_kv", shared},
             {"sink_end", 0},
             {"window_start", 0},
             {"scale", scale}});
  const auto plain = [&] {
    plain_attention(q.data(), k.data(), v.data(), want.data(), heads, shared, keys, d, scale, scores.data());
  };
  launch(), plain();
  for (u32 i = 0; i < heads * d; ++i)
    if (std::abs(out[i] - want[i]) > 1e-4) {
      wrong(fmt::format("{}: {} for {}", label, out[i], want[i]));
      break;
    }
  // The model's kernel, whose cache has blocks of 64 keys, dimension by dimension.
  auto blocked = memory<f32>(one_, cache);
  for (u64 i = 0; i < cache; ++i) blocked[i / (d * d) * (d * d) + i % d * d + i / d % d] = k[i];
  auto other = memory<f32>(one_, heads * d);
  const auto cached = ready(one_, detail::InstanceOf(kernels::CachedAttention<f32>{.q = q,
                                                                                   .keys = blocked,
                                                                                   .values = v,
                                                                                   .out = other,
                                                                                   .tokens = 1,
                                                                                   .heads = heads,
                                                                                   .heads_per_kv = shared,
                                                                                   .capacity = keys,
                                                                                   .first = keys - 1,
                                                                                   .scale = scale,
                                                                                   .block_heads = shared}));
  cached();
  for (u32 i = 0; i < heads * d; ++i)
    if (std::abs(other[i] - want[i]) > 1e-4) {
      wrong(fmt::format("{}, cached_attention: {} for {}", label, other[i], want[i]));
      break;
    }
  const f64 bytes = 8.0 * heads * keys * d;
  std::vector<Arm> arms{{"Iron, cached_attention", bytes, cached},
                        {"plain C, -O3", bytes, plain, 5},
                        {"Iron, sdpa_decode_d64", bytes, launch}};
  show(label, "GB/s of the heads' keys and values", arms);
  for (auto* s : {&q, &k, &v, &out, &blocked, &other}) one_.release(s->data());
}

void Bars::jit() {
  struct Time {
    std::string name;
    f64 ms;
    u64 bytes;
  };
  if (!wanted("JIT")) return;
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("iron-bars-{}", getpid());
  std::vector<Time> times;
  std::vector<f64> cached;
  std::map<std::string, f64> named;
  // Processor time: compiling waits for nothing, and a busy machine does not count.
  const auto spent = [] {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<f64>(t.tv_sec) * 1e3 + static_cast<f64>(t.tv_nsec) * 1e-6;
  };
  const auto compile = [&](const ir::Kernel& k, Dim3 threads, bool disk) {
    const f64 start = spent();
    const auto c = cpu::compile(k, threads, cpu::host_target(), {.use_disk = disk, .cache_folder = folder.string()});
    return std::pair(spent() - start, c->code_bytes);
  };
  for (const auto& e : standard_library().entries()) {
    if (!runtime::runs(one_, e) || e.tests.empty()) continue;
    Gen g(1);
    const Case c = e.tests[0].make(g);
    const auto threads = c.steps[0].grid.threads;
    const auto compiled = runtime::compile_for("cpu", c.steps[0].record());
    const Dim3 t{threads.x, threads.y, threads.z};
    const ir::Kernel k = ir::canonical(*compiled->optimised);
    if (times.empty()) compile(k, t, false);
    const auto [ms, bytes] = compile(k, t, false);
    times.push_back({e.full_name(), ms, bytes});
    named[e.full_name()] = ms;
    compile(k, t, true);
    cached.push_back(compile(k, t, true).first);
  }
  std::filesystem::remove_all(folder);
  std::sort(times.begin(), times.end(), [](const Time& a, const Time& b) { return a.ms > b.ms; });
  for (const char* small : {"iron_add_f32", "iron_silu_f32", "iron_rms_norm_wide_f32", "iron_gemv_f32"})
    limit(fmt::format("JIT, small: {}", small), named[small], "ms", 10);
  limit("JIT, largest of the library: " + times[0].name, times[0].ms, "ms", 40,
        fmt::format("{} kernels, median {:.1f} ms, {} above 40 ms", times.size(), times[times.size() / 2].ms,
                    std::count_if(times.begin(), times.end(), [](const Time& t) { return t.ms > 40; })));
  for (std::size_t i = 0; i < std::min<std::size_t>(12, times.size()); ++i)
    fmt::print("    {:<50} {:8.1f} ms  {:7} bytes of object file\n", times[i].name, times[i].ms, times[i].bytes);
  limit("JIT, from the cache, median", median(cached), "ms", 1,
        fmt::format("most {:.2f} ms", *std::max_element(cached.begin(), cached.end())));
}

void Bars::launches() {
  if (!wanted("launch")) return;
  runtime::CpuBackend two(2);
  // One threadgroup, and the least that both threads take part in, whose own work must not count.
  for (const u64 items : {u64{256}, u64{32} << 10}) {
    f64 work = 0;  // us of the command alone, on one thread
    for (runtime::CpuBackend* device : {&one_, &two}) {
      const u32 threads = device->info().units;
      auto a = memory<f32>(*device, items, 4), b = memory<f32>(*device, items, 4), c = memory<f32>(*device, items);
      const auto launch = ready(*device, "add", DType::f32, {{"a", ref(a)}, {"b", ref(b)}, {"c", ref(c)}}, {});
      const std::vector<runtime::Launch> list(256, {launch.exe, launch.geometry, launch.args});
      auto graph = device->build_graph(list);
      auto stream = device->make_stream();
      std::vector<f64> single, listed;
      for (u32 r = 0; r < 400; ++r) {
        f64 start = now();
        for (u32 i = 0; i < 20; ++i) launch();
        single.push_back((now() - start) / 20 * 1e6);
        start = now();
        stream->replay(*graph);
        listed.push_back((now() - start) / 256 * 1e6);
      }
      if (threads == 1) work = median(listed);
      const f64 own = items == 256 ? 0 : work / threads;
      const std::string what = fmt::format("{} thread{}, add of {} floats", threads, threads == 1 ? "" : "s", items);
      const auto note = [&](f64 all) { return own > 0 ? fmt::format("of {:.2f} us", all) : std::string(); };
      limit("launch and wait, " + what, median(single) - own, "us", 1, note(median(single)));
      if (threads == 2 || items == 256)
        limit("command that waits in a list, " + what, median(listed) - own, "us", 0.5, note(median(listed)));
      for (auto* s : {&a, &b, &c}) device->release(s->data());
    }
  }
}

int Bars::run() {
  if (std::getenv("OPENBLAS_CORETYPE") || std::getenv("OPENBLAS_L2_SIZE"))
    fmt::print("OPENBLAS_* variables are set: OpenBLAS may not be at its best; unset them\n");
  std::string why;
  pocl_ = Pocl::open(pocl_source, why);
  if (!options_.list) {
    fmt::print("{}, {}; peers:", one_.info().name, one_.info().architecture);
    for (const auto& l : libraries_) fmt::print(" {};", l.name);
    fmt::print(" {}\n", pocl_ ? "PoCL " + pocl_->name() : "no PoCL: " + why);
    f64 flops = 0;
    std::vector<Arm> peak{{"fma", 0, [&] { flops = fma_chains(200000); }}};
    race(peak, 5, 0.01);
    auto a = memory<f32>(one_, u64{24} << 20, 1);
    volatile f32 keep = 0;
    std::vector<Arm> read{{"read", 4.0 * static_cast<f64>(a.size()), [&] { keep = read_all(a.data(), a.size()); }}};
    race(read, 5, 0.01);
    one_.release(a.data());
    fmt::print("256-bit fma: {:.1f} GFLOP/s; read out of cache: {:.1f} GB/s\n", flops / median(peak[0].seconds) * 1e-9,
               read[0].rate() * 1e-9);
  }
  for (const u32 n : {512u, 1024u, 2048u}) gemm<f32>(n);
  for (const u32 n : {512u, 1024u, 2048u}) gemm<bf16>(n);
  elementwise();
  for (const char* k : {"softmax", "rms_norm", "layer_norm"}) rows(k);
  for (const u32 keys : {256u, 2048u}) attention(keys);
  launches();
  jit();
  return failed_ ? 1 : 0;
}

int usage(const std::string& problem) {
  fmt::print(stderr, "{}\nusage: cpu_bars [--only TEXT] [--rounds N] [--seconds S] [--list]\n", problem);
  return 2;
}

}  // namespace
}  // namespace iron::perf

int main(int argc, char** argv) try {
  iron::perf::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      o.list = true;
      continue;
    }
    if (i + 1 == argc) return iron::perf::usage(word + " needs a value");
    const char* value = argv[++i];
    if (word == "--only")
      o.only = value;
    else if (word == "--rounds")
      o.rounds = static_cast<iron::u32>(std::max(1, std::atoi(value)));
    else if (word == "--seconds")
      o.seconds = std::atof(value);
    else
      return iron::perf::usage("unknown option " + word);
  }
  return iron::perf::Bars(o).run();
} catch (const iron::Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
