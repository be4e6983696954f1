// Measured kernel times of a model's layers, used instead of formulas: the tables of a LLMServingSim profile bundle for
// one degree of tensor parallelism (casys-kaist/LLMServingSim 2.0).
//
// Times are piecewise linear between measured points. Above the last point, the line through the last two points
// continues. Below the first point, its time is used. Both cases are recorded in a ProfileUse. Prefill attention is
// looked up per prompt by (tokens, tokens before them), and the times of the prompts in a batch are summed. Decode
// attention is looked up by (sequences, their mean context).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::transformer {

/// Lookups outside the measured range of a profile, by table and quantity ("qkv_proj tokens").
struct ProfileUse {
  struct Outside {
    std::uint64_t times = 0;
    double least = 0, most = 0;  ///< range of these lookups
    double first = 0, last = 0;  ///< measured range
  };
  std::map<std::string, Outside> outside;
  void note(const std::string& what, double asked, double first, double last);
};

/// Seconds as a function of one quantity. @pre of at(): there is at least one point
class ProfileCurve {
 public:
  /// @return false if there is already a point at x
  bool add(double x, double seconds) { return points_.emplace(x, seconds).second; }
  double at(double x, const std::string& what, ProfileUse& use) const;
  bool empty() const { return points_.empty(); }

 private:
  std::map<double, double> points_;
};

/// Seconds as a function of two quantities: for each measured value of the first, a curve over the second. Curves may
/// have different lengths.
class ProfileSurface {
 public:
  bool add(double x, double y, double seconds) { return curves_[x].add(y, seconds); }
  double at(double x, double y, const std::string& what_x, const std::string& what_y, ProfileUse& use) const;
  bool empty() const { return curves_.empty(); }

 private:
  std::map<double, ProfileCurve> curves_;
};

/// The row of a table with the time of a kernel of a layer (or of the head, after the last layer).
struct ProfileLayer {
  const char* kernel;
  const char* layer;
  bool is_head = false, per_sequence = false;
  bool of_dense_mlp = false;  ///< only dense models: a mixture of experts has a separate table
};
constexpr ProfileLayer kProfileLayers[] = {
    {"embedding", "embedding"},
    {"rmsnorm", "layernorm"},
    {"qkv", "qkv_proj"},
    {"rotary", "rotary_emb"},
    {"o_proj", "o_proj"},
    {"gate_up", "gate_up_proj", false, false, true},
    {"activation", "act_fn", false, false, true},
    {"down", "down_proj", false, false, true},
    {"rmsnorm", "final_layernorm", true},
    {"lm_head", "lm_head", true, true},
    {"sampling", "sampler", true, true},
};

struct LayerProfile {
  std::string path;                                  ///< name of the bundle's folder
  std::string hardware;                              ///< from meta.yaml, or ""
  std::map<std::string, ProfileCurve> dense;         ///< by layer; over tokens
  std::map<std::string, ProfileCurve> per_sequence;  ///< by layer; over sequences
  ProfileSurface prefill;                            ///< over tokens and the tokens before them
  ProfileSurface decode;                             ///< over sequences and their context
  ProfileSurface experts;                            ///< over active experts and tokens; empty for a dense model

  /// Attention of these sequences in one kernel.
  double prefill_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const;
  double decode_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const;
};

}  // namespace railyard::transformer
