"""FLOPs of a training step as the sources of TFLOP/s rows count them."""

from .training_models import Shape


def gpt(shape: Shape, seq: int, batch: int, recomputed: bool) -> float:
    """Narayanan et al., arXiv 2104.04473, equation 3; without recomputation three quarters of its products of the layers."""
    layers, hidden, vocab = shape.layers, shape.size("n_embd"), shape.size("vocab_size")
    layer = (96 if recomputed else 72) * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden))
    return layer + 6 * batch * seq * hidden * vocab


def llama(shape: Shape, seq: int, batch: int) -> float:
    """NVIDIA/NeMo nemo/utils/flops_formulas.py (llama2, llama3): all scores count, also those that a causal mask hides."""
    hidden, ffn = shape.size("hidden_size"), shape.size("intermediate_size")
    heads, kv_heads = shape.size("num_attention_heads"), shape.size("num_key_value_heads")
    layer = 12 + 12 * kv_heads / heads + 18 * ffn / hidden + 12 * seq / hidden
    return batch * seq * shape.layers * hidden**2 * (layer + 6 * shape.size("vocab_size") / (shape.layers * hidden))
