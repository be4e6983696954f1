#!/usr/bin/python3
"""Measures the power and the clock of a CUDA GPU under steady load, with PyTorch, Triton and nvidia-ml-py.

  scripts/measure_step_clock.py --out my-h100-clock.csv

The loads: matrix products in bf16 and fp8, a copy, and a layer of Llama 3 8B, forward and backward on 8192 tokens, in bf16 and fp8. Split
accumulation adds partial sums of fp8 products in fp32 outside the tensor cores; recipes use it backward. Each load runs twice. In bursts of
some milliseconds, between pauses, it has the power limit for itself; a straight line through the mean power of several shares of time gives
the power that it would draw, and what the GPU draws without it. Then it runs without pauses. The clock is counted on the SMs. Kernels of
the layers are timed in both ways. A layer in bf16 also takes turns with waits of a share of the time, in which 24 thread blocks poll, or
copy, as those of a collective do; their power alone is measured with several numbers of blocks. This takes five minutes. Run nothing else on the GPU, and leave its power limit as it is.
"""

import collections
import csv
import itertools
import math
import statistics
import sys
import time

from lib.command_line import BAD_INPUT, Parser

COLUMNS = ("load", "value", "unit", "what")
SIDE = 8192  # rows and columns of a matrix product
COPY_BYTES = 1 << 30
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of time, in bursts
BURST_S = 0.006
BURSTS_S, WARM_S, STEADY_S = 3.0, 2.0, 3.0  # of bursts of one share; before and in the measured part without pauses
TOKENS, HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 8192, 4096, 14336, 32, 8, 128, 4
PRODUCT_KERNELS = ("nvjet", "gemm", "cutlass", "xmma")  # in their names
LAYER_FLOPS = 6 * TOKENS * HIDDEN * ((HEADS + 2 * KV_HEADS) * HEAD_DIM + HEADS * HEAD_DIM + 3 * FFN)
WAIT_BLOCKS, WAIT_SHARES, LONG_WAIT_SHARE = 24, (0.1, 0.2, 0.3, 0.45), 0.2
LONG_TURNS = (4, 16, 64)  # iterations between two waits
COPIED = 1 << 22  # numbers of 4 bytes that a block copies in one launch
COPYING_BLOCKS, COPYING_LAUNCHES, COPYING_S = (4, 8, 16, 24, 48, 64), 8, 2.0
INPUT_SCALE, WEIGHT_SCALE = 64.0, 4000.0  # fill the range of fp8


def clock_kernel(triton, tl):
    """Stores the cycle counter of each SM, and the time."""

    @triton.jit
    def read_clock(cycles, times):
        sm = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
        clock = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        tl.store(cycles + sm, clock)
        tl.store(times + sm, now)

    return read_clock


def narrowing_kernel(triton, tl):
    """Casts a matrix to an 8-bit type, and stores it twice: as it is, and transposed."""

    @triton.jit
    def narrow(source, target, transposed, scale, rows, columns, HIGH: tl.constexpr, WIDE: tl.constexpr):
        row = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
        column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
        values = tl.load(source + row[:, None] * columns + column[None, :]).to(tl.float32) * scale
        narrowed = values.to(target.dtype.element_ty)
        tl.store(target + row[:, None] * columns + column[None, :], narrowed)
        tl.store(transposed + column[:, None] * rows + row[None, :], tl.trans(narrowed))

    return narrow


def waiting_kernels(triton, tl):
    """Thread blocks that poll for a time, and that copy their share of a buffer."""

    @triton.jit
    def poll(ends, nanoseconds):
        start = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        now = start
        while now - start < nanoseconds:
            now = tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
        tl.store(ends + tl.program_id(0), now)

    @triton.jit
    def copy(source, target, numbers, BLOCK: tl.constexpr):
        start = tl.program_id(0) * numbers
        for first in range(0, numbers, BLOCK):
            at = start + first + tl.arange(0, BLOCK)
            tl.store(target + at, tl.load(source + at))

    return poll, copy


class Waits:
    """What runs on the GPU for a time while it has nothing else to do, by name."""

    BLOCK = 8192

    def __init__(self, torch, triton, tl):
        self.poll_kernel, self.copy_kernel = waiting_kernels(triton, tl)
        self.ends = torch.zeros(WAIT_BLOCKS, dtype=torch.int64, device="cuda")
        self.source = torch.zeros(max(COPYING_BLOCKS) * COPIED, dtype=torch.int32, device="cuda").random_()
        self.target = torch.empty_like(self.source)
        self.number_s = 0.0
        for _ in range(2):  # the first one compiles
            torch.cuda.synchronize()
            start = time.perf_counter()
            self.copy_numbers(COPIED)
            torch.cuda.synchronize()
            self.number_s = (time.perf_counter() - start) / COPIED

    def copy_numbers(self, numbers, blocks=WAIT_BLOCKS):
        self.copy_kernel[(blocks,)](self.source, self.target, numbers, BLOCK=self.BLOCK, num_warps=16)

    def poll(self, seconds):
        self.poll_kernel[(WAIT_BLOCKS,)](self.ends, int(seconds * 1e9), num_warps=16)

    def copy(self, seconds):
        left = max(1, round(seconds / self.number_s / self.BLOCK)) * self.BLOCK
        while left > 0:
            self.copy_numbers(min(left, COPIED))
            left -= COPIED


class Gpu:
    """Clock, energy and time of one device."""

    def __init__(self, torch, triton, tl, nvml):
        self.torch, self.nvml = torch, nvml
        nvml.nvmlInit()
        self.handle = nvml.nvmlDeviceGetHandleByIndex(0)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.read_clock = clock_kernel(triton, tl)
        self.mark()  # compiles

    def limit_w(self):
        return self.nvml.nvmlDeviceGetEnforcedPowerLimit(self.handle) / 1000

    def mark(self):
        """Puts into the stream what reads clocks and time."""
        cycles, times = (self.torch.zeros(self.sms, dtype=self.torch.int64, device="cuda") for _ in range(2))
        self.read_clock[(self.sms * 16,)](cycles, times, num_warps=1)
        return cycles, times

    def between(self, first, last):
        """Mean SM clock in MHz and seconds between two marks."""
        seen = (first[1] > 0) & (last[1] > 0)
        cycles, nanoseconds = ((last[part] - first[part])[seen].double() for part in (0, 1))
        return float((cycles / nanoseconds).median()) * 1e3, float(nanoseconds.median()) * 1e-9

    def at_energy_step(self, keep_going):
        """Runs on until the energy counter moves: the time and the joules."""
        read = lambda: self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)
        before = read()
        while (now := read()) == before:
            keep_going()
        return time.perf_counter(), now / 1000

    def mean_power_w(self, seconds, keep_going):
        start, first_j = self.at_energy_step(keep_going)
        while time.perf_counter() < start + seconds:
            keep_going()
        end, last_j = self.at_energy_step(keep_going)
        return (last_j - first_j) / (end - start)

    def in_bursts(self, run, iterations):
        """Watts of the load and of the GPU without it; clock and seconds of an iteration."""
        points, marks = [], []
        for share in SHARES:
            on = []

            def burst(share=share, on=on):
                first = self.mark()
                for _ in range(iterations):
                    run()
                last = self.mark()
                self.torch.cuda.synchronize()
                marks.append((first, last))
                on.append(self.between(first, last)[1])
                time.sleep(on[-1] * (1 / share - 1))

            start = time.perf_counter()
            watts = self.mean_power_w(BURSTS_S, burst)
            points.append((sum(on) / (time.perf_counter() - start), watts))
        slope, without = statistics.linear_regression(*zip(*points))
        clocks, seconds = zip(*(self.between(*pair) for pair in marks))
        return {"power": slope + without, "power without load": without, "clock": statistics.median(clocks),
                "time": statistics.median(seconds) / iterations}

    def without_pause(self, run, iterations, wait=lambda: None):
        """Watts of all; clock and seconds of an iteration, and the share of time of iterations."""
        queued, marks = collections.deque(), []

        def more():
            first = self.mark()
            for _ in range(iterations):
                run()
            marks.append((first, self.mark()))
            wait()
            event = self.torch.cuda.Event()
            event.record()
            queued.append(event)
            if len(queued) > 2:
                queued.popleft().synchronize()

        start = time.perf_counter()
        while time.perf_counter() < start + WARM_S:
            more()
        marks.clear()
        watts = self.mean_power_w(STEADY_S, more)
        self.torch.cuda.synchronize()
        clocks, seconds = zip(*(self.between(*pair) for pair in marks))
        busy_s, all_s = statistics.mean(seconds[:-1]), self.between(marks[0][0], marks[-1][0])[1] / (len(marks) - 1)
        return {"power": watts, "clock": statistics.median(clocks), "time": busy_s / iterations, "share of time": busy_s / all_s}

    def kernel_times(self, run, pause_s, iterations):
        """Seconds of an iteration in kernels of each name, in the second half of the iterations."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(iterations):
                run()
                if pause_s:
                    self.torch.cuda.synchronize()
                    time.sleep(pause_s)
            self.torch.cuda.synchronize()
        kernels = [event for event in profile.events() if event.device_type == self.torch.autograd.DeviceType.CUDA]
        kernels.sort(key=lambda event: event.time_range.start)
        total = collections.Counter()
        for event in kernels[len(kernels) // 2:]:
            total[event.name] += event.time_range.elapsed_us() * 1e-6 / (iterations / 2)
        return total


class Loads:
    """What keeps the GPU busy, by name."""

    def __init__(self, torch, triton, tl):
        self.torch, self.narrowing = torch, narrowing_kernel(triton, tl)
        self.one = torch.ones((), device="cuda")
        self.unscale = self.one / (INPUT_SCALE * WEIGHT_SCALE)

    def normal(self, *shape, scale=1.0):
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16) * scale

    def narrowed(self, matrix, kind, scale):
        """The matrix in an 8-bit type, and its transpose."""
        rows, columns = matrix.shape
        target = self.torch.empty(rows, columns, device="cuda", dtype=kind)
        transposed = self.torch.empty(columns, rows, device="cuda", dtype=kind)
        self.narrowing[(rows // 64, columns // 128)](matrix, target, transposed, scale, rows, columns, HIGH=64, WIDE=128, num_warps=4)
        return target, transposed

    def fp8_product(self, left, right, split=False):
        """left x the transpose of right."""
        scales = {"scale_a": self.unscale, "scale_b": self.one}
        return self.torch._scaled_mm(left, right.t(), **scales, out_dtype=self.torch.bfloat16, use_fast_accum=not split)

    def products(self):
        left, right = self.normal(SIDE, SIDE), self.normal(SIDE, SIDE)
        result = self.torch.empty_like(left)
        narrow = [self.narrowed(matrix, self.torch.float8_e4m3fn, INPUT_SCALE)[0] for matrix in (left, right)]
        yield "product bf16", lambda: self.torch.matmul(left, right, out=result)
        yield "product fp8", lambda: self.fp8_product(*narrow)
        yield "product fp8, split accumulation", lambda: self.fp8_product(*narrow, split=True)

    def copy(self):
        source = self.normal(COPY_BYTES // 2)
        target = self.torch.empty_like(source)
        yield "copy", lambda: target.copy_(source)

    def layers(self):
        torch, functional = self.torch, self.torch.nn.functional
        loads = self

        class Linear(torch.autograd.Function):
            @staticmethod
            def forward(context, inputs, weight):
                context.save_for_backward(inputs, weight)
                return inputs @ weight.t()

            @staticmethod
            def backward(context, gradient):
                inputs, weight = context.saved_tensors
                gradient.t() @ inputs
                return gradient @ weight, None

        class Fp8Linear(torch.autograd.Function):
            @staticmethod
            def forward(context, inputs, weight, split):
                inputs8, inputs8_t = loads.narrowed(inputs, torch.float8_e4m3fn, INPUT_SCALE)
                context.weight, context.inputs8_t, context.split = weight, inputs8_t, split
                return loads.fp8_product(inputs8, weight[0])

            @staticmethod
            def backward(context, gradient):
                gradient8, gradient8_t = loads.narrowed(gradient.contiguous(), torch.float8_e5m2, INPUT_SCALE)
                loads.fp8_product(gradient8_t, context.inputs8_t, context.split)
                return loads.fp8_product(gradient8, context.weight[1], context.split), None, None

        shapes = (((HEADS + 2 * KV_HEADS) * HEAD_DIM, HIDDEN), (HIDDEN, HEADS * HEAD_DIM), (2 * FFN, HIDDEN), (HIDDEN, FFN))
        weights = [[self.normal(*shape, scale=0.02) for shape in shapes] for _ in range(LAYERS)]
        narrow = [[self.narrowed(weight, torch.float8_e4m3fn, WEIGHT_SCALE) for weight in layer] for layer in weights]
        gain = torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)
        gradient = self.normal(TOKENS, HIDDEN)

        def layer(linear, parameters, inputs):
            qkv, projection, gate_up, down = parameters
            heads = linear(functional.rms_norm(inputs, (HIDDEN,), gain), qkv).view(1, TOKENS, -1, HEAD_DIM).transpose(1, 2)
            query, key, value = heads.split((HEADS, KV_HEADS, KV_HEADS), dim=1)
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
            inputs = inputs + linear(attended.transpose(1, 2).reshape(TOKENS, HEADS * HEAD_DIM), projection)
            gate, up = linear(functional.rms_norm(inputs, (HIDDEN,), gain), gate_up).chunk(2, dim=1)
            return inputs + linear(functional.silu(gate) * up, down)

        def step(linear, parameters, turn):
            inputs = self.start.detach().requires_grad_()
            layer(linear, parameters[turn % LAYERS], inputs).backward(gradient)

        self.start = self.normal(TOKENS, HIDDEN)
        forms = (("layer bf16", Linear.apply, weights), ("layer fp8", lambda *given: Fp8Linear.apply(*given, False), narrow),
                 ("layer fp8, split accumulation backward", lambda *given: Fp8Linear.apply(*given, True), narrow))
        for name, linear, parameters in forms:
            turns = itertools.count()
            yield name, lambda linear=linear, parameters=parameters, turns=turns: step(linear, parameters, next(turns))


def parse_options():
    parser = Parser(description=__doc__)
    parser.add_argument("--out", required=True, metavar="FILE", help="file for the table")
    return parser.parse_args()


def rows_of_waits(gpu, waits):
    """Power of thread blocks that poll, or copy, and nothing else."""
    def poll():
        waits.poll(BURST_S)
        gpu.torch.cuda.synchronize()

    yield "polling", gpu.mean_power_w(COPYING_S, poll), "W", "power, alone"
    for blocks in COPYING_BLOCKS:
        copied = 0

        def copy(blocks=blocks):
            nonlocal copied
            for _ in range(COPYING_LAUNCHES):
                waits.copy_numbers(COPIED, blocks)
            gpu.torch.cuda.synchronize()
            copied += COPYING_LAUNCHES * blocks * COPIED * 4

        copy()
        start, before = time.perf_counter(), copied
        watts = gpu.mean_power_w(COPYING_S, copy)
        yield "copying", (copied - before) / (time.perf_counter() - start) * 1e-9, "GB/s", f"rate, {blocks} blocks"
        yield "copying", watts, "W", f"power, {blocks} blocks"


def rows_beside_waits(gpu, run, waits):
    """A layer takes turns with waits."""
    units = {"clock": "MHz", "time": "s", "share of time": ""}
    time_s = gpu.without_pause(run, 1)["time"]
    turns = [(name, wait, share, 1) for name, wait in (("polling", waits.poll), ("copying", waits.copy)) for share in WAIT_SHARES]
    turns += [("polling", waits.poll, LONG_WAIT_SHARE, iterations) for iterations in LONG_TURNS]
    for name, wait, share, iterations in turns:
        found = gpu.without_pause(run, iterations, lambda: wait(iterations * time_s * share / (1 - share)))
        for what, value in found.items():
            yield "layer bf16", value, units.get(what, "W"), f"{what}, with waits of {share:.0%} {name}, {iterations} iterations a turn"


def rows_of(gpu, loads, waits):
    yield "GPU", gpu.limit_w(), "W", "power limit"
    yield from rows_of_waits(gpu, waits)
    for name, run in (*loads.products(), *loads.copy(), *loads.layers()):
        run()
        gpu.torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        gpu.torch.cuda.synchronize()
        iterations = max(1, round(BURST_S / (time.perf_counter() - start)))
        bursts = gpu.in_bursts(run, iterations)
        steady = gpu.without_pause(run, iterations)
        units = {"clock": "MHz", "time": "s", "share of time": ""}
        for way, found in (("in bursts", bursts), ("without pause", steady)):
            for what, value in found.items():
                yield name, value, units.get(what, "W"), f"{what}, {way}"
        if steady["clock"] < 0.98 * bursts["clock"]:
            base = bursts["power without load"]
            exponent = math.log((bursts["power"] - base) / (steady["power"] - base)) / math.log(bursts["clock"] / steady["clock"])
            yield name, exponent, "", "exponent of the clock in the power of the load"
        if name.startswith("layer"):
            for way, pause_s, iterations in (("in bursts", 0.06, 12), ("without pause", 0, 120)):
                kernels = gpu.kernel_times(run, pause_s, iterations)
                products = sum(seconds for kernel, seconds in kernels.items() if any(part in kernel for part in PRODUCT_KERNELS))
                yield name, products, "s", f"kernels of products, {way}"
                for kernel, seconds in kernels.most_common(16):
                    yield name, seconds, "s", f"kernel, {way}: {kernel[:100]}"
            yield name, LAYER_FLOPS, "FLOP", "matrix products of an iteration"
        if name == "layer bf16":
            yield from rows_beside_waits(gpu, run, waits)


def main():
    options = parse_options()
    try:
        import pynvml
        import torch
        import triton
        import triton.language as tl
    except ImportError as missing:
        print(f"measure_step_clock.py: error: {missing}; it has to be installed on the machine that is measured", file=sys.stderr)
        return BAD_INPUT
    if not torch.cuda.is_available():
        print("measure_step_clock.py: error: PyTorch sees no CUDA device", file=sys.stderr)
        return BAD_INPUT
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    with open(options.out, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for load, value, unit, what in rows_of(Gpu(torch, triton, tl, pynvml), Loads(torch, triton, tl), Waits(torch, triton, tl)):
            writer.writerow((load, f"{value:.6g}", unit, what))
            print(f"{load}: {what}: {value:.6g} {unit}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
