"""A user's datasheet of a serving engine: what it changes, and its refusals."""

import json

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

LIMIT = "{ranks: [6, 8], one_shot: {below_kib: 256}, two_shot: {up_to_kib: 8192}}"
MIB = 1 << 20


def scenario(tmp_path, library="mine.yaml"):
    path = tmp_path / "s.yaml"
    path.write_text(f"workload: {{kind: collective, op: all_reduce, library: {library}, in_graph: true, sizes_bytes: [{8 * MIB}, {16 * MIB}]}}\n")
    return path


def sheet(tmp_path, old, new):
    text = (ROOT / "platforms/datasheets/engines/vllm-0.19.yaml").read_text()
    assert text.count(old) >= 1
    (tmp_path / "mine.yaml").write_text(text.replace(old, new, 1))


def algorithms(tmp_path, library):
    succeed("dgx_h100", scenario(tmp_path, library), "--out", tmp_path / "out" / library, "--quiet")
    return [row["algorithm"] for row in rows(tmp_path / "out" / library / "collectives.csv")]


def test_larger_limits_leave_fewer_vectors_to_nccl(tmp_path):
    sheet(tmp_path, LIMIT, LIMIT.replace("8192", "16384"))
    shipped, own = algorithms(tmp_path, "vllm-0.19"), algorithms(tmp_path, "mine.yaml")
    assert shipped[0] == "two_shot" and shipped[1] in ("ring", "tree", "nvls")
    assert own == ["two_shot", "two_shot"]


def test_a_limit_below_a_size_leaves_it_to_nccl(tmp_path):
    sheet(tmp_path, LIMIT, LIMIT.replace("up_to_kib: 8192", "below_kib: 8192"))
    assert algorithms(tmp_path, "mine.yaml")[0] in ("ring", "tree", "nvls")


@pytest.mark.parametrize("old, new, message", [
    ("eager_call:", "eager_cal:", "all_reduce.eager_cal: unknown key (did you mean 'eager_call'?)"),
    ("[hopper, ", "[hoper, ", "all_reduce.kernels.0.architectures.0: unknown value 'hoper'; accepted: volta, ampere, ada, hopper, blackwell, cdna3 "
     "(did you mean 'hopper'?)"),
])
def test_a_faulty_datasheet_is_refused_in_one_line(tmp_path, old, new, message):
    sheet(tmp_path, old, new)
    word = new.strip("[:, ")
    number, line = next((i, line) for i, line in enumerate((tmp_path / "mine.yaml").read_text().splitlines(), 1) if word in line)
    result = run("dgx_h100", scenario(tmp_path), "--quiet")
    assert result.returncode == 2
    assert result.stderr.replace(f"{tmp_path}/", "") == f"mine.yaml:{number}:{line.index(word) + 1}: error: {message}\n"


def test_an_engine_names_the_library_of_block_scaled_products(tmp_path):
    """vLLM uses DeepGEMM for them on Hopper. It never splits K, and does not look for the fastest tile."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
              "num_hidden_layers": 1, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
              "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    path = tmp_path / "s.yaml"
    path.write_text("model: {config: config.json}\nworkload: {kind: layer, phase: prefill, tokens: 512, tp: 1}\n")

    def down_s(library, gpu):
        out = tmp_path / "out" / library / gpu
        platform = "dgx_b200" if gpu.startswith("B200") else "dgx_h100"
        succeed(platform, path, "--set", f"workload.library={library}", "--set", f"machine.groups.node.gpu={gpu}", "--out", out, "--quiet")
        return summary(out)["metrics"]["time_s"]["mlp.down"]

    assert down_s("vllm-0.19", "H100-SXM5-80GB") > 1.05 * down_s("trtllm-1.0", "H100-SXM5-80GB")
    assert down_s("vllm-0.19", "B200-SXM-180GB") == down_s("trtllm-1.0", "B200-SXM-180GB")


def test_calls_outside_a_graph_take_the_time_of_the_servers_cpus(tmp_path):
    def time_us(cpu):
        path = tmp_path / f"{cpu}.yaml"
        path.write_text(f"machine: {{cpu: {cpu}}}\nworkload: {{kind: collective, op: all_reduce, library: vllm-0.19, sizes_bytes: [4096]}}\n")
        succeed("dgx_h100", path, "--out", tmp_path / cpu, "--quiet")
        return float(rows(tmp_path / cpu / "collectives.csv")[0]["time_us"])

    assert time_us("xeon_cascade_lake") == pytest.approx(67, abs=1)  # platforms/datasheets/engines/vllm-0.19.yaml; the host is the limit
    assert time_us("xeon_sapphire_rapids") < time_us("epyc_rome") < time_us("xeon_cascade_lake")
    (tmp_path / "s.yaml").write_text("machine: {cpu: epyc_rom}\nworkload: {kind: collective, op: all_reduce}\n")
    result = run("dgx_h100", tmp_path / "s.yaml", "--quiet")
    assert result.returncode == 2 and "machine.cpu: unknown value 'epyc_rom'" in result.stderr and "did you mean 'epyc_rome'?" in result.stderr
