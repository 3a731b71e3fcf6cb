// Code on LLVM's builder. No fast-math flag is ever set: every instruction rounds as written.
#include "cpu/code.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include "cpu/module.h"

namespace iron::cpu {

using namespace llvm;

u32 bits_of(Num n) {
  switch (n) {
    case Num::i1:
      return 1;
    case Num::i8:
      return 8;
    case Num::i16:
      return 16;
    case Num::i32:
    case Num::f32:
      return 32;
    case Num::i64:
    case Num::f64:
    case Num::ptr:
      return 64;
  }
  return 0;
}

Code::Code(const CpuTarget& target, std::string name)
    : target_(target), name_(std::move(name)), module_(std::make_unique<Module>()) {
  module_->module = std::make_unique<llvm::Module>(name_, *module_->context);
}
Code::~Code() = default;

namespace {
void set_attributes(Function* f, const CpuTarget& t) {
  const auto width = std::to_string(t.lanes * 32);
  f->addFnAttr("target-cpu", t.cpu);
  f->addFnAttr("target-features", t.features);
  f->addFnAttr("prefer-vector-width", width);
  f->addFnAttr("min-legal-vector-width", width);
  f->addFnAttr(Attribute::NoUnwind);
  f->addFnAttr("frame-pointer", "none");
}
}  // namespace

void Code::begin(std::span<const BodyParam> params) {
  auto& m = *module_;
  auto& b = m.builder;
  auto& c = *m.context;
  auto* ptr = PointerType::get(c, 0);
  auto* i32t = Type::getInt32Ty(c);
  std::vector<Type*> types;
  for (const auto& p : params) types.push_back(type(p.num));
  m.params = params.size();
  types.insert(types.end(), {i32t, i32t, ptr});
  m.body = Function::Create(FunctionType::get(Type::getVoidTy(c), types, false), Function::InternalLinkage,
                            name_ + ".body", m.module.get());
  auto* outer = Function::Create(FunctionType::get(Type::getVoidTy(c), {ptr, i32t, i32t, ptr}, false),
                                 Function::ExternalLinkage, name_, m.module.get());
  set_attributes(m.body, target_);
  set_attributes(outer, target_);
  m.body->addFnAttr(Attribute::NoInline);
  for (u32 i = 0; i < params.size(); ++i) {
    if (params[i].num != Num::ptr) continue;
    if (params[i].noalias) m.body->addParamAttr(i, Attribute::NoAlias);
    if (params[i].readonly) m.body->addParamAttr(i, Attribute::ReadOnly);
    m.body->addParamAttr(i, Attribute::NoCapture);
  }
  m.body->addParamAttr(static_cast<u32>(params.size()) + 2, Attribute::NoAlias);
  m.body->addParamAttr(static_cast<u32>(params.size()) + 2, Attribute::getWithAlignment(c, Align(64)));

  b.SetInsertPoint(BasicBlock::Create(c, "entry", outer));
  std::vector<Value*> values;
  for (const auto& p : params) {
    Value* at = b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), outer->getArg(0), p.slot);
    if (p.num == Num::i1)
      values.push_back(b.CreateTrunc(b.CreateLoad(b.getInt8Ty(), at), b.getInt1Ty()));
    else
      values.push_back(b.CreateLoad(type(p.num), at));
  }
  values.insert(values.end(), {outer->getArg(1), outer->getArg(2), outer->getArg(3)});
  b.CreateCall(m.body, values);
  b.CreateRetVoid();

  m.entry = BasicBlock::Create(c, "entry", m.body);
  auto* start = BasicBlock::Create(c, "start", m.body);
  b.SetInsertPoint(m.entry);
  b.CreateBr(start);
  b.SetInsertPoint(start);
}
V Code::param(std::size_t i) { return module_->body->getArg(static_cast<u32>(i)); }
V Code::first() { return module_->body->getArg(static_cast<u32>(module_->params)); }
V Code::last() { return module_->body->getArg(static_cast<u32>(module_->params) + 1); }
V Code::scratch() { return module_->body->getArg(static_cast<u32>(module_->params) + 2); }
void Code::finish() { module_->builder.CreateRetVoid(); }

Ty Code::type(Num n, u32 lanes) {
  auto& c = *module_->context;
  Type* t = nullptr;
  switch (n) {
    case Num::f32:
      t = Type::getFloatTy(c);
      break;
    case Num::f64:
      t = Type::getDoubleTy(c);
      break;
    case Num::ptr:
      t = PointerType::get(c, 0);
      break;
    default:
      t = Type::getIntNTy(c, bits_of(n));
  }
  return lanes ? FixedVectorType::get(t, lanes) : t;
}
Num Code::num(V v) const {
  Type* t = v->getType()->getScalarType();
  if (t->isFloatTy()) return Num::f32;
  if (t->isDoubleTy()) return Num::f64;
  if (t->isPointerTy()) return Num::ptr;
  switch (t->getIntegerBitWidth()) {
    case 1:
      return Num::i1;
    case 8:
      return Num::i8;
    case 16:
      return Num::i16;
    case 32:
      return Num::i32;
    default:
      return Num::i64;
  }
}
u32 Code::lanes(V v) const {
  const auto* t = dyn_cast<FixedVectorType>(v->getType());
  return t ? t->getNumElements() : 0;
}
bool Code::is_constant(V v) const { return isa<Constant>(v); }
bool Code::constant_int(V v, iron::i64& out) const {
  auto* c = dyn_cast<Constant>(v);
  if (!c) return false;
  if (c->getType()->isVectorTy()) c = c->getSplatValue();
  if (!c || !isa<ConstantInt>(c)) return false;
  out = cast<ConstantInt>(c)->getSExtValue();
  return true;
}

bool Code::constant_real(V v, f64& out) const {
  auto* c = dyn_cast<Constant>(v);
  if (c && c->getType()->isVectorTy()) c = c->getSplatValue();
  const auto* number = dyn_cast_or_null<ConstantFP>(c);
  if (!number) return false;
  out = number->getType()->isFloatTy() ? f64{number->getValueAPF().convertToFloat()}
                                       : number->getValueAPF().convertToDouble();
  return true;
}

V Code::integer(Num n, u64 value, u32 l) {
  Constant* c = ConstantInt::get(type(n), value);
  return l ? ConstantVector::getSplat(ElementCount::getFixed(l), c) : c;
}
V Code::real(Num n, f64 value, u32 l) {
  return bits(n, n == Num::f32 ? std::bit_cast<u32>(static_cast<f32>(value)) : std::bit_cast<u64>(value), l);
}
V Code::bits(Num n, u64 value, u32 l) {
  if (n != Num::f32 && n != Num::f64) return integer(n, value, l);
  Constant* c = n == Num::f32
                    ? ConstantFP::get(*module_->context, APFloat(APFloat::IEEEsingle(), APInt(32, value & 0xffffffffu)))
                    : ConstantFP::get(*module_->context, APFloat(APFloat::IEEEdouble(), APInt(64, value)));
  return l ? ConstantVector::getSplat(ElementCount::getFixed(l), c) : c;
}
V Code::constants(Num n, std::span<const u64> values) {
  std::vector<Constant*> all;
  for (const u64 v : values) all.push_back(cast<Constant>(bits(n, v)));
  return ConstantVector::get(all);
}
V Code::zero_like(V v) { return Constant::getNullValue(v->getType()); }

V Code::bin(Bin op, V a, V b) {
  static constexpr Instruction::BinaryOps ops[] = {
      Instruction::Add,  Instruction::Sub,  Instruction::Mul,  Instruction::UDiv, Instruction::SDiv, Instruction::URem,
      Instruction::SRem, Instruction::And,  Instruction::Or,   Instruction::Xor,  Instruction::Shl,  Instruction::LShr,
      Instruction::AShr, Instruction::FAdd, Instruction::FSub, Instruction::FMul, Instruction::FDiv};
  return module_->builder.CreateBinOp(ops[static_cast<int>(op)], a, b);
}
V Code::cmp(Cmp op, V a, V b) {
  static constexpr CmpInst::Predicate ops[] = {
      CmpInst::ICMP_EQ,  CmpInst::ICMP_NE,  CmpInst::ICMP_ULT, CmpInst::ICMP_ULE, CmpInst::ICMP_UGT, CmpInst::ICMP_UGE,
      CmpInst::ICMP_SLT, CmpInst::ICMP_SLE, CmpInst::ICMP_SGT, CmpInst::ICMP_SGE, CmpInst::FCMP_OEQ, CmpInst::FCMP_UNE,
      CmpInst::FCMP_OLT, CmpInst::FCMP_OLE, CmpInst::FCMP_OGT, CmpInst::FCMP_OGE, CmpInst::FCMP_UNO};
  return module_->builder.CreateCmp(ops[static_cast<int>(op)], a, b);
}
V Code::select(V c, V a, V b) { return module_->builder.CreateSelect(c, a, b); }
V Code::not_(V a) { return module_->builder.CreateNot(a); }
V Code::fneg(V a) { return module_->builder.CreateFNeg(a); }

V Code::fn(Fn f, V a) {
  auto& b = module_->builder;
  switch (f) {
    case Fn::sqrt:
      return b.CreateUnaryIntrinsic(Intrinsic::sqrt, a);
    case Fn::floor:
      return b.CreateUnaryIntrinsic(Intrinsic::floor, a);
    case Fn::ceil:
      return b.CreateUnaryIntrinsic(Intrinsic::ceil, a);
    case Fn::trunc:
      return b.CreateUnaryIntrinsic(Intrinsic::trunc, a);
    case Fn::roundeven:
      return b.CreateUnaryIntrinsic(Intrinsic::roundeven, a);
    case Fn::fabs:
      return b.CreateUnaryIntrinsic(Intrinsic::fabs, a);
    case Fn::ctpop:
      return b.CreateUnaryIntrinsic(Intrinsic::ctpop, a);
    case Fn::bitreverse:
      return b.CreateUnaryIntrinsic(Intrinsic::bitreverse, a);
    case Fn::clz:
      return b.CreateBinaryIntrinsic(Intrinsic::ctlz, a, b.getFalse());
    case Fn::ctz:
      return b.CreateBinaryIntrinsic(Intrinsic::cttz, a, b.getFalse());
    default:
      llvm_unreachable("not a function of one operand");
  }
}
V Code::fn(Fn f, V a, V b) {
  if (f != Fn::copysign) llvm_unreachable("not a function of two operands");
  return module_->builder.CreateBinaryIntrinsic(Intrinsic::copysign, a, b);
}
V Code::fn(Fn f, V a, V b, V c) {
  const auto id = f == Fn::fma ? Intrinsic::fma : f == Fn::fshl ? Intrinsic::fshl : Intrinsic::fshr;
  return module_->builder.CreateIntrinsic(id, {a->getType()}, {a, b, c});
}
V Code::conv(Conv c, Num to, V a) {
  auto& b = module_->builder;
  Type* t = type(to, lanes(a));
  switch (c) {
    case Conv::zext:
      return b.CreateZExt(a, t);
    case Conv::sext:
      return b.CreateSExt(a, t);
    case Conv::trunc:
      return b.CreateTrunc(a, t);
    case Conv::fpext:
      return b.CreateFPExt(a, t);
    case Conv::fptrunc:
      return b.CreateFPTrunc(a, t);
    case Conv::sitofp:
      return b.CreateSIToFP(a, t);
    case Conv::uitofp:
      return b.CreateUIToFP(a, t);
    case Conv::fptosi:
      return b.CreateFPToSI(a, t);
    case Conv::fptoui:
      return b.CreateFPToUI(a, t);
    case Conv::fptosi_sat:
      return b.CreateIntrinsic(Intrinsic::fptosi_sat, {t, a->getType()}, {a});
    case Conv::fptoui_sat:
      return b.CreateIntrinsic(Intrinsic::fptoui_sat, {t, a->getType()}, {a});
  }
  return nullptr;
}
V Code::half_to_float(V v) {
  auto& b = module_->builder;
  Type* h = Type::getHalfTy(*module_->context);
  if (lanes(v)) h = FixedVectorType::get(h, lanes(v));
  Type* wide = type(Num::f32, lanes(v));
  if (isa<Constant>(v)) return b.CreateFPExt(b.CreateBitCast(v, h), wide);
  // Seen through an ordinary fpext, comparisons would become comparisons of halves, which are made lane by lane.
  return b.CreateConstrainedFPCast(Intrinsic::experimental_constrained_fpext, b.CreateBitCast(v, h), wide, nullptr, "",
                                   nullptr, std::nullopt, fp::ebIgnore);
}
V Code::float_to_half(V v) {
  auto& b = module_->builder;
  Type* h = Type::getHalfTy(*module_->context);
  if (lanes(v)) h = FixedVectorType::get(h, lanes(v));
  return b.CreateBitCast(b.CreateFPTrunc(v, h), type(Num::i16, lanes(v)));
}
V Code::bitcast(Num to, V a) { return module_->builder.CreateBitCast(a, type(to, lanes(a))); }
V Code::mask_bits(V mask) {
  auto& b = module_->builder;
  return b.CreateZExtOrTrunc(b.CreateBitCast(mask, b.getIntNTy(lanes(mask))), b.getInt32Ty());
}
V Code::splat(V s, u32 l) {
  if (auto* c = dyn_cast<Constant>(s)) return ConstantVector::getSplat(ElementCount::getFixed(l), c);
  return module_->builder.CreateVectorSplat(l, s);
}
V Code::extract(V vec, u32 lane) { return module_->builder.CreateExtractElement(vec, u64{lane}); }
V Code::extract(V vec, V lane) { return module_->builder.CreateExtractElement(vec, lane); }
V Code::insert(V vec, V scalar, u32 lane) { return module_->builder.CreateInsertElement(vec, scalar, u64{lane}); }
V Code::shuffle(V a, V b, std::span<const int> mask) {
  return module_->builder.CreateShuffleVector(a, b, ArrayRef<int>(mask.data(), mask.size()));
}
V Code::poison(Ty t) { return PoisonValue::get(t); }
V Code::or_reduce(V mask) {
  auto& b = module_->builder;
  if (!lanes(mask)) return mask;
  V whole = b.CreateBitCast(mask, b.getIntNTy(lanes(mask)));
  return b.CreateICmpNE(whole, Constant::getNullValue(whole->getType()));
}
namespace {
FixedVectorType* lanes_of(LLVMContext& c, u32 bits, u32 count) {
  return FixedVectorType::get(Type::getIntNTy(c, bits), count);
}
}  // namespace
V Code::dot_bytes(V acc, V a, V b) {
  const auto id = lanes(acc) == 16  ? Intrinsic::x86_avx512_vpdpbusd_512
                  : lanes(acc) == 8 ? Intrinsic::x86_avx512_vpdpbusd_256
                                    : Intrinsic::x86_avx512_vpdpbusd_128;
  return module_->builder.CreateIntrinsic(id, {}, {acc, a, b});
}
V Code::pair_dot_bytes(V a, V b) {
  auto& m = *module_;
  const u32 n = lanes(a);
  Type* bytes = lanes_of(*m.context, 8, 4 * n);
  const auto id = n == 16  ? Intrinsic::x86_avx512_pmaddubs_w_512
                  : n == 8 ? Intrinsic::x86_avx2_pmadd_ub_sw
                           : Intrinsic::x86_ssse3_pmadd_ub_sw_128;
  V r = m.builder.CreateIntrinsic(id, {}, {m.builder.CreateBitCast(a, bytes), m.builder.CreateBitCast(b, bytes)});
  return m.builder.CreateBitCast(r, a->getType());
}
V Code::pair_dot_halves(V a, V b) {
  auto& m = *module_;
  const u32 n = lanes(a);
  Type* halves = lanes_of(*m.context, 16, 2 * n);
  const auto id = n == 16  ? Intrinsic::x86_avx512_pmaddw_d_512
                  : n == 8 ? Intrinsic::x86_avx2_pmadd_wd
                           : Intrinsic::x86_sse2_pmadd_wd;
  return m.builder.CreateIntrinsic(id, {}, {m.builder.CreateBitCast(a, halves), m.builder.CreateBitCast(b, halves)});
}
bool Code::known_zero(V v, u64 mask) const {
  const auto known = computeKnownBits(v, module_->module->getDataLayout());
  return (known.Zero.getZExtValue() & mask) == mask;
}
V Code::freeze(V v) { return module_->builder.CreateFreeze(v); }

V Code::alloca_array(Ty t, u32 count, u32 align) {
  auto& m = *module_;
  IRBuilder<> b(m.entry, m.entry->begin());
  auto* a = b.CreateAlloca(count > 1 ? static_cast<Type*>(ArrayType::get(t, count)) : t);
  a->setAlignment(Align(align));
  return a;
}
V Code::gep(V base, V offset) { return module_->builder.CreatePtrAdd(base, offset); }
V Code::gep(V base, u64 offset) {
  return offset ? module_->builder.CreatePtrAdd(base, module_->builder.getInt64(offset)) : base;
}
V Code::address(V ptr) { return module_->builder.CreatePtrToInt(ptr, module_->builder.getInt64Ty()); }
V Code::load(Ty t, V ptr, u32 align) { return module_->builder.CreateAlignedLoad(t, ptr, Align(align)); }
void Code::store(V value, V ptr, u32 align) { module_->builder.CreateAlignedStore(value, ptr, Align(align)); }
void Code::store_nontemporal(V value, V ptr, u32 align) {
  auto* s = module_->builder.CreateAlignedStore(value, ptr, Align(align));
  auto& c = *module_->context;
  s->setMetadata(LLVMContext::MD_nontemporal,
                 MDNode::get(c, ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(c), 1))));
}
V Code::masked_load(Ty t, V ptr, u32 align, V mask, V other) {
  return module_->builder.CreateMaskedLoad(t, ptr, Align(align), mask, other);
}
void Code::masked_store(V value, V ptr, u32 align, V mask) {
  module_->builder.CreateMaskedStore(value, ptr, Align(align), mask);
}

V Code::atomic_rmw(Rmw op, V ptr, V value, bool relaxed) {
  static constexpr AtomicRMWInst::BinOp ops[] = {AtomicRMWInst::Add,  AtomicRMWInst::Sub,  AtomicRMWInst::Min,
                                                 AtomicRMWInst::Max,  AtomicRMWInst::UMin, AtomicRMWInst::UMax,
                                                 AtomicRMWInst::And,  AtomicRMWInst::Or,   AtomicRMWInst::Xor,
                                                 AtomicRMWInst::Xchg, AtomicRMWInst::FAdd};
  return module_->builder.CreateAtomicRMW(ops[static_cast<int>(op)], ptr, value, MaybeAlign(),
                                          relaxed ? AtomicOrdering::Monotonic : AtomicOrdering::SequentiallyConsistent);
}
V Code::compare_exchange(V ptr, V expected, V desired) {
  auto& b = module_->builder;
  auto* pair = b.CreateAtomicCmpXchg(ptr, expected, desired, MaybeAlign(), AtomicOrdering::SequentiallyConsistent,
                                     AtomicOrdering::SequentiallyConsistent);
  return b.CreateExtractValue(pair, 0);
}
V Code::atomic_load(Ty t, V ptr, u32 align) {
  auto* l = module_->builder.CreateAlignedLoad(t, ptr, Align(align));
  l->setAtomic(AtomicOrdering::Acquire);
  return l;
}
void Code::atomic_store(V value, V ptr, u32 align) {
  module_->builder.CreateAlignedStore(value, ptr, Align(align))->setAtomic(AtomicOrdering::Release);
}
void Code::fence() { module_->builder.CreateFence(AtomicOrdering::SequentiallyConsistent); }
void Code::prefetch(V ptr) {
  auto& b = module_->builder;
  b.CreateIntrinsic(Intrinsic::prefetch, {ptr->getType()}, {ptr, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
}
void Code::pause() { module_->builder.CreateIntrinsic(Intrinsic::x86_sse2_pause, {}, {}); }
void Code::sfence() { module_->builder.CreateIntrinsic(Intrinsic::x86_sse_sfence, {}, {}); }

Block Code::block(const char* block_name) { return BasicBlock::Create(*module_->context, block_name, module_->body); }
Block Code::here() const { return module_->builder.GetInsertBlock(); }
void Code::set(Block b) { module_->builder.SetInsertPoint(b); }
void Code::br(Block to) { module_->builder.CreateBr(to); }
void Code::br(V cond, Block yes, Block no, bool rarely) {
  MDBuilder md(*module_->context);
  module_->builder.CreateCondBr(cond, yes, no, rarely ? md.createBranchWeights(1, 2000) : nullptr);
}
V Code::phi(Ty t) { return module_->builder.CreatePHI(t, 2); }
void Code::incoming(V phi_node, V value, Block from) { cast<PHINode>(phi_node)->addIncoming(value, from); }
V Code::call(V fn, Ty result, std::initializer_list<V> args) {
  std::vector<Type*> types;
  for (V a : args) types.push_back(a->getType());
  auto* t = FunctionType::get(result ? result : Type::getVoidTy(*module_->context), types, false);
  return module_->builder.CreateCall(t, fn, ArrayRef<Value*>(args.begin(), args.size()));
}
bool Code::terminated() const { return module_->builder.GetInsertBlock()->getTerminator() != nullptr; }
std::size_t Code::instructions() const { return module_->body->getInstructionCount(); }

}  // namespace iron::cpu
