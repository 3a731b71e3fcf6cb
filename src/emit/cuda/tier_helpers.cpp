// PTX of the Hopper tier, one instruction a helper.
#include "emit/cuda/tier.h"

namespace iron::emit::cuda {

namespace {
constexpr Helper table[] = {
    {"shared_address", "", "$fn u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }"},
    {"TensorMap", "", R"(struct alignas(64) TensorMap {
  u64 words[16];
};)"},
    {"prefetch_map", "TensorMap",
     R"($fn void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" : : "l"(map)); })"},
    {"barrier_init", "", R"($fn void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(arrivals));
})"},
    {"barriers_ready", "",
     R"($fn void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); })"},
    {"expect_bytes", "", R"($fn void expect_bytes(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
})"},
    {"arrive", "", R"($fn void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
})"},
    // Relaxed: what peers wait for is that the slot was read, which settled products and fences have seen to.
    {"arrive_at_peer", "", R"($fn void arrive_at_peer(u32 barrier, u32 rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
               "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [there];\n}" : : "r"(barrier), "r"(rank) : "memory");
})"},
    {"wait_barrier", "", R"($fn void wait_barrier(u32 barrier, u32 parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
               "@done bra DONE;\nbra AGAIN;\nDONE:\n}" : : "r"(barrier), "r"(parity) : "memory");
})"},
    {"elect_one", "", R"($fn bool elect_one() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(chosen));
  return chosen != 0;
})"},
    {"named_barrier", "", R"($fn void named_barrier(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
})"},
    {"named_arrive", "", R"($fn void named_arrive(u32 id, u32 threads) {
  asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
})"},
    {"fence_proxies", "",
     R"($fn void fence_proxies() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); })"},
    {"commit_stores", "",
     R"($fn void commit_stores() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); })"},
    {"stores_have_read", "",
     R"($fn void stores_have_read() { asm volatile("cp.async.bulk.wait_group.read 0;" : : : "memory"); })"},
    {"cluster_barrier", "", R"($fn void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" : : : "memory");
})"},
    // Nobody's memory goes while a peer may still signal it; what was read of it must have been read.
    {"leave_read_cluster", "", R"($fn void leave_read_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" : : : "memory");
})"},
    {"leave_cluster", "", R"($fn void leave_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" : : : "memory");
})"},
    {"cluster_rank", "", R"($fn u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
})"},
    {"peer_address", "", R"($fn u32 peer_address(u32 address, u32 rank) {
  u32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
})"},
    {"peer_load_1", "", R"($fn u8 peer_load_1(u32 address) {
  u16 v;
  asm volatile("ld.shared::cluster.u8 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return (u8)v;
})"},
    {"peer_load_2", "", R"($fn u16 peer_load_2(u32 address) {
  u16 v;
  asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=h"(v) : "r"(address) : "memory");
  return v;
})"},
    {"peer_load_4", "", R"($fn u32 peer_load_4(u32 address) {
  u32 v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
})"},
    {"peer_load_8", "", R"($fn u64 peer_load_8(u32 address) {
  u64 v;
  asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(address) : "memory");
  return v;
})"},
    {"products_begin", "",
     R"($fn void products_begin() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); })"},
    {"products_commit", "",
     R"($fn void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); })"},
    {"products_settle", "", R"(template <int in_flight> $fn void products_settle() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(in_flight) : "memory");
})"},
    // A matrix in swizzled shared memory, as products read it: start, leading and stride offsets in bytes, swizzle
    // mode.
    {"matrix", "", R"(template <u32 leading, u32 stride, u32 mode> $fn u64 matrix(u32 address) {
  return ((u64)mode << 62) | ((u64)(stride >> 4) << 32) | ((u64)(leading >> 4) << 16) | ((address & 0x3ffffu) >> 4);
})"},
    {"pack_bf16", "", R"($fn u32 pack_bf16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
})"},
    {"pack_f16", "", R"($fn u32 pack_f16(f32 low, f32 high) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
})"},
    {"unpack_bf16", "float_bits", R"(template <int high> $fn f32 unpack_bf16(u32 pair) {
  return as_f32(high ? pair & 0xffff0000u : pair << 16);
})"},
    {"unpack_f16", "f16", R"(template <int high> $fn f32 unpack_f16(u32 pair) {
  return widen(f16{(u16)(high ? pair >> 16 : pair & 0xffffu)});
})"},
    // Byte address of a 16-byte chunk of a row: its bits 4.. are swizzled by the bits above the row pitch.
    {"chunk_at", "", R"(template <u32 pitch> $fn u32 chunk_at(u32 view, u32 row, u32 chunk) {
  return view + row * pitch + ((chunk ^ (row * pitch / 128u & (pitch / 16u - 1u))) << 4);
})"},
    {"store_pair", "", R"($fn void store_pair(u32 address, f32 a, f32 b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" : : "r"(address), "f"(a), "f"(b) : "memory");
})"},
    {"stmatrix_4", "", R"($fn void stmatrix_4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               : : "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
})"},
    {"stmatrix_2", "", R"($fn void stmatrix_2(u32 address, u32 a, u32 b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" : : "r"(address), "r"(a), "r"(b) : "memory");
})"},
};
}  // namespace

std::span<const Helper> tier_helpers() { return table; }

}  // namespace iron::emit::cuda
