// The CUDA dialect: its words, its table, the kernel's signature.
#include "emit/cuda/cuda.h"

#include <fmt/format.h>

#include "emit/c_like/shared_table.h"
#include "emit/c_like/tile_layout.h"
#include "emit/cuda/rows.h"
#include "emit/cuda/tier.h"
#include "target/requirement.h"

namespace iron::emit {

namespace {
constexpr Table make_cuda_table() {
  using enum ir::Opcode;
  Table t = make_shared_table();
  t[AtomicRmw] = statement_row(cuda::atomic_rmw);
  t[AtomicCas] = statement_row(cuda::atomic_cas);
  t[AtomicLoad] = statement_row(cuda::atomic_load, true);
  t[AtomicStore] = statement_row(cuda::atomic_store, true);
  t[WaitUntil] = statement_row(cuda::wait_until);
  t[Ticket] = statement_row(cuda::ticket);
  t[Fence] = statement_row(cuda::fence);
  t[CopyAsync] = statement_row(cuda::copy_async), t[CopyCommit] = statement_row(cuda::copy_commit);
  t[CopyWait] = statement_row(cuda::copy_wait);
  t[Prefetch] = statement_row(cuda::prefetch, true);
  t[Check] = statement_row(cuda::check, true);
  t[Or] = value_row(cuda::masked_or), t[Select] = value_row(cuda::clamping_select);
  t[Print] = statement_row(cuda::print, true);
  t[Roles] = statement_row(cuda::roles), t[RoleIndex] = statement_row(cuda::role_index);
  t[RoleBarrier] = statement_row(cuda::role_barrier), t[ClusterRank] = statement_row(cuda::cluster_rank);
  t[ClusterSync] = statement_row(cuda::cluster_sync), t[PeerLoad] = statement_row(cuda::peer_load);
  t[SharedView] = statement_row(cuda::shared_view, true);
  t[PipeNew] = statement_row(cuda::pipe_new), t[PipeAcquire] = statement_row(cuda::pipe_acquire);
  t[PipeExpect] = statement_row(cuda::pipe_expect), t[PipeWait] = statement_row(cuda::pipe_wait);
  t[PipeRelease] = statement_row(cuda::pipe_release), t[TmaLoad] = statement_row(cuda::tma_load);
  t[TmaStore] = statement_row(cuda::tma_store), t[Reclaim] = statement_row(cuda::reclaim);
  t[TurnNew] = statement_row(cuda::turn_new), t[TurnEnter] = statement_row(cuda::turn_enter);
  t[TurnLeave] = statement_row(cuda::turn_leave);
  t[AccNew] = statement_row(rows::nothing), t[AccMma] = statement_row(cuda::acc_mma, true);
  t[AccSettle] = statement_row(cuda::acc_settle), t[AccValue] = statement_row(cuda::acc_value);
  t[AccSet] = statement_row(cuda::acc_set, true), t[AccScale] = statement_row(cuda::acc_scale);
  t[AccClear] = statement_row(cuda::acc_clear);
  t[FragRow] = statement_row(cuda::frag_place), t[FragCol] = statement_row(cuda::frag_place);
  t[FragSplat] = statement_row(cuda::frag_splat), t[FragSpread] = statement_row(cuda::frag_spread);
  t[FragCols] = statement_row(cuda::frag_cols), t[FragFold] = statement_row(cuda::frag_fold, true);
  t[FragPut] = statement_row(cuda::frag_put);
  return t;
}
constexpr Table cuda_table = make_cuda_table();
static_assert(cuda_table.complete(), "an op has no row in the CUDA table");

class Cuda final : public Dialect {
 public:
  std::string_view name() const override { return "cuda"; }
  const Table& table() const override { return cuda_table; }
  std::span<const Helper> helpers() const override {
    static const auto* const all = [] {
      auto* list = new std::vector<Helper>(cuda::helpers().begin(), cuda::helpers().end());
      list->insert(list->end(), cuda::tier_helpers().begin(), cuda::tier_helpers().end());
      return list;
    }();
    return *all;
  }
  std::string_view function_words() const override { return "__device__ __forceinline__"; }

  std::string_view type_name(DType type) const override {
    if (type == DType::boolean) return "bool";
    if (type == DType::index) return "index_t";
    return dtype_name(type);
  }
  std::string pointer(ir::Space, DType elem, bool constant) const override {
    return fmt::format("{}{}*", constant ? "const " : "", type_name(elem));
  }
  std::string preamble(bool index_is_32) const override {
    return fmt::format(
        "typedef signed char i8;\ntypedef unsigned char u8;\ntypedef short i16;\ntypedef unsigned short u16;\ntypedef "
        "int i32;\n"
        "typedef unsigned int u32;\ntypedef long long i64;\ntypedef unsigned long long u64;\ntypedef float "
        "f32;\ntypedef double f64;\n"
        "typedef {} index_t;\n",
        index_is_32 ? "i32" : "i64");
  }
  std::string signature(const Emitter& e, std::span<const ArgSlot> args) const override {
    std::string list;
    for (const auto& a : args) {
      if (!list.empty()) list += ", ";
      const auto& k = e.kernel();
      switch (a.kind) {
        case ArgSlot::pointer:
          list += fmt::format(
              "{} __restrict__ {}",
              pointer(ir::Space::global, k.params[a.param].elem, k.params[a.param].kind == ir::ParamKind::in),
              e.param_name(a.param));
          break;
        case ArgSlot::scalar:
          list += fmt::format("{} {}", type_name(k.params[a.param].elem), e.param_name(a.param));
          break;
        case ArgSlot::length:
          list += fmt::format("index_t {}_length", e.param_name(a.param));
          break;
        case ArgSlot::items:
          list += "index_t items";
          break;
        case ArgSlot::tensor:
          list += fmt::format("const __grid_constant__ TensorMap {}", e.param_name(a.param));
          break;
      }
    }
    // One threadgroup a multiprocessor: else ptxas does not fix the registers that roles share out (rule 9).
    const bool roles = ir::find_roles(e.kernel()) != ir::none;
    const u32 cluster = ir::cluster_size(e.kernel());
    return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}{}) {}({}) {{",
                       cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", cluster) : "", e.threads(),
                       roles ? ", 1" : "", e.entry(), list);
  }

  std::string thread_pos(int axis) const override { return fmt::format("threadIdx.{}", "xyz"[axis]); }
  std::string group_id(int axis) const override { return fmt::format("blockIdx.{}", "xyz"[axis]); }
  std::string group_count(int axis) const override { return fmt::format("gridDim.{}", "xyz"[axis]); }
  std::string await_predecessor() const override {
    return R"(asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");)";
  }
  MatrixShape matrix_unit(DType input, DType acc) const override {
    const bool narrow = input == DType::f16 || input == DType::bf16;
    if (narrow && acc == DType::f32) return {16, 8, 16};
    if ((input == DType::i8 || input == DType::u8) && acc == DType::i32) return {16, 8, 32};
    return {};
  }
  void matrix_product(Emitter& e, ir::OpId mma, const TileLayout& tile) const override {
    cuda::matrix_product(e, mma, tile);
  }
  std::string barrier() const override { return "__syncthreads();"; }
  std::string simd_barrier() const override { return "__syncwarp();"; }
  std::string unroll_pragma() const override { return "#pragma unroll"; }
  std::string keep_loop_pragma() const override { return "#pragma unroll 1"; }
  void enter_region(Emitter& e, ir::RegionId r) const override { cuda::enter_region(e, r); }
  void leave_kernel(Emitter& e) const override { cuda::leave_kernel(e); }
  void packed_op(Emitter& e, ir::OpId id) const override { cuda::packed_op(e, id); }
  std::string shared_array(std::string_view type, std::string_view array, u64 count, u32 align) const override {
    return fmt::format("__shared__ alignas({}) {} {}[{}];", align, type, array, count);
  }
  std::string shared_block(std::string_view block) const override {
    return fmt::format("alignas(1024) extern __shared__ u8 {}[];", block);
  }
};
}  // namespace

const Dialect& cuda_dialect() {
  static const Cuda dialect;
  return dialect;
}

Source emit_cuda(const ir::Kernel& optimised, Dim3 threads, const target::Profile& profile,
                 const CudaOptions& options) {
  if (auto lacking = target::fit(optimised, profile); !lacking.empty()) throw Error(std::move(lacking));
  EmitOptions o;
  o.threads = threads;
  // Coordinates of tensors have 32 bits: so have the subscripts of kernels that copy tensors. The launch checks them.
  o.index_is_32 = options.index_is_32 || ir::uses_tier(optimised);
  o.leave_out = options.leave_out;
  o.static_shared_limit = profile.static_shared_bytes;
  // Every profile from sm_80 on has mma.sync of all of these shapes; `generic` has none.
  if (profile.atoms.has(target::Atom::mma_bf16)) o.matrix = options.matrix;
  o.async_copies = profile.atoms.has(target::Atom::cp_async);
  o.await_predecessor = options.dependent_launch && profile.atoms.has(target::Atom::dependent_launch);
  return Emitter(optimised, cuda_dialect(), o).run();
}

}  // namespace iron::emit
