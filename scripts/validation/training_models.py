"""Shapes of trained models: a configuration under scenarios/models by name, or a GPT by the row's columns.

A row's own layers replace those of the model, its sequences set the learned positions, and Megatron pads the vocabulary of its GPTs to a
multiple of 128 x TP (megatron/tokenizer: make_vocab_size_divisible_by).
"""

import functools
import json
import pathlib
import re
from dataclasses import dataclass

from . import model_configs
from .rows import Row, Unmapped

# Names in rows -> configuration, and what the source's own configuration has instead
NAMES = (
    (r"llama3(\.1)?[ _-]?8b.*", "llama-3.1-8b", {}),
    (r"llama3(\.1)?[ _-]?70b.*", "llama-3.1-70b", {}),
    (r"llama3\.1[ _]405b.*", "llama-3.1-405b", {}),
    (r"llama2[ -]?7b.*", "llama-2-7b", {}),
    (r"llama2[ -]?13b", "llama-2-13b", {}),
    (r"(maxtext )?llama2[ -]?70b", "llama-2-70b", {}),
    (r"maxtext llama3 70b", "llama-3.1-70b", {}),
    (r"nemotron4 15b", "nemotron-4-15b", {}),
    (r"nemotron4 340b", "nemotron-4-340b", {}),
    (r"nemotron-8b", "nemotron-3-8b", {}),
    # NVIDIA/dgxc-benchmarking v24.11.1 grok1/grok1_314b.yaml: the tokenizer of Llama 3, a head of its own
    (r"grok ?1 314b( dev)?", "grok-1", {"vocab_size": 128256, "tie_word_embeddings": False}),
    (r"mpt (\d+[mb])", r"mpt-\1", {}),
    (r"qwen3_30b_a3b", "qwen3-30b-a3b", {}),
    (r"gpt oss 120b", "gpt-oss-120b", {}),
    (r"deepseek-?v3 \((w/o mtp|671b)\)", "deepseek-v3", {}),
    (r"gpt-?3[ -]175b|nemo megatron|paxml gpt175b|gpt 17[45].*b", "gpt3-175b", {}),
    (r"gpt3-5b|gpt 5b|paxml gpt5b", "gpt-5b", {}),
    (r"gpt3-20b", "gpt-20b", {}),
    (r"gpt 126m", "gpt-126m", {}),
    (r"gpt 22b.*", "gpt-22b", {}),
)
CANNOT = (
    (r"\bsft\b", "fine-tuning on packed sequences is not modelled"),
    (r"^deepseek ?v3( \||$)", "modules for multi-token prediction are not modelled"),
    (r"deepseek ?v4", "the attention of DeepSeek-V4 is not modelled"),
    (r"nemotron(-h|_3)", "Mamba layers are not modelled"),
    (r"llama4", "chunked attention is not modelled"),
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
LAYERS = ("n_layer", "n_layers", "num_hidden_layers")
POSITIONS = ("n_positions", "max_seq_len")  # of learned position embeddings
MEGATRON_VOCAB, MEGATRON_MULTIPLE = 51200, 128


@dataclass(frozen=True)
class Shape:
    """A model as the text of its config.json, or as the path of a shipped one."""

    name: str
    config: str
    path: str = ""

    def size(self, *keys: str) -> int:
        """The first of the keys that the configuration has."""
        values = json.loads(self.config)
        return next(values[key] for key in keys if values.get(key))

    @property
    def layers(self) -> int:
        return self.size(*LAYERS)

    @property
    def has_experts(self) -> bool:
        values = json.loads(self.config)
        return any(values.get(key) for key in EXPERTS)

    def section(self, dtype: str) -> tuple[dict, dict[str, str]]:
        """The scenario's `model`, and the files that it names."""
        section = {"dtype": dtype} | ({"quantization": "none"} if "quantization_config" in json.loads(self.config) else {})
        if self.path:
            return {"config": self.path} | section, {}
        return {"config": "model.json", "name": self.name} | section, {"model.json": self.config}


def _shipped(name: str) -> pathlib.Path:
    return model_configs.SHIPPED / f"{name}.json"


@functools.cache
def _text(config: pathlib.Path) -> str:
    """@throws Unmapped if no scenario could use it either"""
    try:
        text = config.read_text(encoding="utf-8")
        if isinstance(json.loads(text), dict):
            return text
    except (OSError, ValueError) as error:
        raise Unmapped(f"{config.name}: {error}") from error
    raise Unmapped(f"{config.name}: no config of a model")


def gpt(name: str, layers: int, hidden: int, heads: int, positions: int, vocab: int) -> Shape:
    config = {"model_type": "gpt2", "n_layer": layers, "n_embd": hidden, "n_head": heads, "n_positions": positions, "vocab_size": vocab}
    return Shape(re.sub(r"[^a-z0-9.]+", "-", name.lower()), json.dumps(config, indent=2) + "\n")


def shape_of(row: Row, seq: int, tp: int) -> Shape:
    """@throws Unmapped if no configuration belongs to the row's model"""
    model = re.sub(r"( finetuning)? lora$", "", row["model"].lower())  # training_adapters.py
    for pattern, reason in CANNOT:
        if re.search(pattern, row.text("model", "extra"), re.IGNORECASE):
            raise Unmapped(reason)
    vocab = re.search(r"vocab (\d+)", row["extra"])
    layers, hidden, heads = (row.integer(column) for column in ("layers", "hidden", "heads"))
    if model.startswith("gpt") and layers and hidden and heads:
        return gpt(row["model"], layers, hidden, heads, seq, padded(int(vocab[1]) if vocab else MEGATRON_VOCAB, tp))
    for pattern, name, changes in NAMES:
        found = re.fullmatch(pattern, model)
        if found:
            return _changed(_shipped(found.expand(name)), changes, layers, seq)
    return _changed(model_configs.find(row), {}, layers, seq)


def padded(vocab: int, tp: int) -> int:
    multiple = MEGATRON_MULTIPLE * tp
    return -(-vocab // multiple) * multiple


def _changed(path: pathlib.Path, changes: dict, layers: int | None, seq: int) -> Shape:
    config = json.loads(_text(path))
    shipped = dict(config)
    config |= changes
    if layers:
        config[next((key for key in LAYERS if key in config), LAYERS[-1])] = layers
    for key in POSITIONS:
        if key in config:
            config[key] = seq
    if config == shipped:
        return Shape(path.stem, _text(path), str(path))
    return Shape(path.stem, json.dumps(config, indent=2) + "\n")
