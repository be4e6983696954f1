#!/usr/bin/python3
"""Measures kernels of a CUDA GPU with PyTorch, and writes a table for scripts/calibrate.py and scripts/validate.py.

  scripts/measure_gpu.py --system my_h100 --out my-h100.csv
  torchrun --nproc-per-node 8 scripts/measure_gpu.py --system my_dgx --out my-dgx.csv      # and a GEMM beside an all-reduce

The parts, all of them unless --parts names some:
  gemms       matrix products in a CUDA graph, with five weight matrices in turn, so that none stays in L2
  scaled      the same in fp8, with one scale a tensor or one a row
  experts     products of a mixture's experts for few tokens (Triton), in blocks of rows of one expert, as engines launch them
  gradients   gradients of weights, alone and added to those of earlier micro-batches
  attention   prefill and decode
  copies      large and small copies launched from a stream and from a graph
  few_blocks  copies by few thread blocks (Triton)
  beside      a matrix product beside a copy or, with several ranks, beside an all-reduce
Every value is the median of --repeats timed replays. This takes some minutes. Run nothing else on the GPU.
"""

import csv
import os
import random
import statistics
import sys

from lib.command_line import BAD_INPUT, Parser, positive

COLUMNS = ("id", "category", "system", "kind", "config", "phase", "dtype", "M", "N", "K", "batch", "seq", "kv_len", "heads", "kv_heads",
           "head_dim", "library", "metric", "value", "unit", "source")
ROTATED = 5  # weights that take turns
LAUNCHES = 50  # small kernels in one timing
WARM_UPS = 5
LONG_COPY = 1 << 30
FP8_MAX = 448.0  # largest number of float8_e4m3fn
ROWS = (1, 16, 64, 256, 1024, 4096, 8192)
WEIGHTS = ((512, 512), (2048, 2048), (1024, 8192), (4096, 4096), (8192, 1024), (6144, 4096), (8192, 8192), (28672, 8192), (8192, 28672))
NARROW_ROWS = (16, 64, 256, 1024, 2048, 4096, 8192, 16384)
NARROW_WEIGHTS = ((1024, 8192), (4096, 4096), (6144, 4096), (8192, 8192), (28672, 4096), (4096, 14336), (28672, 8192), (8192, 28672))
# Experts, experts of a token, N, K: Mixtral 8x7B whole and on four ranks, Qwen3 30B-A3B, gpt-oss 120B (in bf16)
EXPERTS = ((8, 2, 28672, 4096), (8, 2, 4096, 14336), (8, 2, 7168, 4096), (8, 2, 4096, 3584), (128, 8, 1536, 2048), (128, 8, 2048, 768),
           (128, 4, 5760, 2880), (128, 4, 2880, 2880))
EXPERT_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
# Rows, columns and depth of a tile, and row blocks in turn, for at most as many tokens as experts and for more: get_default_config() of
# vLLM's fused_moe.py
EXPERT_TILES = ((16, 32, 64, 1), (64, 64, 32, 8))
HEADS = ((32, 8), (8, 8), (8, 1))
HEAD_DIM = 128
PROMPTS = ((1, 128), (1, 512), (1, 2048), (1, 8192), (4, 512), (4, 2048), (16, 512))
CACHES = ((1, 1024), (1, 8192), (1, 32768), (16, 1024), (16, 8192), (64, 1024), (64, 4096), (256, 1024))
SMALL_COPIES = (4096, 65536, 1 << 20, 1 << 22, 1 << 24)  # doubles
GRADIENTS = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336))  # of weights of Llama 3 8B
TOKENS = (1024, 2048, 4096, 8192)
BLOCKS = (1, 2, 4, 8, 16, 32)  # few, of 1024 threads with eight words of 16 bytes each, as in TransformerEngine's userbuffers
BLOCK_WARPS, BLOCK_NUMBERS = 32, 1024 * 8 * 4  # numbers of 4 bytes
PARTS = ("gemms", "scaled", "experts", "gradients", "attention", "copies", "few_blocks", "beside")
BESIDE = ((4096, 8192, 8192), (8192, 8192, 8192))


class Measurement:
    """Kernels of one device, timed by events."""

    def __init__(self, torch, repeats):
        self.torch, self.repeats = torch, repeats
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(self.device)

    def tensor(self, *shape, dtype=None):
        return self.torch.randn(*shape, device=self.device, dtype=dtype or self.torch.bfloat16)

    def timed(self, run):
        """Median seconds of `run`."""
        torch, times = self.torch, []
        for repeat in range(WARM_UPS + self.repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            if repeat >= WARM_UPS:
                times.append(start.elapsed_time(end) * 1e-3)
        return statistics.median(times)

    def in_graph(self, work):
        """What replays `work` as a CUDA graph."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def gemms(self):
        for n, k in WEIGHTS:
            weights = [self.tensor(k, n) for _ in range(ROTATED)]
            for m in ROWS:
                inputs = self.tensor(m, k)
                seconds = self.timed(self.in_graph(lambda: [inputs @ weight for weight in weights])) / ROTATED
                yield {"dtype": "bf16", "M": m, "N": n, "K": k, "library": "torch, weights rotated, CUDA graph"}, seconds

    def scaled(self):
        torch = self.torch

        def narrow(rows, width):
            return self.tensor(rows, width).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)

        for n, k in NARROW_WEIGHTS:
            weights = [narrow(n, k).t() for _ in range(ROTATED)]
            for m in NARROW_ROWS:
                inputs = narrow(m, k)
                scales = {"one scale a tensor": ((), ()), "one scale a row": ((m, 1), (1, n))}
                for name, (of_rows, of_columns) in scales.items():
                    left, right = (torch.ones(shape, device=self.device) for shape in (of_rows, of_columns))

                    def work(inputs=inputs, left=left, right=right):
                        for weight in weights:
                            torch._scaled_mm(inputs, weight, scale_a=left, scale_b=right, out_dtype=torch.bfloat16, use_fast_accum=True)

                    seconds = self.timed(self.in_graph(work)) / ROTATED
                    yield {"kind": f"product, {name}", "dtype": "fp8", "M": m, "N": n, "K": k,
                           "library": "torch scaled_mm, weights in turn, CUDA graph"}, seconds

    def experts(self):
        import triton

        product = expert_product()
        for experts, chosen, n, k in EXPERTS:
            weights = self.tensor(experts, n, k)
            for tokens in EXPERT_TOKENS:
                tile = EXPERT_TILES[tokens > experts]
                inputs, result = self.tensor(tokens, k), self.tensor(tokens * chosen, n)
                routings = [self.routing(tokens, experts, chosen, tile[0], seed) for seed in range(ROTATED)]
                grids = [(len(blocks) * triton.cdiv(n, tile[1]),) for _, blocks in routings]

                def work(routings=routings, grids=grids, inputs=inputs, result=result, tile=tile):
                    for (rows, blocks), grid in zip(routings, grids):
                        product[grid](inputs, weights, result, rows, blocks, len(blocks), tokens * chosen, n, k, chosen, *tile)

                seconds = self.timed(self.in_graph(work)) / ROTATED
                library = f"Triton, tiles of {tile[0]} x {tile[1]} x {tile[2]}, experts in turn, CUDA graph"
                yield {"kind": "products of experts", "config": f"{experts} experts, {chosen} a token", "dtype": "bf16", "M": tokens,
                       "N": n, "K": k, "library": library}, seconds

    def routing(self, tokens, experts, chosen, block, seed):
        """Pairs of token and expert by expert, each expert's padded to blocks of rows; and the expert of each block."""
        draw, of_experts = random.Random(seed), [[] for _ in range(experts)]
        for token in range(tokens):
            for place, expert in enumerate(draw.sample(range(experts), chosen)):
                of_experts[expert].append(token * chosen + place)
        rows, blocks = [], []
        for expert, pairs in enumerate(of_experts):
            rows += pairs + [tokens * chosen] * (-len(pairs) % block)
            blocks += [expert] * -(-len(pairs) // block)
        torch = self.torch
        return tuple(torch.tensor(values, device=self.device, dtype=torch.int32) for values in (rows, blocks))

    def gradients(self):
        torch = self.torch
        for n, k in GRADIENTS:
            narrow, wide = self.tensor(n, k), self.tensor(n, k, dtype=torch.float32)
            for m in TOKENS:
                gradient, inputs = self.tensor(m, n).t(), self.tensor(m, k)
                works = {"written": lambda: torch.mm(gradient, inputs, out=narrow),
                         "added in bf16": lambda: torch.addmm(narrow, gradient, inputs, out=narrow),
                         "added in fp32": lambda: torch.addmm(wide, gradient, inputs, out_dtype=torch.float32, out=wide)}
                for name, work in works.items():
                    yield {"kind": f"gradient of weights, {name}", "dtype": "bf16", "M": n, "N": k, "K": m}, self.timed(self.in_graph(work))

    def attention(self):
        attend = self.torch.nn.functional.scaled_dot_product_attention
        for heads, kv_heads in HEADS:
            shape = {"dtype": "bf16", "heads": heads, "kv_heads": kv_heads, "head_dim": HEAD_DIM, "library": "torch sdpa, CUDA graph"}
            for phase, cases in (("prefill causal", PROMPTS), ("decode", CACHES)):
                for batch, length in cases:
                    tokens = length if phase != "decode" else 1
                    query = self.tensor(batch, heads, tokens, HEAD_DIM)
                    key, value = (self.tensor(batch, kv_heads, length, HEAD_DIM) for _ in range(2))
                    work = self.in_graph(lambda: attend(query, key, value, is_causal=tokens > 1, enable_gqa=heads != kv_heads))
                    yield shape | {"phase": phase, "batch": batch, "seq": tokens, "kv_len": length}, self.timed(work)

    def copies(self):
        source = self.tensor(LONG_COPY // 2)
        target = self.torch.empty_like(source)
        seconds = self.timed(lambda: target.copy_(source))
        yield {"kind": "STREAM-like copy", "config": f"{LONG_COPY} B, occupancy 100%", "metric": "bandwidth"}, 2 * LONG_COPY / seconds
        for doubles in SMALL_COPIES:
            small = self.tensor(doubles, dtype=self.torch.float64)
            other = self.torch.empty_like(small)

            def launches():
                for _ in range(LAUNCHES):
                    self.torch.mul(small, 2.0, out=other)

            for launch, run in (("stream launches", launches), ("graph", self.in_graph(launches))):
                rate = 2 * doubles * 8 * LAUNCHES / self.timed(run)
                yield {"kind": f"back-to-back small SCALE kernels, {launch}", "config": f"{doubles} doubles", "metric": "bandwidth"}, rate

    def few_blocks(self):
        import triton
        import triton.language as tl

        @triton.jit
        def copy(source, target, rounds, NUMBERS: tl.constexpr):
            for i in range(rounds):
                at = (i * tl.num_programs(0) + tl.program_id(0)).to(tl.int64) * NUMBERS + tl.arange(0, NUMBERS)
                tl.store(target + at, tl.load(source + at))

        source = self.torch.zeros(LONG_COPY // 4, device=self.device, dtype=self.torch.int32)
        target = self.torch.empty_like(source)
        rounds = LONG_COPY // (4 * BLOCK_NUMBERS * max(BLOCKS))
        for blocks in BLOCKS:
            seconds = self.timed(lambda: copy[(blocks,)](source, target, rounds, BLOCK_NUMBERS, num_warps=BLOCK_WARPS))
            yield {"kind": "copy by few blocks", "config": f"{blocks} blocks of 1024 threads, 128 B each", "metric": "bandwidth"}, \
                2 * 4 * BLOCK_NUMBERS * blocks * rounds / seconds

    def beside(self, collective):
        """A matrix product while a copy or an all-reduce runs in another stream, which starts first and ends last."""
        torch, side = self.torch, self.torch.cuda.Stream()
        source = self.tensor(LONG_COPY // 2)
        target = torch.empty_like(source)
        others = {"nothing": None, "a copy": lambda: target.copy_(source)}
        if collective:
            others["an all-reduce"] = lambda: collective(source)
        for m, n, k in BESIDE:
            inputs, weight = self.tensor(m, k), self.tensor(k, n)
            for name, other in others.items():
                def work(other=other):
                    if other:
                        side.wait_stream(torch.cuda.current_stream())
                        with torch.cuda.stream(side):
                            other()
                    inputs @ weight

                config = f"{m}x{n}x{k} bf16, {LONG_COPY} B"
                yield {"kind": f"matrix product beside {name}", "config": config, "metric": "time"}, self.timed(work)


def expert_product():
    """A kernel: each thread block multiplies a block of rows of one expert by a block of columns of its weights."""
    import triton
    import triton.language as tl

    @triton.jit
    def product(inputs, weights, result, rows, blocks, row_blocks, pairs, N: tl.constexpr, K: tl.constexpr, CHOSEN: tl.constexpr,
                ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, IN_TURN: tl.constexpr):
        column_blocks = tl.cdiv(N, COLUMNS)
        turn = tl.program_id(0) // (IN_TURN * column_blocks)
        height = tl.minimum(row_blocks - turn * IN_TURN, IN_TURN)
        place = tl.program_id(0) % (IN_TURN * column_blocks)
        block = turn * IN_TURN + place % height
        column = (place // height) * COLUMNS + tl.arange(0, COLUMNS)
        pair = tl.load(rows + block * ROWS + tl.arange(0, ROWS))
        expert = tl.load(blocks + block).to(tl.int64)
        depth = tl.arange(0, DEPTH)
        left = inputs + (pair // CHOSEN)[:, None] * K + depth[None, :]
        right = weights + expert * N * K + (column % N)[None, :] * K + depth[:, None]
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        for step in range(tl.cdiv(K, DEPTH)):
            within = depth < K - step * DEPTH
            a = tl.load(left + step * DEPTH, mask=(pair < pairs)[:, None] & within[None, :], other=0.0)
            b = tl.load(right + step * DEPTH, mask=within[:, None], other=0.0)
            total = tl.dot(a, b, acc=total)
        target = result + pair.to(tl.int64)[:, None] * N + column[None, :]
        tl.store(target, total.to(tl.bfloat16), mask=(pair < pairs)[:, None] & (column < N)[None, :])

    return product


def parse_options():
    parser = Parser(description=__doc__)
    parser.add_argument("--system", required=True, metavar="NAME", help="name of this device in the rows")
    parser.add_argument("--out", required=True, metavar="FILE", help="file for the table")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="measure only these")
    parser.add_argument("--repeats", type=positive, default=20, metavar="N", help="timed replays of each kernel (default 20)")
    return parser.parse_args()


def lines_of(measurement, collective, options, source):
    for name in options.parts:
        for columns, value in measurement.beside(collective) if name == "beside" else getattr(measurement, name)():
            metric = columns.get("metric", "time")
            shown = (f"{value * 1e6:.6g}", "us") if metric == "time" else (f"{value * 1e-9:.6g}", "GB/s")
            yield {"category": "3-compute", "system": options.system, "metric": metric, "value": shown[0], "unit": shown[1],
                   "source": source} | columns


def main():
    options = parse_options()
    try:
        import torch
    except ImportError:
        print("measure_gpu.py: error: PyTorch is not installed; it has to be, on the machine that is measured", file=sys.stderr)
        return BAD_INPUT
    if not torch.cuda.is_available():
        print("measure_gpu.py: error: PyTorch sees no CUDA device", file=sys.stderr)
        return BAD_INPUT
    measurement, collective = Measurement(torch, options.repeats), None
    rank = int(os.environ.get("RANK", "0"))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("nccl")
        collective = torch.distributed.all_reduce
    source = f"scripts/measure_gpu.py on {torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    lines = list(lines_of(measurement, collective, options, source))
    if rank == 0:
        with open(options.out, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({"id": f"GPU-{number:05}"} | line for number, line in enumerate(lines, 1))
        print(f"wrote {options.out}: {len(lines)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
