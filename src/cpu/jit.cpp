// LLVM's passes, code generation and linking.
#include "cpu/jit.h"

#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <ctime>
#include <mutex>

#include "cpu/cache.h"
#include "cpu/module.h"
#include "cpu/perf_map.h"

namespace iron::cpu {

using namespace llvm;

namespace {
/// Processor time: compiling waits for nothing, and a busy machine does not count.
f64 now_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<f64>(t.tv_sec) * 1e3 + static_cast<f64>(t.tv_nsec) * 1e-6;
}
[[noreturn]] void fail(llvm::Error e, std::string_view doing) {
  throw iron::Error("CPU06", fmt::format("LLVM failed while {}: {}", doing, toString(std::move(e))));
}
template <class T>
T take(Expected<T> v, std::string_view doing) {
  if (!v) fail(v.takeError(), doing);
  return std::move(*v);
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
}

std::unique_ptr<TargetMachine> target_machine(const CpuTarget& t) {
  initialise();
  std::string problem;
  const std::string triple = "x86_64-unknown-linux-gnu";
  const auto* found = TargetRegistry::lookupTarget(triple, problem);
  if (!found) throw iron::Error("CPU06", "LLVM has no x86-64 target: " + problem);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Strict;  // no contraction: fma is an op
  std::unique_ptr<TargetMachine> m(found->createTargetMachine(triple, t.cpu, t.features, options, Reloc::PIC_,
                                                              CodeModel::Small, CodeGenOptLevel::Less, true));
  return m;
}

/// The kernel arrives in SSA and unrolled, so LLVM only cleans up.
constexpr const char* pipeline =
    "function(sroa,early-cse,instcombine<max-iterations=1;no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse)";

void optimise(llvm::Module& m, TargetMachine& tm) {
  LoopAnalysisManager l;
  FunctionAnalysisManager f;
  CGSCCAnalysisManager c;
  ModuleAnalysisManager a;
  PassBuilder pb(&tm);
  pb.registerModuleAnalyses(a);
  pb.registerCGSCCAnalyses(c);
  pb.registerFunctionAnalyses(f);
  pb.registerLoopAnalyses(l);
  pb.crossRegisterProxies(l, f, c, a);
  ModulePassManager passes;
  if (auto e = pb.parsePassPipeline(passes, pipeline)) fail(std::move(e), "reading the pass list");
  passes.run(m, a);
}

/// From here on register allocation takes minutes (it grows faster than the function): such kernels get LLVM's fast
/// one.
constexpr unsigned most_instructions = 12'000;

void emit(llvm::Module& m, TargetMachine& tm, CodeGenFileType type, bool schedule, SmallVectorImpl<char>& out) {
  if (m.getInstructionCount() > most_instructions) tm.setOptLevel(CodeGenOptLevel::None);
  raw_svector_ostream stream(out);
  legacy::PassManager passes;
  // As addPassesToEmitFile does, but the scheduler, which puts a packet's ops together to save registers, can be left
  // out: the lowering interleaves packets, since a processor looks ahead no further than one chain of ops is long.
  auto& machine = static_cast<LLVMTargetMachine&>(tm);
  auto* config = machine.createPassConfig(passes);
  auto* functions = new MachineModuleInfoWrapperPass(&machine);
  config->setDisableVerify(true);
  if (!schedule) config->disablePass(&MachineSchedulerID);
  passes.add(config);
  passes.add(functions);
  bool fails = config->addISelPasses();
  if (!fails) {
    config->addMachinePasses();
    config->setInitialized();
    fails = machine.addAsmPrinter(passes, stream, nullptr, type, functions->getMMI().getContext());
    passes.add(createFreeMachineFunctionPass());
  }
  if (fails) throw iron::Error("CPU06", "LLVM cannot write code for this target");
  passes.run(m);
}

void prepare_module(llvm::Module& m, TargetMachine& tm) {
  m.setDataLayout(tm.createDataLayout());
  m.setTargetTriple(tm.getTargetTriple().str());
  std::string text;
  raw_string_ostream stream(text);
  if (verifyModule(m, &stream))
    throw iron::Error("CPU90", "the CPU lowering made IR that LLVM refuses: " + text, "report this kernel as a bug");
}

/// A call into a library would be slow or round otherwise: an object must stand alone.
void refuse_undefined(ArrayRef<char> object, const std::string& kernel) {
  auto file =
      take(object::ObjectFile::createObjectFile(MemoryBufferRef(StringRef(object.data(), object.size()), kernel)),
           "reading its own object file");
  for (const auto& s : file->symbols()) {
    const auto flags = take(s.getFlags(), "reading a symbol");
    if (!(flags & object::SymbolRef::SF_Undefined)) continue;
    const auto name = take(s.getName(), "reading a symbol");
    if (name.empty() || name == "_GLOBAL_OFFSET_TABLE_") continue;
    throw iron::Error(
        "CPU05",
        fmt::format("the code of kernel {} calls {}, which the CPU lowering must not need", kernel, name.str()),
        "report this kernel as a bug");
  }
}

/// The one JIT of the process.
struct Jit {
  std::unique_ptr<orc::LLJIT> jit;
  std::mutex mutex;
  u64 libraries = 0;
  Jit() {
    initialise();
    auto builder = orc::LLJITBuilder();
    orc::JITTargetMachineBuilder machine{Triple("x86_64-unknown-linux-gnu")};
    builder.setJITTargetMachineBuilder(machine);
    jit = take(builder.create(), "starting its JIT");
  }
};
Jit& jit() {
  static auto* j = new Jit;  // outlives every static owner of code
  return *j;
}

std::string symbol_name(const ir::Kernel& k) {
  std::string name = "iron_";
  for (const char c : k.name) name += isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

void link(Compiled& out, ArrayRef<char> object, const std::string& symbol) {
  auto& j = jit();
  const std::lock_guard lock(j.mutex);
  auto made = j.jit->createJITDylib(fmt::format("{}.{}", symbol, j.libraries++));
  if (!made) fail(made.takeError(), "making a library");
  orc::JITDylib& library = *made;
  auto buffer = MemoryBuffer::getMemBufferCopy(StringRef(object.data(), object.size()), symbol);
  if (auto e = j.jit->addObjectFile(library, std::move(buffer))) fail(std::move(e), "adding an object file");
  auto address = j.jit->lookup(library, symbol);
  if (!address) fail(address.takeError(), "linking an object file");
  out.fn = address->toPtr<KernelFn>();
  note_for_perf({object.data(), object.size()}, symbol, address->toPtr<const void*>());
  out.code_bytes = object.size();
  out.library = std::shared_ptr<void>(&library, [](void* p) {
    auto& owner = jit();
    const std::lock_guard guard(owner.mutex);
    if (auto e = owner.jit->getExecutionSession().removeJITDylib(*static_cast<orc::JITDylib*>(p)))
      consumeError(std::move(e));
  });
}

bool links(Compiled& out, ArrayRef<char> object, const std::string& symbol) {
  try {
    link(out, object, symbol);
    return true;
  } catch (const iron::Error&) {
    return false;
  }
}

/// Register blocks of a product gain from LLVM's scheduler: sgemm 1024 at 0.94 of OpenBLAS with it, at 0.84 without.
bool has_products(const ir::Kernel& k) {
  bool any = false;
  k.walk([&](ir::OpId id) { any |= k.op(id).code == ir::Opcode::TileMma; });
  return any;
}

struct Object {
  Lowered info;
  SmallVector<char, 0> bytes;
  f64 lower_ms = 0, optimise_ms = 0, codegen_ms = 0;
  u64 lowered_instructions = 0, instructions = 0;
};
Object build(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, bool stream = false) {
  Object o;
  const f64 start = now_ms();
  Code code(target, symbol_name(kernel));
  o.info = lower(kernel, threads, code, stream);
  auto& m = *code.module().module;
  const f64 lowered = now_ms();
  o.lowered_instructions = code.instructions();
  auto tm = target_machine(target);
  prepare_module(m, *tm);
  optimise(m, *tm);
  const f64 optimised = now_ms();
  o.instructions = code.instructions();
  emit(m, *tm, CodeGenFileType::ObjectFile, has_products(kernel), o.bytes);
  o.lower_ms = lowered - start, o.optimise_ms = optimised - lowered, o.codegen_ms = now_ms() - optimised;
  refuse_undefined(o.bytes, kernel.name);
  return o;
}
}  // namespace

std::string llvm_version() { return "llvm " LLVM_VERSION_STRING; }

std::shared_ptr<Compiled> compile(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target,
                                  const CompileOptions& options) {
  if (!runs_here(target))
    throw iron::Error("CPU01", fmt::format("this machine does not run code for {}", target.name),
                      "choose a target that it has");
  auto out = std::make_shared<Compiled>();
  const Hash128 key = cache_key(kernel, threads, target, llvm_version(), options.stream);
  out->key = key.hex();
  const DiskCache cache = object_cache(options.cache_folder);
  const std::string symbol = symbol_name(kernel);
  if (auto entry = options.use_disk ? read_entry(cache, key) : std::nullopt) {
    const f64 start = now_ms();
    // An entry that does not link is rebuilt like one that is damaged.
    if (links(*out, ArrayRef<char>(entry->object.data(), entry->object.size()), symbol)) {
      out->info = entry->info, out->from_cache = true, out->link_ms = now_ms() - start;
      return out;
    }
  }
  const Object o = build(kernel, threads, target, options.stream);
  out->info = o.info, out->lower_ms = o.lower_ms, out->optimise_ms = o.optimise_ms, out->codegen_ms = o.codegen_ms;
  out->lowered_instructions = o.lowered_instructions, out->instructions = o.instructions;
  if (options.use_disk) write_entry(cache, key, o.info, std::span<const char>(o.bytes.data(), o.bytes.size()));
  const f64 start = now_ms();
  link(*out, o.bytes, symbol);
  out->link_ms = now_ms() - start;
  return out;
}

std::vector<char> compile_object(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target) {
  const Object o = build(kernel, threads, target);
  return {o.bytes.begin(), o.bytes.end()};
}

std::string text_stage(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view stage) {
  Code code(target, symbol_name(kernel));
  lower(kernel, threads, code);
  auto& m = *code.module().module;
  auto tm = target_machine(target);
  std::string text;
  raw_string_ostream stream(text);
  if (stage == "llvm-lowered") {
    m.print(stream, nullptr);
    return text;
  }
  prepare_module(m, *tm);
  optimise(m, *tm);
  if (stage == "llvm") {
    m.print(stream, nullptr);
    return text;
  }
  if (stage != "asm") return {};
  SmallVector<char, 0> out;
  emit(m, *tm, CodeGenFileType::AssemblyFile, has_products(kernel), out);
  return {out.begin(), out.end()};
}

}  // namespace iron::cpu
