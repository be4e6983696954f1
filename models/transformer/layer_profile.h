// Measured kernel times of a model's layers, in place of the formulas': the tables of a LLMServingSim profile bundle for one
// degree of tensor parallelism (casys-kaist/LLMServingSim 2.0).
//
// Times are piecewise linear between measured points. Beyond the last point the last two lead on, before the first one its
// time holds; both are noted in a ProfileUse. Attention is read at (tokens, tokens before them) of each prompt, the prompts of
// a batch one after another, and at (sequences, their mean context) of a decode step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/kernels/attention.h"
#include "gpu/kernels/kernel_time.h"

namespace railyard::transformer {

/// What was asked of a profile outside of what it measured, by table and quantity ("qkv_proj tokens").
struct ProfileUse {
  struct Outside {
    std::uint64_t times = 0;
    double least = 0, most = 0;  ///< asked for
    double first = 0, last = 0;  ///< measured
  };
  std::map<std::string, Outside> outside;
  void note(const std::string& what, double asked, double first, double last);
};

/// Seconds over one quantity. @pre at least one point when read
class ProfileCurve {
 public:
  /// @return false if there is a point at x already
  bool add(double x, double seconds) { return points_.emplace(x, seconds).second; }
  double at(double x, const std::string& what, ProfileUse& use) const;
  bool empty() const { return points_.empty(); }

 private:
  std::map<double, double> points_;
};

/// Seconds over two quantities: a curve over the second for each measured value of the first. Curves may differ in length.
class ProfileSurface {
 public:
  bool add(double x, double y, double seconds) { return curves_[x].add(y, seconds); }
  double at(double x, double y, const std::string& what_x, const std::string& what_y, ProfileUse& use) const;
  bool empty() const { return curves_.empty(); }

 private:
  std::map<double, ProfileCurve> curves_;
};

/// The row of a table that times a kernel of a layer (or of the head, behind the last one).
struct ProfileLayer {
  const char* kernel;
  const char* layer;
  bool is_head = false, per_sequence = false;
  bool of_dense_mlp = false;  ///< a mixture of experts has them in a table of their own
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
  std::string hardware;                              ///< as its meta.yaml says, or ""
  std::map<std::string, ProfileCurve> dense;         ///< layer -> over tokens
  std::map<std::string, ProfileCurve> per_sequence;  ///< layer -> over sequences
  ProfileSurface prefill;                            ///< over tokens and the tokens before them
  ProfileSurface decode;                             ///< over sequences and their context
  ProfileSurface experts;                            ///< over activated experts and tokens; empty for a dense model

  /// Attention of these sequences in one kernel.
  double prefill_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const;
  double decode_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const;
};

/// A kernel that takes `seconds` instead and divides them over its parts as the formula does, so that it follows its share of
/// a GPU likewise.
gpu::KernelTime taking(gpu::KernelTime time, double seconds);

}  // namespace railyard::transformer
