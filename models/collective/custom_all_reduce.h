// Which of their own all-reduce kernels serving engines use inside a server, by the size of the vector and the number of
// ranks; larger vectors go to NCCL.
//
//   vLLM          csrc/custom_all_reduce.cuh: one-shot on two ranks, below 512 KiB on four and below 256 KiB on six and
//                 eight, else two-shot; each thread reads from all peers. custom_all_reduce.py: 2, 4, 6 or 8 ranks,
//                 vectors below 8 MiB. At 8 MiB itself newer versions use symmetric-memory kernels on H100 and B200,
//                 which are not modelled; two-shot stands for them.
//   SGLang        custom_all_reduce_v2.py (thresholds of H200 and B200): one-shot on two ranks, up to 160 to 512 KiB
//                 (Blackwell: 720 KiB to 4 MiB) on more, else two-shot, up to 16 MiB. Without NVLink, and on GPUs older
//                 than Hopper, vLLM's kernel for vectors below 16 MiB (custom_all_reduce.py).
//   TensorRT-LLM  customAllReduceUtils.h, AllReduceBestStrategyTable, all-reduce with residual and norm, hidden size
//                 4096, bf16. The table is by tokens; in bytes, hidden sizes of 4096 and 8192 differ by at most a factor
//                 of two. Older than Blackwell: one-shot up to 8 MiB on two ranks, 2 MiB on four (two-shot up to 4 MiB)
//                 and 512 KiB on eight. Blackwell: 8, 2 and 2 MiB, two-shot up to 4 MiB on four and eight.
//                 allreduceOp.cpp: none without NVLink.
#pragma once

#include "collective/tuner.h"

namespace railyard::collective {

/// An engine's own kernel, and the largest vectors that it reduces.
struct CustomKernel {
  Bytes one_shot = 0;
  Bytes two_shot = 0;  ///< of those above one_shot; NCCL reduces larger ones
  bool pulls = false;  ///< members read from their peers, between exchanges of flags; otherwise they store to them

  Bytes most() const { return one_shot > two_shot ? one_shot : two_shot; }
};
/// All zero if the library has no kernel of its own at this site.
CustomKernel custom_kernel(Library library, const Site& site);

}  // namespace railyard::collective
