#include "sc_main/scenario/table/not_modelled.h"

#include <algorithm>
#include <vector>

namespace railyard::scenario {

namespace {

struct Feature {
  std::vector<const char*> keys;
  const char* text;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> kFeatures{
      {{"dataloader", "data_loading", "num_workers"}, "loading of data; a step begins with its batch in memory"},
      {{"checkpoint", "checkpoint_interval", "save_interval"},
       "checkpoints in a scenario; scripts/train_run.py adds them"},
      {{"eval_interval", "evaluation"}, "evaluation in a scenario; scripts/train_run.py adds it"},
      {{"mtbf_hours", "failures"}, "failures in a scenario; scripts/train_run.py adds them"},
      {{"optimizer_type", "muon", "sgd"}, "optimizers other than Adam"},
      {{"remat", "remat_policy"}, "rematerialisation by a policy on names, as in XLA; recompute lists modules"},
      {{"etp", "expert_tensor_parallel_size"},
       "tensor parallelism of experts other than tp and 1, which expert_tp has"},
      {{"packed_sequences", "sequence_packing", "variable_seq_lengths"},
       "packed sequences and sequences of several lengths in a step"},
      {{"mtp_num_layers", "num_nextn_predict_layers"}, "layers that predict more than one token, in training"},
      {{"lora_dropout", "dora", "qlora"}, "variants of LoRA: dropout of its inputs, DoRA, frozen weights of 4 bits"},
      {{"nvme", "offload_nvme"}, "offload to disks"},
      {{"quantized_weights", "quantized_gradients", "zero_plus_plus"}, "quantised collectives of ZeRO++"},
      {{"rollout", "grpo", "ppo"}, "reinforcement learning: rollouts and training in turn"},
      {{"multi_lora", "max_loras", "lora_adapters"}, "adapters of requests in serving"},
      {{"beam_width", "num_beams"}, "beam search"},
      {{"guided_decoding", "structured_output"}, "output that a grammar constrains"},
  };
  return kFeatures;
}

}  // namespace

const char* not_modelled(const std::string& key) {
  for (const Feature& feature : features())
    if (std::find(feature.keys.begin(), feature.keys.end(), key) != feature.keys.end()) return feature.text;
  return nullptr;
}

}  // namespace railyard::scenario
